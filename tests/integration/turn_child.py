"""Processes of their own that run turns on a file store, started by the tests of this folder.

turns DIRECTORY SESSION NUMBER NAME   runs that many turns, whoever else does, and prints the ids of their rows
kill ACTION DIRECTORY SESSION         for every step of ACTION's commits: does it in a copy of the directory, named by
                                      the step's number, in a process that is killed before that step; prints how many
stop DIRECTORY SESSION                claims a turn, prints its row, and settles it as aborted when it is asked to stop
"""

import asyncio
import os
import random
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path as Directory

from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import ConflictError
from store.file.database import FileDatabase
from store.file.store import FileStore
from store.rules.history import last_message_id
from tests.contract.turns import ANN, RUNNER, aborted, claim, claimed, completed

Action = Callable[[DocumentStore, str, Callable[[], None]], Awaitable[None]]


class Killer:
    """Kills this process before the step of that number, counted from when it was armed."""

    def __init__(self, number: int | None) -> None:
        self._left = number
        self._is_armed = False
        self.steps = 0

    def arm(self) -> None:
        """From now on steps count."""
        self._is_armed = True

    def __call__(self, _: str) -> None:
        if not self._is_armed:
            return
        if self._left == self.steps:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1


async def settle(store: DocumentStore, session_id: str, arm: Callable[[], None]) -> None:
    """One turn, whose settle may be cut short."""
    transcript = await store.get_transcript(ANN, session_id)
    tail = last_message_id(transcript.state if transcript else None)
    lease = await claimed(store, claim("killed", session_id, last_message_id=tail))
    arm()
    await store.settle_turn(lease, completed(lease))


async def delete(store: DocumentStore, session_id: str, arm: Callable[[], None]) -> None:
    """A deletion that may be cut short."""
    arm()
    await store.delete_session(ANN, session_id)


async def claim_stale(store: DocumentStore, session_id: str, arm: Callable[[], None]) -> None:
    """A claim that takes over the lease of an owner that has died, and may be cut short itself."""
    await claimed(store, claim("dead", session_id, check_tail=False))
    late = DocumentStore(Shelf(store._shelf.database, Options(lease_staleness=1e-6)))
    arm()
    await claimed(late, claim("killed", session_id, check_tail=False))


async def truncate(store: DocumentStore, session_id: str, arm: Callable[[], None]) -> None:
    """A cut that may be cut short."""
    arm()
    await store.truncate(ANN, session_id, "turn1")


async def settle_large(store: DocumentStore, session_id: str, arm: Callable[[], None]) -> None:
    """One turn whose state takes several commits, the last of which publishes it."""
    small = DocumentStore(Shelf(store._shelf.database, Options(commit_size=65_536, shard_size=30_000, base_size=0)))
    lease = await claimed(small, claim("killed", session_id, check_tail=False))
    arm()
    await small.settle_turn(lease, completed(lease, random.Random(1).randbytes(80_000).hex()))


ACTIONS: dict[str, Action] = {
    "settle": settle,
    "delete": delete,
    "claim": claim_stale,
    "truncate": truncate,
    "large": settle_large,
}


async def act(action: str, directory: Directory, session_id: str, number: int | None) -> int:
    """How many steps there were."""
    killer = Killer(number)
    database = FileDatabase(directory, poll_interval=0, before_step=killer)
    store = DocumentStore(Shelf(database, Options(checkpoint_interval=3, base_size=0)))
    await ACTIONS[action](store, session_id, killer.arm)
    await store.close()
    return killer.steps


def kill(action: str, directory: Directory, session_id: str) -> None:
    """Every step in a process of its own; forked, because importing everything anew takes longer than the test."""
    counted = shutil.copytree(directory, directory.with_name("counted"))
    steps = asyncio.run(act(action, counted, session_id, None))
    for number in range(steps):
        copy = shutil.copytree(directory, directory.with_name(f"step{number}"))
        child = os.fork()
        if child == 0:
            asyncio.run(act(action, copy, session_id, number))
            os._exit(1)  # it was to be killed
        status = os.waitpid(child, 0)[1]
        if os.WTERMSIG(status) != signal.SIGKILL:
            raise SystemExit(f"step {number} was not reached")
    print(steps)


async def turns(directory: Directory, session_id: str, number: int, name: str) -> None:
    """Claims until it gets the session, as a client does that is told that it is busy or outdated."""
    store = FileStore(directory, poll_interval=0)
    for turn in range(number):
        while True:
            transcript = await store.get_transcript(ANN, session_id)
            tail = last_message_id(transcript.state if transcript else None)
            try:
                lease = await claimed(store, claim(f"{name}{turn}", session_id, last_message_id=tail))
            except ConflictError:
                continue
            settled = await store.settle_turn(lease, completed(lease))
            print(settled.snapshot_id)
            break
    await store.close()


async def stop_when_asked(directory: Directory, session_id: str) -> None:
    """Claims a turn, prints its row, and ends it as aborted as soon as it is asked to stop."""
    store = FileStore(directory, poll_interval=0.02)
    lease = await claimed(store, claim("q", session_id, last_message_id="first-answer"))
    async with store.watch_aborts(RUNNER) as asked:
        print(lease.snapshot_id, flush=True)
        async for ids in asked:
            if lease.snapshot_id in ids:
                break
    await store.heartbeat([lease])
    await store.settle_turn(lease, aborted(lease))
    await store.close()


def main(arguments: list[str]) -> None:
    """Does what the command line asks for."""
    if arguments[0] == "kill":
        kill(arguments[1], Directory(arguments[2]), arguments[3])
    elif arguments[0] == "turns":
        asyncio.run(turns(Directory(arguments[1]), arguments[2], int(arguments[3]), arguments[4]))
    else:
        asyncio.run(stop_when_asked(Directory(arguments[1]), arguments[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
