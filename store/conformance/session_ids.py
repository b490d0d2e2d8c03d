"""What is called like another user's session: refused as missing, or, where that is declared, a session of its own."""

from collections.abc import Awaitable, Callable

import pytest

from store.conformance.capabilities import Capability
from store.conformance.harness import Store, Stores
from store.conformance.turns import ANN, BOB, claim, claimed, completed, converse, save, state_of
from store.errors import SessionNotFoundError
from store.models import NewSession, Scope, Snapshot

ECHO = NewSession("echo")


async def _claim(store: Store) -> None:
    lease = await claimed(store, claim("b", new_session_id="s"), BOB)
    assert lease.session_id == "s"
    settled = await store.settle_turn(lease, completed(lease))
    assert settled.session_id == "s"


async def _branch(store: Store) -> None:
    source = (await converse(store, "b", scope=BOB)).session_id
    made = await store.branch(BOB, source, "b-answer", "s")
    assert (made.id, (made.branched_from or {})["sessionId"]) == ("s", source)


MAKES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "create_session": lambda store: store.create_session(BOB, "s", ECHO),
    "create_session with a state": lambda store: store.create_session(BOB, "s", ECHO, state_of("b")),
    "save_snapshot": lambda store: save(store, "bobs", scope=BOB, session_id="s"),
    "branch": _branch,
    "claim_turn": _claim,
}


async def told(store: Store, scope: Scope) -> tuple[object, Snapshot | None]:
    """What a user is told of `s`."""
    return await store.get_session(scope, "s"), await store.get_latest_snapshot(scope, "s")


class SessionIdCases:
    """Two users of one tenant, and one name."""

    @pytest.mark.parametrize("name", MAKES)
    async def test_what_is_called_like_anothers_session_is_refused_or_apart(
        self, stores: Stores, store: Store, name: str
    ) -> None:
        await store.create_session(ANN, "s", ECHO, state_of("a"))
        anns = await told(store, ANN)
        if Capability.OWN_IDS in stores.capabilities:
            await MAKES[name](store)
            session = await stores.open().get_session(BOB, "s")
            assert session is not None
            assert (session.id, session.owner_id) == ("s", "bob")
            assert [each.id for each in (await store.list_sessions(BOB, 10)).sessions][:1] == ["s"]
        else:
            with pytest.raises(SessionNotFoundError):
                await MAKES[name](store)
            assert await told(store, BOB) == (None, None)
        assert await told(stores.open(), ANN) == anns
