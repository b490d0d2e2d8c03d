"""Steps of the tests of the check. Holds no test."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from store.database import Create, Delete, Fields, Kind, Path, Update, Write
from store.documents.store import DocumentStore
from store.fsck.check import check
from store.fsck.findings import Finding, Problem, Report
from tests.contract.soundness import complaints, documents_of
from tests.contract.stores import Stores
from tests.contract.turns import (
    save,
    state_of,
)

NOW = timedelta(0)


def row(snapshot_id: str) -> Path:
    return Path(Kind.SNAPSHOTS, "acme", snapshot_id)


def session(session_id: str = "s") -> Path:
    return Path(Kind.POINTERS, "acme", session_id)


async def save_chain(store: DocumentStore, *row_ids: str) -> None:
    """One row on the other, each with one more message."""
    for index, row_id in enumerate(row_ids):
        parent = row_ids[index - 1] if index else None
        await save(store, row_id, parent_id=parent, state=state_of(*row_ids[: index + 1]))


async def break_documents(stores: Stores, *writes: Write) -> None:
    stores.is_damaged = True
    await stores.database.commit(writes)


async def everything(stores: Stores) -> dict[Path, Fields]:
    return {document.path: document.fields for kind in Kind for document in await documents_of(stores.database, kind)}


async def dry(stores: Stores, **keywords: Any) -> list[Finding]:
    """What a dry run finds; it changes nothing, and what a repair would do has a condition each."""
    before = await everything(stores)
    findings = (await check(stores.database, **keywords)).findings
    assert await everything(stores) == before
    assert [finding for finding in findings if finding.writes and not any(map(has_condition, finding.writes))] == []
    return findings


def has_condition(write: Write) -> bool:
    """Whether somebody else's write in between refuses it."""
    return isinstance(write, Create) or (isinstance(write, Update | Delete) and write.update_time is not None)


async def repaired(stores: Stores, **keywords: Any) -> Report:
    """A repair, after which a check finds nothing, and nothing else is wrong either."""
    report = await check(stores.database, repair=True, **keywords)
    assert report.unrepaired == []
    assert await dry(stores, **keywords) == []
    assert await complaints(stores) == []
    return report


def problems(findings: Sequence[Finding]) -> list[tuple[Problem, str]]:
    return [(finding.problem, str(finding.document)) for finding in findings]


def shard_path(shard_id: str) -> Path:
    return Path(Kind.SHARDS, "acme", shard_id)


def shard_of(shard_id: str, session_id: str) -> Fields:
    return {"formatVersion": 1, "shardId": shard_id, "sessionId": session_id, "chunk": b"x", "codec": "json"}
