"""What conversations take: storage grows with what was said, and a turn's work does not grow at all."""

import gc
import time
from collections.abc import Callable, Sequence
from copy import copy

import pytest

from store.database import Committed, Document, Kind, Path, Write
from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.firestore.values import EPOCH
from store.ids import mint_id
from store.memory.database import MemoryDatabase
from store.models import Lease, Outcome, Snapshot
from store.state import Raw, State
from tests.benchmarks.conversation import SCOPE, Conversation, message
from tests.benchmarks.prose import cut_in_order, recorded_prose, reference_prose
from tests.benchmarks.sizes import metadata_size, stored

TURN = 2048
TURNS = 300


@pytest.mark.parametrize(("share_runs", "limit"), [(True, 1_000_000), (False, 1_300_000)])
async def test_300_turns_of_recorded_prose_take_a_megabyte(share_runs: bool, limit: int) -> None:
    assert await bytes_after(recorded_prose(), share_runs) <= limit


async def test_300_turns_of_prose_that_does_not_repeat_itself_take_little_more() -> None:
    """Without shared runs it would be 1.65 MB."""
    assert await bytes_after(reference_prose(), share_runs=True) <= 1_050_000


async def bytes_after(text: str, share_runs: bool) -> int:
    """All documents of one session, its session document included."""
    database = MemoryDatabase()
    conversation = Conversation(DocumentStore(Shelf(database, Options(share_runs=share_runs))))
    await conversation.say(cut_in_order(text, TURN, TURNS))
    return sum((await stored(database)).values())


def transcript(count: int) -> State:
    """A state of `count` messages of some 600 bytes, and two other members."""
    pieces = cut_in_order(reference_prose(), 500, count)
    messages = [message(mint_id(), "user", text) for text in pieces]
    return State.of({"custom": {"plan": "trip", "step": 3}, "messages": messages, "note": "n" * 50})


def appended(state: State) -> tuple[State, int]:
    """One more message."""
    return with_messages(state, lambda messages: [*messages, message_of("appended")])


def edited(state: State) -> tuple[State, int]:
    """Another text in the message in the middle."""
    assert state.messages is not None
    middle = len(state.messages) // 2
    value = state.messages[middle].value()
    value["content"][0]["text"] = "another text " * 40
    return with_messages(state, lambda all: [*all[:middle], Raw.of(value, depth=3), *all[middle + 1 :]])


def without_head(state: State) -> tuple[State, int]:
    """The oldest third of the messages is gone."""
    return with_messages(state, lambda messages: messages[len(messages) // 3 :])


def compacted(state: State) -> tuple[State, int]:
    """A summary stands for the first half."""
    return with_messages(state, lambda messages: [message_of("summary"), *messages[len(messages) // 2 :]])


def renamed(state: State) -> tuple[State, int]:
    """Another name for the member before the messages, its value the same; counted as changed is the name."""
    order = tuple("customer" if name == "custom" else name for name in state.order)
    members = {"customer" if name == "custom" else name: raw for name, raw in state.members.items()}
    return State(order, state.messages, members), len("customer")


def message_of(text: str) -> Raw:
    return Raw.of(message(mint_id(), "user", f"{text} " * 60), depth=3)


def with_messages(state: State, change: Callable[[list[Raw]], list[Raw]]) -> tuple[State, int]:
    """The state with its messages changed, and the bytes of those that are new."""
    assert state.messages is not None
    messages = change(list(state.messages))
    known = {raw.digest for raw in state.messages}
    return state.with_messages(messages), sum(len(raw.text) for raw in messages if raw.digest not in known)


CHANGES = [appended, edited, without_head, compacted, renamed]


@pytest.mark.parametrize("count", [10, 100, 1000])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_a_row_costs_what_changed(change: Callable[[State], tuple[State, int]], count: int) -> None:
    """At most twice the change and 256 bytes of patch, and 1 KiB of metadata, even at the end of a segment."""
    saved = Saved()
    state = transcript(count)
    await saved.save(state)
    for step in range(23):
        state = state.with_member("step", Raw.of(step))
        await saved.save(state)
    state, changed = change(state)
    row = await saved.save(state)
    assert row.fields["kind"] == "diff"
    assert len(row.fields["statePatch"]) <= 2 * changed + 256
    assert metadata_size(row) <= 1024
    assert await saved.reads_back(state)


class Saved:
    """Rows saved one on the other."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.store = DocumentStore(Shelf(self.database))
        self.session_id = mint_id()
        self.newest: str | None = None

    async def save(self, state: State) -> Document:
        """One more row; its document."""
        row = Snapshot(self.session_id, parent_id=self.newest, state=state)
        saved = await self.store.save_snapshot(SCOPE, None, lambda _: row)
        assert saved is not None
        self.newest = saved.snapshot_id
        path = Path(Kind.SNAPSHOTS, SCOPE.tenant, saved.snapshot_id)
        document = (await self.database.get([path])).documents[path]
        assert document is not None
        return document

    async def reads_back(self, state: State) -> bool:
        """Whether an instance that knows nothing yet reads the newest row's state."""
        assert self.newest is not None
        cold = DocumentStore(Shelf(self.database))
        found = await cold.get_snapshot(SCOPE, self.newest)
        return found is not None and found.state == state


async def test_a_settle_works_as_much_at_turn_1000_as_at_turn_50() -> None:
    """Processor time of all settles of a segment, its checkpoint included; the two are measured in turn."""
    texts = list(cut_in_order(recorded_prose(), TURN, 1026))
    young, old = (
        Conversation(DocumentStore(Shelf(MemoryDatabase()))),
        Conversation(DocumentStore(Shelf(MemoryDatabase()))),
    )
    await young.say(texts[:26])
    await old.say(texts[:1001])
    early = late = 0.0
    for text in texts[1001:]:
        seconds = await least_seconds([young, old], text)
        early, late = early + seconds[0], late + seconds[1]
    print("RATIO", late / early, late * 1e3, early * 1e3)
    assert late <= 1.3 * early


async def least_seconds(conversations: Sequence[Conversation], text: str) -> list[float]:
    """The next turn of each, settled once for good and some times only to be measured; the least of these."""
    leases = [await conversation.claim(text) for conversation in conversations]
    pairs = list(zip(conversations, leases, strict=True))
    gc.disable()  # its pauses grow with all that the process holds, and hit whom they hit
    rounds = [
        [await seconds_to_settle(lease, conversation.outcome(lease, text)) for conversation, lease in pairs]
        for _ in range(15)
    ]
    gc.enable()
    for conversation, lease in pairs:
        await conversation.settle(lease, text)
    return [min(each) for each in zip(*rounds, strict=True)]


async def seconds_to_settle(lease: Lease, outcome: Outcome) -> float:
    """What a settle works besides its database."""
    store = DocumentStore(Shelf(Bottomless()))
    start = time.process_time()
    await store.settle_turn(copy(lease), outcome)
    return time.process_time() - start


class Bottomless(MemoryDatabase):
    """Takes everything and keeps nothing, so that what is measured is what the store does itself."""

    async def commit(self, writes: Sequence[Write]) -> Committed:
        """Looks like a commit."""
        return Committed((EPOCH,) * len(writes), EPOCH)
