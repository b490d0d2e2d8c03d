"""Saving rows: identity, what the change gets and gives, what comes back, that nothing is shared with the caller."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from store.conformance.harness import Store, Stores
from store.conformance.turns import ANN, COMPLETED, FAILED, always, changed, require, save, snapshot, state_of
from store.errors import InvalidRequestError
from store.models import Snapshot
from store.state import State

CREATED = datetime(2025, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


class Noted:
    """A change that notes what it gets and gives `row`, or what `row` makes of it."""

    def __init__(self, row: Snapshot | Callable[[Snapshot | None], Snapshot | None] | None) -> None:
        self.seen: list[Snapshot | None] = []
        self._row = row

    def __call__(self, present: Snapshot | None) -> Snapshot | None:
        self.seen.append(present)
        return self._row(present) if callable(self._row) else self._row


class _OwnError(Exception):
    pass


class SaveCases:
    """Saving rows and reading them back."""

    async def test_a_saved_row_is_read_back_as_it_was_returned(self, store: Store) -> None:
        saved = await save(store, "row", session_id="s", state=state_of("a", "b", custom={"n": 1}))
        assert (saved.snapshot_id, saved.session_id, saved.status) == ("row", "s", COMPLETED)
        assert saved.last_message_id == "b"
        assert saved == await store.get_snapshot(ANN, "row")

    async def test_rows_are_read_by_another_instance(self, stores: Stores, store: Store) -> None:
        saved = await save(store, "row", state=state_of("a", custom={"n": 1}))
        assert await stores.open().get_snapshot(ANN, "row") == saved
        assert await stores.open().get_latest_snapshot(ANN, "s") == saved

    async def test_what_is_missing_reads_as_none(self, store: Store) -> None:
        assert await store.get_snapshot(ANN, "nothing") is None
        assert await store.get_snapshot_metadata(ANN, "nothing") is None
        assert await store.get_latest_snapshot(ANN, "nothing") is None
        assert await store.get_latest_snapshot_metadata(ANN, "nothing") is None
        assert await store.get_session(ANN, "nothing") is None
        assert await store.get_transcript(ANN, "nothing") is None

    async def test_an_absent_id_is_minted_and_readable(self, store: Store) -> None:
        first = await store.save_snapshot(ANN, None, always(snapshot()))
        second = await store.save_snapshot(ANN, None, always(snapshot()))
        assert first is not None
        assert second is not None
        assert first.snapshot_id != second.snapshot_id
        assert await require(store, first.snapshot_id) == first

    async def test_the_given_id_wins_over_the_one_that_the_change_gives(self, store: Store) -> None:
        saved = await store.save_snapshot(ANN, "row", always(snapshot(snapshot_id="another")))
        assert saved is not None
        assert saved.snapshot_id == "row"
        assert await store.get_snapshot(ANN, "another") is None

    async def test_the_change_gets_the_present_row_and_its_result_is_stored(self, store: Store) -> None:
        before = await save(store, "row", error={"n": 1})
        change = Noted(lambda row: row and replace(row, error={"n": 2}))
        after = await store.save_snapshot(ANN, "row", change)
        assert change.seen == [before]
        assert after == await require(store, "row")
        assert after.error == {"n": 2}

    async def test_the_change_gets_none_where_there_is_no_row(self, store: Store) -> None:
        change = Noted(None)
        assert await store.save_snapshot(ANN, "row", change) is None
        assert change.seen == [None]

    async def test_a_change_that_gives_none_writes_nothing(self, store: Store) -> None:
        before = await save(store, "row")
        assert await store.save_snapshot(ANN, "row", lambda _: None) is None
        assert await store.save_snapshot(ANN, "other", lambda _: None) is None
        assert await require(store, "row") == before
        assert await store.get_snapshot(ANN, "other") is None

    @pytest.mark.parametrize("error", [_OwnError("mine"), KeyError("k"), asyncio.CancelledError()])
    async def test_what_the_change_raises_passes_unchanged_and_nothing_is_written(
        self, store: Store, error: BaseException
    ) -> None:
        before = await save(store, "row")

        def fail(_: Snapshot | None) -> Snapshot | None:
            raise error

        with pytest.raises(type(error)) as caught:
            await store.save_snapshot(ANN, "row", fail)
        assert caught.value is error
        assert await require(store, "row") == before

    async def test_an_asynchronous_change_is_refused(self, store: Store) -> None:
        async def change(_: Snapshot | None) -> Snapshot | None:
            return snapshot()

        with pytest.raises(InvalidRequestError, match="plain function"):
            await store.save_snapshot(ANN, "row", change)  # type: ignore[arg-type]  # the mistake that is tested
        assert await store.get_snapshot(ANN, "row") is None

    async def test_a_change_that_gives_something_else_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidRequestError, match="Snapshot or None"):
            await store.save_snapshot(ANN, "row", lambda _: {"state": {}})  # type: ignore[arg-type, return-value]  # likewise
        assert await store.get_snapshot(ANN, "row") is None

    async def test_times_reasons_usage_and_error_come_back_as_they_were_given(self, store: Store) -> None:
        given: dict[str, Any] = {
            "created_at": CREATED,
            "updated_at": CREATED + timedelta(hours=1),
            "heartbeat_at": CREATED + timedelta(microseconds=1),
            "finish_reason": "length",
            "error": {"status": "INTERNAL", "message": "é\0", "details": {"n": [1, None, 1.5, {}]}},
            "usage": {"inputTokens": 3, "outputTokens": 0},
            "model": "google-gla:gemini-2.5-flash",
            "message_id": "m",
        }
        saved = await save(store, "row", status=FAILED, state=None, **given)
        assert {name: getattr(saved, name) for name in given} == given
        assert await require(store, "row") == saved

    async def test_a_row_without_times_is_created_and_updated_at_the_same_moment(self, store: Store) -> None:
        saved = await save(store, "row")
        assert saved.created_at is not None
        assert saved.updated_at == saved.created_at

    async def test_the_update_time_defaults_to_the_creation(self, store: Store) -> None:
        saved = await save(store, "row", created_at=CREATED)
        assert (saved.created_at, saved.updated_at) == (CREATED, CREATED)

    async def test_a_time_of_another_zone_is_the_same_moment(self, store: Store) -> None:
        await save(store, "row", created_at=CREATED.astimezone(timezone(timedelta(hours=9))))
        assert (await require(store, "row")).created_at == CREATED

    @pytest.mark.parametrize("name", ["created_at", "updated_at", "heartbeat_at"])
    async def test_a_time_without_a_zone_is_refused_by_name(self, store: Store, name: str) -> None:
        naive: dict[str, Any] = {name: datetime(2026, 1, 1)}
        with pytest.raises(InvalidRequestError, match=name):
            await save(store, "row", **naive)
        assert await store.get_snapshot(ANN, "row") is None

    async def test_rewriting_keeps_the_creation_and_moves_the_update(self, store: Store) -> None:
        before = await save(store, "row", created_at=CREATED)
        after = await store.save_snapshot(
            ANN, "row", changed(created_at=CREATED + timedelta(days=1), finish_reason="stop")
        )
        assert after == await require(store, "row")
        assert after.created_at == CREATED
        assert before.updated_at is not None
        assert after.updated_at is not None
        assert after.updated_at > before.updated_at

    async def test_rewriting_drops_what_the_change_leaves_out(self, store: Store) -> None:
        optional: dict[str, Any] = {
            "finish_reason": "stop",
            "error": {"a": 1},
            "usage": {"totalTokens": 1},
            "model": "m",
        }
        await save(store, "row", **optional)
        await store.save_snapshot(ANN, "row", changed(**dict.fromkeys(optional)))
        after = await require(store, "row")
        assert [getattr(after, name) for name in optional] == [None] * len(optional)
        assert await store.get_latest_snapshot(ANN, "s") == after

    async def test_changing_what_was_passed_or_returned_changes_nothing(self, stores: Stores, store: Store) -> None:
        value = {"messages": [{"id": "a", "content": [{"text": "x"}]}], "custom": {"list": [1]}}
        error, usage = {"details": {"n": 1}}, {"totalTokens": 1}
        saved = await save(store, "row", state=State.of(value), error=error, usage=usage)
        value["messages"][0]["content"][0]["text"] = "changed"  # type: ignore[index]  # a plain value, whatever it holds
        error["details"]["n"] = 2
        usage["totalTokens"] = 2
        assert saved.state is not None
        saved.state.value()["custom"]["list"].append(2)
        read = await require(store, "row")
        assert read.error is not None
        assert isinstance(read.usage, dict)
        read.error["details"]["n"] = 3
        read.usage["totalTokens"] = 3
        for instance in (store, stores.open()):
            again = await require(instance, "row")
            assert again.state == State.of(
                {"messages": [{"id": "a", "content": [{"text": "x"}]}], "custom": {"list": [1]}}
            )
            assert (again.error, again.usage) == ({"details": {"n": 1}}, {"totalTokens": 1})

    async def test_a_state_may_be_empty_or_have_no_messages(self, store: Store) -> None:
        for row_id, state in (("empty", State.of({})), ("custom", State.of({"custom": None})), ("none", state_of())):
            saved = await save(store, row_id, state=state)
            assert (saved.state, saved.last_message_id) == (state, None)
            assert (await require(store, row_id)).state == state

    async def test_a_session_made_by_a_save_counts_the_messages_of_its_head(self, store: Store) -> None:
        await save(store, "row", state=state_of("a", "b"))
        session = await store.get_session(ANN, "s")
        assert session is not None
        assert (session.head_snapshot_id, session.last_message_id, session.message_count) == ("row", "b", 2)
        await save(store, "next", parent_id="row", state=state_of())
        session = await store.get_session(ANN, "s")
        assert session is not None
        assert (session.head_snapshot_id, session.last_message_id, session.message_count) == ("next", None, 0)
