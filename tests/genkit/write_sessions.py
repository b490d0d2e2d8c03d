"""Run by a test, with Genkit's packages: writes conversations with Genkit's own Firestore store, and prints what that
store reads of them afterwards. Takes {"interval", "conversations": {session: [row]}} as JSON."""

import asyncio
import json
import sys
from typing import Any

from genkit.exp.agent import SessionSnapshot
from genkit_google_cloud.exp import FirestoreSessionStore


async def written(given: dict[str, Any]) -> dict[str, Any]:
    """What the store reads by snapshot id, and by session id."""
    store = FirestoreSessionStore(checkpoint_interval=given["interval"], snapshot_path_prefix=lambda _context: "acme")
    found: dict[str, Any] = {}
    for session_id, rows in given["conversations"].items():
        for row in rows:
            snapshot = SessionSnapshot.model_validate(row)
            await store.save_snapshot(row["snapshotId"], lambda _existing, made=snapshot: made)
        for row in rows:
            found[row["snapshotId"]] = dumped(await store.get_snapshot(snapshot_id=row["snapshotId"]))
        found[session_id] = dumped(await store.get_snapshot(session_id=session_id))
    return found


def dumped(snapshot: SessionSnapshot | None) -> Any:
    """The snapshot as JSON."""
    return None if snapshot is None else snapshot.model_dump(by_alias=True, exclude_none=True, mode="json")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(written(json.load(sys.stdin)))))
