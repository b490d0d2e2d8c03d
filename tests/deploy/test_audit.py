"""The audit fails on known advisories, and never takes silence for their absence."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.acceptance.server_process import free_port
from tools.audit import Verdict, audit, explain, judge

FLAW = {
    "id": "TEST-2026-1",
    "aliases": ["CVE-2026-1"],
    "summary": "It gives way.",
    "published": "2026-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "starlette", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}


def package(name: str, *flaws: str) -> dict[str, Any]:
    vulns = [{"id": flaw, "aliases": [], "fix_versions": ["2.0"], "description": "It gives way."} for flaw in flaws]
    return {"name": name, "version": "1.0", "vulns": vulns}


UNKNOWN = {"name": "c", "skip_reason": "c (1.0) was not found"}


def test_versions_without_advisories_pass() -> None:
    lines = ["2 of 2 locked versions were looked up; advisories: 0"]
    assert judge({"dependencies": [package("a"), package("b")]}) == Verdict(lines, 0)


def test_an_advisory_fails_with_its_name_and_its_remedy() -> None:
    verdict = judge({"dependencies": [package("a", "X-1"), package("b")]})
    assert verdict == Verdict(["a 1.0: X-1; fixed in 2.0", "2 of 2 locked versions were looked up; advisories: 1"], 1)


def test_a_version_that_the_index_alone_does_not_know_fails() -> None:
    """An index that answers for others: this version is withdrawn, or was never there."""
    verdict = judge({"dependencies": [package("a"), UNKNOWN]})
    assert verdict.code == 1
    assert UNKNOWN["skip_reason"] in verdict.lines


def test_an_index_that_knows_nothing_is_one_that_cannot_be_asked() -> None:
    """A mirror that serves packages and no advisories looks like this; it is said, and passes."""
    verdict = judge({"dependencies": [UNKNOWN, UNKNOWN]})
    assert verdict.code == 0
    assert verdict.lines[0].startswith("NOT AUDITED")


def test_a_failure_of_another_kind_is_not_taken_for_silence() -> None:
    assert explain("Traceback …\nKeyError: 'vulns'") == Verdict(["pip-audit failed: KeyError: 'vulns'"], 1)
    assert explain("").code == 1


class Advisories(BaseHTTPRequestHandler):
    """A database of advisories that has one, of starlette, while it is told to."""

    has_flaw: ClassVar[bool]
    asked: ClassVar[set[str]]

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = query["package"]["name"]
        self.asked.add(name)
        answer = json.dumps({"vulns": [FLAW]} if self.has_flaw and name == "starlette" else {}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def advisories() -> Iterator[str]:
    Advisories.asked = set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def asking(url: str, folder: Path) -> list[str]:
    return ["--vulnerability-service", "osv", "--osv-url", url, "--cache-dir", str(folder)]


@pytest.mark.deploy
@pytest.mark.parametrize("has_flaw", [True, False])
def test_every_locked_version_is_looked_up(advisories: str, has_flaw: bool, tmp_path: Path) -> None:
    Advisories.has_flaw = has_flaw
    verdict = audit(asking(advisories, tmp_path))
    assert verdict.code == (1 if has_flaw else 0), verdict
    assert {"starlette", "grpcio", "cryptography", "h11"} <= Advisories.asked
    assert verdict.lines[-1].endswith(f"locked versions were looked up; advisories: {int(has_flaw)}")
    assert [line for line in verdict.lines if "CVE-2026-1, TEST-2026-1; fixed in 99.0" in line] == verdict.lines[:-1]


@pytest.mark.deploy
def test_an_audit_out_of_reach_says_so_and_passes(tmp_path: Path) -> None:
    verdict = audit(asking(f"http://127.0.0.1:{free_port()}", tmp_path))
    assert (verdict.code, verdict.lines[0][:11]) == (0, "NOT AUDITED")


@pytest.mark.deploy
def test_a_wrong_call_fails() -> None:
    assert audit(["--no-such-option"]).code == 1
