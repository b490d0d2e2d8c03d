"""A process of its own on a file store, run by the tests of this folder: `file_child.py ACTION DIRECTORY NUMBER`.

several   commits several documents, and is killed before step NUMBER
one       commits one document, and is killed before step NUMBER
read      reads, and is killed before step NUMBER (of carrying out a journal that was left)
count     increments a counter NUMBER times by compare-and-set
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path as Directory

from store.database import SERVER_TIME, CommitRefusedError, Create, Delete, Kind, Path, Put, Update, Write
from store.file.database import FileDatabase

KEPT = Path(Kind.SNAPSHOTS, "acme", "kept")
GONE = Path(Kind.SHARDS, "acme", "gone")
NEW = Path(Kind.POINTERS, "acme/team", "new")
LONG = Path(Kind.SNAPSHOTS, "acme", "long" * 300)
COUNTER = Path(Kind.SETTINGS, "acme", "counter")

BEFORE: list[Write] = [Create(KEPT, {"n": 1}), Create(GONE, {"n": 1}), Create(LONG, {"n": 1})]
SEVERAL: list[Write] = [
    Update(KEPT, {"n": 2, "at": SERVER_TIME}),
    Delete(GONE),
    Create(NEW, {"n": 2, "blob": b"\x00"}),
    Put(LONG, {"n": 2}),
]
ONE: list[Write] = [Update(KEPT, {"n": 2})]


def killer(steps: int) -> Callable[[str], None]:
    """Kills this process before the step of that number, counted from 0."""
    left = iter(range(steps))

    def before_step(_: str) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return before_step


async def commit(directory: Directory, steps: int, writes: list[Write]) -> None:
    """One commit."""
    database = FileDatabase(directory, before_step=killer(steps))
    await database.commit(writes)
    await database.close()


async def read(directory: Directory, steps: int) -> None:
    """One read."""
    database = FileDatabase(directory, before_step=killer(steps))
    await database.get([KEPT])
    await database.close()


async def count(directory: Directory, times: int) -> None:
    """As many increments."""
    database = FileDatabase(directory)
    done = 0
    while done < times:
        document = (await database.get([COUNTER])).documents[COUNTER]
        assert document is not None
        try:
            await database.commit([Update(COUNTER, {"n": document.fields["n"] + 1}, update_time=document.update_time)])
        except CommitRefusedError:
            continue
        done += 1
    await database.close()


async def main(action: str, directory: Directory, number: int) -> None:
    """Does what the command line asks for."""
    if action == "count":
        await count(directory, number)
    elif action == "read":
        await read(directory, number)
    else:
        await commit(directory, number, ONE if action == "one" else SEVERAL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Directory(sys.argv[2]), int(sys.argv[3])))
