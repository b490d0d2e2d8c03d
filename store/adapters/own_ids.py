"""A store in which each user names sessions in a name space of their own: what two users call `x` are two sessions, and
neither can find out what the other one has. What a user calls `x` is stored as `x~{hash of tenant and user}`.

A session that is stored as `x` itself is found as well, where it is the caller's: one that Genkit's stores made, or
that was made through a store without this. That takes a second read, and so does everything that is not there.
"""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from store.documents.claims import new_session_id
from store.documents.store import DocumentStore
from store.errors import SessionExistsError, SessionNotFoundError, StoreError
from store.ids import mint_id, require_id
from store.models import (
    Abort,
    Adopted,
    Adoption,
    Change,
    Claim,
    Lease,
    NewSession,
    Outcome,
    SameSend,
    Scope,
    Session,
    SessionPage,
    Snapshot,
    SnapshotPage,
    Transcript,
)
from store.state import State

_HASH_BYTES = 12  # 16 characters: each row has them in its fields, and in its index entries
_T = TypeVar("_T")
_Named = TypeVar("_Named", Snapshot, SameSend, Abort)


def stored_id(scope: Scope, own_id: str) -> str:
    """The id under which a session is stored that the user calls `own_id`. InvalidRequestError where that is none."""
    return require_id(own_id, "sessionId") + _suffix(scope)


def own_id(scope: Scope, session_id: str) -> str:
    """What the user calls a stored session."""
    return session_id.removesuffix(_suffix(scope))


def _suffix(scope: Scope) -> str:
    digest = hashlib.sha256(f"{scope.tenant}\n{scope.user}".encode()).digest()  # neither holds a line break
    return "~" + base64.b64encode(digest[:_HASH_BYTES], b"-.").decode()  # without `_`: no id may be of the form `__x__`


class OwnIds(DocumentStore):
    """Implements every protocol of `store.contract` on the documents of another store. Session ids that it takes and
    gives are the user's own; snapshot ids are the store's."""

    def __init__(self, store: DocumentStore) -> None:
        super().__init__(store.shelf)

    async def get_snapshot(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        return _renamed_if(scope, await super().get_snapshot(scope, snapshot_id))

    async def get_latest_snapshot(self, scope: Scope, session_id: str) -> Snapshot | None:
        return _renamed_if(scope, await self._first(scope, session_id, super().get_latest_snapshot))

    async def get_snapshot_metadata(self, scope: Scope, snapshot_id: str) -> Snapshot | None:
        return _renamed_if(scope, await super().get_snapshot_metadata(scope, snapshot_id))

    async def get_latest_snapshot_metadata(self, scope: Scope, session_id: str) -> Snapshot | None:
        return _renamed_if(scope, await self._first(scope, session_id, super().get_latest_snapshot_metadata))

    async def save_snapshot(self, scope: Scope, snapshot_id: str | None, change: Change) -> Snapshot | None:
        known: dict[str, str] = {}

        def changed(present: Snapshot | None) -> Snapshot | None:
            told = _renamed_if(scope, present)
            saved = change(told)
            if not isinstance(saved, Snapshot):
                return saved
            if present is not None and told is not None and saved.session_id == told.session_id:
                return replace(saved, session_id=present.session_id)
            if saved.session_id not in known:
                raise _UnknownSession(saved.session_id)
            return replace(saved, session_id=known[saved.session_id])

        while True:
            try:
                with _refused_by_name(scope):
                    return _renamed_if(scope, await super().save_snapshot(scope, snapshot_id, changed))
            except _UnknownSession as asked:
                known[asked.own_id] = await self._place(scope, asked.own_id)

    async def claim_turn(self, scope: Scope, claim: Claim) -> Lease | SameSend:
        claim_turn = super().claim_turn
        if claim.session_id is not None:
            answer = await self._until_found(
                scope, claim.session_id, lambda key: claim_turn(scope, replace(claim, session_id=key))
            )
        else:
            if claim.snapshot_to_resume is None:
                key = stored_id(self.shelf.require_scope(scope), new_session_id(scope, claim))
                claim = replace(claim, new_session_id=key)
            with _refused_by_name(scope):
                answer = await claim_turn(scope, claim)
        return _renamed(scope, answer) if isinstance(answer, SameSend) else _renamed_lease(answer)

    async def adopt_turn(self, scope: Scope, snapshot_id: str, runner: str, attempt: str) -> Adopted | Adoption:
        answer = await super().adopt_turn(scope, snapshot_id, runner, attempt)
        if isinstance(answer, Adopted):
            _renamed_lease(answer.lease)
        return answer

    async def settle_turn(self, lease: Lease, outcome: Outcome) -> Snapshot:
        with _refused_by_name(lease.scope):
            return _renamed(lease.scope, await super().settle_turn(lease, outcome))

    async def abort_turn(self, scope: Scope, snapshot_id: str) -> Abort:
        return _renamed(scope, await super().abort_turn(scope, snapshot_id))

    async def abort_session(self, scope: Scope, session_id: str) -> Abort:
        present, abort_session = super().get_session, super().abort_session

        async def abort(key: str) -> Abort | None:
            """None for a session that runs no turn, which is refused as a missing one is: it is meant all the same."""
            try:
                return await abort_session(scope, key)
            except SessionNotFoundError:
                if await present(scope, key) is None:
                    raise
                return None

        aborted = await self._until_found(scope, session_id, abort)
        if aborted is None:
            raise SessionNotFoundError(session_id)
        return _renamed(scope, aborted)

    async def create_session(
        self, scope: Scope, session_id: str | None, new: NewSession, custom: State | None = None
    ) -> Session:
        key = await self._place(scope, session_id)
        with _refused_by_name(scope):
            return _renamed_session(scope, await super().create_session(scope, key, new, custom))

    async def get_session(self, scope: Scope, session_id: str) -> Session | None:
        session = await self._first(scope, session_id, super().get_session)
        return None if session is None else _renamed_session(scope, session)

    async def list_sessions(self, scope: Scope, limit: int, cursor: str | None = None) -> SessionPage:
        page = await super().list_sessions(scope, limit, cursor)
        return replace(page, sessions=tuple(_renamed_session(scope, session) for session in page.sessions))

    async def update_session(
        self, scope: Scope, session_id: str, *, title: str | None = None, model: str | None = None
    ) -> Session:
        update = super().update_session
        return _renamed_session(
            scope, await self._until_found(scope, session_id, lambda key: update(scope, key, title=title, model=model))
        )

    async def get_transcript(self, scope: Scope, session_id: str) -> Transcript | None:
        transcript = await self._first(scope, session_id, super().get_transcript)
        if transcript is None:
            return None
        return replace(transcript, session=_renamed_session(scope, transcript.session))

    async def truncate(
        self, scope: Scope, session_id: str, message_id: str, expected_tail: str | None = None
    ) -> Session:
        truncate = super().truncate
        return _renamed_session(
            scope,
            await self._until_found(scope, session_id, lambda key: truncate(scope, key, message_id, expected_tail)),
        )

    async def restore(
        self, scope: Scope, session_id: str, snapshot_id: str, expected_tail: str | None = None
    ) -> Session:
        restore = super().restore
        return _renamed_session(
            scope,
            await self._until_found(scope, session_id, lambda key: restore(scope, key, snapshot_id, expected_tail)),
        )

    async def branch(self, scope: Scope, source_id: str, message_id: str, session_id: str | None = None) -> Session:
        branch, new_key = super().branch, await self._place(scope, session_id)
        made = await self._until_found(scope, source_id, lambda key: branch(scope, key, message_id, new_key))
        return _renamed_session(scope, made)

    async def delete_session(self, scope: Scope, session_id: str) -> None:
        delete = super().delete_session
        await self._until_found(scope, session_id, lambda key: delete(scope, key))

    async def list_snapshots(
        self, scope: Scope, session_id: str, limit: int, cursor: str | None = None
    ) -> SnapshotPage:
        list_snapshots = super().list_snapshots
        page = await self._until_found(scope, session_id, lambda key: list_snapshots(scope, key, limit, cursor))
        return replace(page, snapshots=tuple(_renamed(scope, snapshot) for snapshot in page.snapshots))

    async def _place(self, scope: Scope, given: str | None) -> str:
        """Where a session lies, or is to be made, that the user calls `given`; anywhere where that is None."""
        if given is None:
            return stored_id(self.shelf.require_scope(scope), mint_id())
        for_own, *plain = self._candidates(scope, given)
        for key in plain:
            if await super().get_session(scope, key) is not None and await super().get_session(scope, for_own) is None:
                return key
        return for_own

    async def _first(self, scope: Scope, given: str, read: Callable[[Scope, str], Awaitable[_T | None]]) -> _T | None:
        for key in self._candidates(scope, given):
            found = await read(scope, key)
            if found is not None:
                return found
        return None

    async def _until_found(self, scope: Scope, given: str, call: Callable[[str], Awaitable[_T]]) -> _T:
        refusal: StoreError = SessionNotFoundError(given)
        for key in self._candidates(scope, given):
            try:
                return await call(key)
            except SessionNotFoundError as error:
                if error.session_id != key:
                    raise SessionNotFoundError(own_id(scope, error.session_id)) from None
            except SessionExistsError as error:
                # A branch asks for its new id before it looks for its source, which may be the other one.
                refusal = SessionExistsError(own_id(scope, error.session_id))
        raise refusal

    def _candidates(self, scope: Scope, given: str) -> tuple[str, ...]:
        """The stored ids that a given one may mean, the likely one first. What a user calls `x` has no second name: a
        repeated delete of the session called `x~…` would find `x`."""
        for_own = stored_id(self.shelf.require_scope(scope), given)
        return (for_own,) if own_id(scope, given) != given else (for_own, given)


@contextmanager
def _refused_by_name(scope: Scope) -> Iterator[None]:
    """What the store says of a session that has expired or is being deleted, with the user's own id."""
    try:
        yield
    except SessionNotFoundError as error:
        raise SessionNotFoundError(own_id(scope, error.session_id)) from None


class _UnknownSession(Exception):
    def __init__(self, own_id: str) -> None:
        self.own_id = own_id


def _renamed(scope: Scope, told: _Named) -> _Named:
    return replace(told, session_id=own_id(scope, told.session_id))


def _renamed_if(scope: Scope, snapshot: Snapshot | None) -> Snapshot | None:
    return None if snapshot is None else _renamed(scope, snapshot)


def _renamed_lease(lease: Lease) -> Lease:
    """The same lease, which the store knows by its ground."""
    lease.session_id = own_id(lease.scope, lease.session_id)
    return lease


def _renamed_session(scope: Scope, session: Session) -> Session:
    origin = session.branched_from
    if origin is not None and "sessionId" in origin:
        origin = {**origin, "sessionId": own_id(scope, origin["sessionId"])}
    return replace(session, id=own_id(scope, session.id), branched_from=origin)
