"""Reading a turn's events wherever it runs: from memory where that is here, else from what its runner has written."""

from collections.abc import AsyncGenerator

from functions.dialects.native import ERROR
from functions.engine.assembly import Event
from functions.engine.broadcast import NumberedEvent
from functions.engine.engine import Engine
from functions.engine.following import FollowedStore, follow
from functions.engine.running import RunningTurn
from store.errors import StoreError
from store.models import SameSend, Scope


async def events_of_turn(
    engine: Engine, store: FollowedStore, scope: Scope, turn: RunningTurn | SameSend, after: int = 0
) -> AsyncGenerator[NumberedEvent, None]:
    """The turn's events behind number `after`, then as they come, until its end. What keeps a reader from following it
    is told as an error, since the answer has begun by then; with the last event's number, so that the reader can go on
    behind it elsewhere."""
    running = turn if isinstance(turn, RunningTurn) else engine.running(scope, turn.snapshot_id)
    snapshot_id = turn.lease.snapshot_id if isinstance(turn, RunningTurn) else turn.snapshot_id
    events = (
        follow(store, scope, snapshot_id, after, asks=engine.keeps_logs)
        if running is None
        else running.broadcast.read(after)
    )
    seen = after
    try:
        while (numbered := await (_next(events) if running else engine.until_closing(_next(events)))) is not None:
            seen = numbered.id
            yield numbered
    except StoreError as error:
        yield NumberedEvent(seen, Event(ERROR, {"code": error.code, "message": error.message}))
    finally:
        await events.aclose()  # a reader that leaves must be seen to leave at once, not when it is collected


async def _next(events: AsyncGenerator[NumberedEvent, None]) -> NumberedEvent | None:
    return await anext(events, None)
