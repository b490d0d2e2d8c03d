"""Any size: large messages, patches, errors and ids."""

import random
import string

import pytest

from store.conformance.capabilities import Capability
from store.conformance.harness import Stores
from store.conformance.soundness import documents_of, raw
from store.conformance.turns import (
    ABORTED,
    ANN,
    COMPLETED,
    FAILED,
    answered,
    claim,
    claimed,
    completed,
    require,
    same_send,
    save,
)
from store.database import Kind, Path
from store.models import Outcome, Scope
from store.rules.history import messages_of
from store.state import Raw, State

MEBIBYTE = 1 << 20


def noise(seed: int, size: int) -> str:
    """Text that compresses to three quarters."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits + "+/", k=size))


def text(message_id: str, content: str) -> Raw:
    return Raw.of({"id": message_id, "role": "user", "content": [{"text": content}]}, depth=3)


def large(mebibytes: int, of: str = "a word and another, ") -> State:
    """A state of so many messages of a mebibyte."""
    content = of * (MEBIBYTE // len(of))
    return State.of({}).with_messages(text(f"m{number}", f"{number} {content}") for number in range(mebibytes))


async def kind_of(stores: Stores, snapshot_id: str) -> object:
    return (await raw(stores.database, Path(Kind.SNAPSHOTS, ANN.tenant, snapshot_id)))["kind"]


def answered_with(state: State, question: Raw | None) -> State:
    assert question is not None
    return state.with_messages([*messages_of(state), question, text("answer", "Hi")])


HUGE = {"status": "INTERNAL", "message": "It broke. " * 10_000, "details": {"trace": [noise(3, 1000)] * 3000}}
LONGEST = "é" * 698 + "id__"  # 1,400 bytes
LONG_SCOPE = Scope("acme", "é" * 700)


class SizeCases:
    """Sizes that other stores choke on. `large_states` is whether those of many MiB are tried too."""

    large_states = True

    def _require_large_states(self) -> None:
        if not self.large_states:
            pytest.skip("`large_states` is off")

    @pytest.mark.parametrize(
        ("added", "kind"),
        [("prose that repeats itself " * 80_660, "diff"), (noise(1, 2 * MEBIBYTE), "checkpoint")],
        ids=["a patch that compresses", "a patch that does not"],
    )
    async def test_two_mebibytes_more_on_ten_are_a_diff_where_that_fits_into_a_document(
        self, stores: Stores, added: str, kind: str
    ) -> None:
        self._require_large_states()
        store, before = stores.open(), large(10)
        await save(store, "before", state=before)
        after = before.with_messages([*messages_of(before), text("new", added)])
        await save(store, "after", parent_id="before", state=after)
        if Capability.DOCUMENTS in stores.capabilities:
            assert await kind_of(stores, "after") == kind
        cold = stores.open(cache_size=0)
        assert (await require(cold, "after")).state == after
        assert (await require(cold, "before")).state == before

    async def test_a_first_message_of_six_megabytes_is_a_turn_like_any_other(self, stores: Stores) -> None:
        self._require_large_states()
        store, content = stores.open(), noise(2, 6_000_000)
        given = claim("q", text=content)
        lease = await claimed(store, given)
        if Capability.DOCUMENTS in stores.capabilities:  # what was asked, until the turn ends
            assert len(await documents_of(stores.database, Kind.SHARDS)) > 8
        settled = await store.settle_turn(lease, Outcome(COMPLETED, "stop", answered_with(lease.state, given.message)))
        cold = stores.open()
        assert (await require(cold, settled.snapshot_id)).state == settled.state
        again = await same_send(cold, claim("q", text=content))
        assert (again.snapshot_id, again.is_running) == (settled.snapshot_id, False)

    async def test_huge_errors_are_cut_and_their_turns_end(self, stores: Stores) -> None:
        store = stores.open()
        first = await claimed(store, claim("q1"))
        failed = await store.settle_turn(first, Outcome(FAILED, "failed", error=HUGE))
        second = await claimed(store, claim("q2", first.session_id))
        await store.settle_turn(second, Outcome(ABORTED, "aborted", answered(second), error=HUGE))
        await save(store, "saved", session_id=first.session_id, status=FAILED, state=None, error=HUGE)
        for row_id in (failed.snapshot_id, second.snapshot_id, "saved"):
            error = (await require(stores.open(), row_id)).error
            assert error is not None
            assert (error["status"], error["truncated"], "details" in error) == ("INTERNAL", True, False)
            assert str(HUGE["message"]).startswith(error["message"])
            assert 1000 < len(error["message"]) <= 16_384

    async def test_ids_of_1400_bytes_are_ids_like_any_other(self, stores: Stores) -> None:
        """A whole segment of them, a checkpoint at either end, and a turn on top."""
        store, parent, state = stores.open(checkpoint_interval=6), None, State.of({})
        for number in range(8):
            state = state.with_messages([*messages_of(state), text(f"m{number}", "Hello")])
            row_id = f"{LONGEST[:-1]}{number}"
            await save(store, row_id, scope=LONG_SCOPE, session_id=LONGEST, parent_id=parent, state=state)
            parent = row_id
        lease = await claimed(store, claim("q", LONGEST, last_message_id="m7", snapshot_id=LONGEST), LONG_SCOPE)
        settled = await store.settle_turn(lease, completed(lease))
        cold = stores.open()
        assert (await require(cold, str(parent), LONG_SCOPE)).state == state
        assert (await require(cold, LONGEST, LONG_SCOPE)).state == settled.state
        latest = await cold.get_latest_snapshot(LONG_SCOPE, LONGEST)
        assert latest is not None
        assert latest.snapshot_id == LONGEST
