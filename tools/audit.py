"""Looks the locked versions up among the known advisories, with pip-audit; owns the verdict, not the data.

Run as `python tools/audit.py [OPTIONS OF PIP-AUDIT]`. Ends with 1 where a version has an advisory, or where the index
knows some versions and not others; with 0 where all are free of them, and where nobody could be asked, which it says.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = "functions/requirements.txt"
SECONDS: Final = 300

_OUT_OF_REACH: Final = re.compile(r"ConnectionError|ServiceError|Could not connect|Max retries|ReadTimeout|timed out")


class Verdict(NamedTuple):
    """What is printed, and the exit code."""

    lines: list[str]
    code: int


def judge(report: dict[str, Any]) -> Verdict:
    """The verdict on a report of pip-audit."""
    packages = report["dependencies"]
    unknown = [package["skip_reason"] for package in packages if "skip_reason" in package]
    if len(unknown) == len(packages):
        return _not_audited("the index in use tells of no advisories")
    found = [
        f"{package['name']} {package['version']}: {', '.join([flaw['id'], *flaw['aliases']])}; "
        f"fixed in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for package in packages
        for flaw in package.get("vulns", ())
    ]
    known = len(packages) - len(unknown)
    audited = f"{known} of {len(packages)} locked versions were looked up; advisories: {len(found)}"
    return Verdict([*found, *unknown, audited], 1 if found or unknown else 0)


def explain(complaint: str) -> Verdict:
    """The verdict where pip-audit made no report but this complaint."""
    last = complaint.strip().splitlines()[-1:] or ["it said nothing"]
    if _OUT_OF_REACH.search(complaint):
        return _not_audited(last[0])
    return Verdict([f"pip-audit failed: {last[0]}"], 1)


def _not_audited(reason: str) -> Verdict:
    return Verdict([f"NOT AUDITED, the advisories cannot be reached from here: {reason}"], 0)


def audit(options: Sequence[str]) -> Verdict:
    """The verdict on the lock, after everybody who knows was asked."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", LOCK, "--require-hashes", "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", "10", *options]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _not_audited(f"no answer within {SECONDS} seconds")
    # It ends with 1 both where it found something and where it broke; only then is there no report.
    return judge(json.loads(done.stdout)) if done.stdout.startswith("{") else explain(done.stderr)


if __name__ == "__main__":
    verdict = audit(sys.argv[1:])
    print("\n".join(verdict.lines))
    sys.exit(verdict.code)
