"""The check: reads every document once, looks twice at what seems wrong, and repairs it where asked to.

Other processes go on meanwhile. What seems wrong in the first pass, whose documents are of different moments, is read
again, all of one session between two reads of its session document that agree; only what is wrong then is reported.
Repairs are preconditioned commits, one finding at a time, each followed by a new look.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from store.database import CommitRefusedError, CommitUnansweredError, Database, Delete, Document, Kind
from store.errors import DataLossError
from store.fsck.contents import SessionContents, is_foreign
from store.fsck.examine import examine
from store.fsck.findings import Finding, Problem, Progress, Report
from store.fsck.grouping import by_session
from store.fsck.rereading import MOST_LOOKS, read_again
from store.fsck.scan import Scan, TenantDocuments
from store.legacy.rows import is_legacy, refused_ids

GRACE = timedelta(days=1)
_BATCH = 100

OnProgress = Callable[[Progress], None]
OnFinding = Callable[[Finding], None]


def _quiet(_: object) -> None:
    """Stands for a callback that nobody gave."""


async def check(
    database: Database,
    *,
    tenant: str | None = None,
    repair: bool = False,
    grace: timedelta = GRACE,
    on_progress: OnProgress = _quiet,
    on_finding: OnFinding = _quiet,
) -> Report:
    """Checks all documents, or one tenant's. Writes nothing unless `repair`. Costs one read per document, and those of
    a session again where something seems wrong with it. UnavailableError; may be repeated at any time."""
    return await _Check(database, tenant, repair, grace, on_progress, on_finding).run()


class _Check:
    def __init__(
        self,
        database: Database,
        tenant: str | None,
        repair: bool,
        grace: timedelta,
        on_progress: OnProgress,
        on_finding: OnFinding,
    ) -> None:
        self._database = database
        self._repair = repair
        self._grace = grace
        self._on_progress = on_progress
        self._on_finding = on_finding
        self._report = Report()
        self._damage: dict[str, str] = {}
        self._scan = Scan(database, tenant, self._count, self._note_damage)

    async def run(self) -> Report:
        """Everything, tenant by tenant."""
        async for documents in self._scan.tenants():
            self._note_documents(documents)
            sessions, homeless = by_session(documents)
            for document in homeless:
                self._add(Finding(Problem.DOCUMENT, document.path, "it names no session, and no state of it does"))
            for contents in sessions:
                self._report.sessions += contents.record_document is not None
                if examine(contents, self._grace):
                    await self._look_closely(contents)
        for name, reason in self._damage.items():
            self._add(Finding(Problem.DOCUMENT, name, reason))
        return self._report

    def _count(self, kind: Kind, number: int) -> None:
        self._report.documents[kind] += number
        self._on_progress(Progress(kind, self._report.documents[kind]))

    def _note_damage(self, error: DataLossError) -> None:
        self._damage[error.document] = error.reason

    def _note_documents(self, found: TenantDocuments) -> None:
        for kind in (Kind.POINTERS, Kind.SNAPSHOTS, Kind.SHARDS):
            for document in found.documents[kind]:
                self._report.legacy += is_legacy(document)
                self._note_ids(document)
                has_home = kind is Kind.POINTERS or isinstance(document.fields.get("sessionId"), str)
                if has_home or is_legacy(document):
                    continue
                problem = Problem.FORMAT if is_foreign(document) else Problem.DOCUMENT
                self._add(Finding(problem, document.path, "it names no session"))

    def _note_ids(self, document: Document) -> None:
        """Shards are found by their row, and are called after it."""
        if document.path.kind is not Kind.SHARDS or not is_legacy(document):
            for reason in refused_ids(document):
                self._add(Finding(Problem.ID, document.path, reason))

    def _add(self, finding: Finding) -> None:
        self._report.findings.append(finding)
        self._on_finding(finding)

    async def _look_closely(self, contents: SessionContents) -> None:
        """Reports what is wrong with a session, and repairs it step by step."""
        done: list[Finding] = []
        while True:
            contents = await read_again(self._database, contents)
            found = examine(contents, self._grace)
            step = _next_step(found) if self._repair else []
            known = {(finding.document, finding.repair) for finding in done}
            step = [finding for finding in step if (finding.document, finding.repair) not in known]
            if not step:
                break
            if await self._commit(step):
                done += [replace(finding, is_repaired=True) for finding in step]
            elif len(done) > MOST_LOOKS * len(found):
                break
        for finding in [*done, *found]:
            self._add(finding)

    async def _commit(self, step: Sequence[Finding]) -> bool:
        try:
            await self._database.commit([write for finding in step for write in finding.writes])
        except (CommitRefusedError, CommitUnansweredError):
            return False  # somebody was faster, or it is not known: the next look tells
        return True


def _next_step(found: Sequence[Finding]) -> list[Finding]:
    """What can be repaired together: deletions, or one other finding, after which everything is looked at again."""
    possible = [finding for finding in found if finding.writes]
    others = [finding for finding in possible if not all(isinstance(write, Delete) for write in finding.writes)]
    return others[:1] or possible[:_BATCH]
