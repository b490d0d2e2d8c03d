"""`python -m functions.cli.fsck [--tenant TENANT] [--repair] [--json]`: checks what the configured store holds.

Findings go to the standard output, one a line, as they come; progress and the summary to the standard error. Ends with
0 where nothing is wrong (any more), 1 where something is left, 2 where the check could not be made.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence

from functions.settings import Settings, settings_of_process
from store.database import Database
from store.errors import InvalidRequestError, StoreError
from store.fsck.check import check
from store.fsck.findings import Finding, Progress, Report

_SECONDS_BETWEEN_LINES = 1.0


def main(arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """The exit code."""
    asked = _parser().parse_args(arguments)
    settings = settings_of_process(os.environ if environ is None else environ)
    try:
        report = asyncio.run(_check(settings, asked))
    except StoreError as error:
        print(f"firesession fsck: {error.message}", file=sys.stderr)
        return 2
    print(_summary(report, asked.repair), file=sys.stderr)
    return 1 if report.unrepaired else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("firesession fsck", description="Checks what the configured store holds.")
    parser.add_argument("--tenant", help="checks this tenant alone, instead of all")
    parser.add_argument("--repair", action="store_true", help="repairs what can be; without it nothing is written")
    parser.add_argument("--json", action="store_true", help="gives findings as JSON, one object a line")
    return parser


async def _check(settings: Settings, asked: argparse.Namespace) -> Report:
    database = open_database(settings)
    try:
        return await check(
            database,
            tenant=asked.tenant,
            repair=asked.repair,
            on_progress=_Meter(),
            on_finding=_print_json if asked.json else _print_text,
        )
    finally:
        await database.close()


def open_database(settings: Settings) -> Database:
    """The documents of the store that the settings name; InvalidRequestError where it keeps none."""
    if settings.store == "firestore":
        from store.firestore.database import FirestoreDatabase

        assert settings.project is not None  # read_settings has refused a Firestore store without one
        return FirestoreDatabase(
            settings.project,
            database=settings.firestore_database,
            collection=settings.collection,
            emulator_host=settings.emulator_host,
        )
    if settings.store == "file":
        from store.file.database import FileDatabase

        if not settings.store_path.is_dir():
            raise InvalidRequestError(f"There is no folder {str(settings.store_path)!r} (STORE_PATH).")
        return FileDatabase(settings.store_path, collection=settings.collection, poll_interval=0)
    raise InvalidRequestError("STORE=memory keeps nothing that could be checked.")


class _Meter:
    """Says now and then how far the check has come."""

    def __init__(self) -> None:
        self._said = time.monotonic()
        self._documents: dict[str, int] = {}

    def __call__(self, progress: Progress) -> None:
        self._documents[progress.kind.value] = progress.documents
        if time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            print(f"read {_counts(self._documents)}", file=sys.stderr)


def _counts(documents: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in documents.items() if number) or "no documents"


def _print_text(finding: Finding) -> None:
    print(finding)


def _print_json(finding: Finding) -> None:
    line = {
        "problem": finding.problem.value,
        "document": str(finding.document),
        "reason": finding.reason,
        "repair": finding.repair,
        "repaired": finding.is_repaired,
    }
    print(json.dumps(line, ensure_ascii=False))


def _summary(report: Report, is_repair: bool) -> str:
    read = _counts({kind.value: number for kind, number in report.documents.items()})
    lines = [f"checked {report.sessions} sessions: {read}"]
    if report.legacy:
        lines.append(f"{report.legacy} documents were written by Genkit's own stores")
    left = report.unrepaired
    repaired = len(report.findings) - len(left)
    if repaired:
        lines.append(f"repaired {repaired}")
    lines.append(f"{len(left)} findings are left" if left else "nothing is wrong")
    if left and not is_repair and any(finding.repair for finding in left):
        lines.append("--repair would repair those that say how")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
