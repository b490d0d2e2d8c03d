"""Clients that send messages, as browsers and instances do together: every way to send, resend, give up and go on."""

import random
from dataclasses import dataclass, replace

from store.errors import NotFoundError, StoreError, UnavailableError
from store.models import Adopted, Beat, Claim, Lease, NewSession, Outcome, SameSend, SnapshotStatus
from store.rules.history import messages_of
from store.state import Raw, State
from tests.properties.ledger import Meant, Told
from tests.properties.oracle import require
from tests.properties.scheduler import Killed
from tests.properties.world import SCOPE, Instance, World

LARGE = 150_000  # characters that do not compress: more than one commit holds, with the smallest commit size


@dataclass(frozen=True, slots=True)
class Target:
    """Where a message goes, as its client knows the conversation."""

    session_id: str | None
    last_message_id: str | None = None
    resumed: str | None = None


async def send_some(world: World, messages: list[str]) -> None:
    """Sends one message after the other, each until its client is satisfied or gives up."""
    for message_id in messages:
        for _ in range(1 + world.choices.pick((5, 3, 1))):
            try:
                if await _send(world, world.any_instance(), message_id):
                    break
            except Killed:
                continue  # the connection is gone, and what became of the message is not known


async def _send(world: World, instance: Instance, message_id: str) -> bool:
    """One request; whether its client needs to send no more."""
    try:
        target = await _target(world, instance)
    except (UnavailableError, NotFoundError):
        return False
    claim = _claim(world, instance, message_id, target)
    told = _account(world, claim)
    answer = await _claimed(world, instance, claim, told)
    if isinstance(answer, SameSend):
        return _referred(world, told, message_id, answer)
    if answer is None:
        return False
    if claim.queue_seconds is not None:
        return await _run_from_queue(world, claim)
    assert claim.message is not None
    return await Turn(world, instance, told, answer, claim.message).run()


def _referred(world: World, told: Told, message_id: str, answer: SameSend) -> bool:
    """To an earlier turn of the same message, or to its own, which somebody has fetched from the queue already."""
    if answer.snapshot_id != told.snapshot_id:
        world.oracle.denied(told, "same send")
        world.oracle.same_send(message_id, answer)
    return not answer.is_running


async def _run_from_queue(world: World, claim: Claim) -> bool:
    """The queue calls back, at least once; a call that fails is repeated as it is, or as a new one."""
    attempt = world.mint()
    for _ in range(1 + world.choices.pick((2, 1, 1))):
        try:
            return await _adopt(world, world.any_instance(), claim.snapshot_id, attempt)
        except (UnavailableError, Killed):
            has_run = world.oracle.ledger.adopted.get(claim.snapshot_id) == attempt
            attempt = attempt if world.choices.chance(0.5) and not has_run else world.mint()
    return False


async def adopt_some(world: World, count: int) -> None:
    """The queue calls back once more than it should, while another call is under way."""
    for _ in range(count):
        await world.scheduler.pause("looks for a queued turn")
        rows = world.oracle.ledger.rows.values()
        queued = [row.id for row in rows if row.is_running and row.runner is None and row.origin == "turn"]
        if not queued:
            continue
        try:
            await _adopt(world, world.any_instance(), queued[world.choices.pick([1] * len(queued))], world.mint())
        except (UnavailableError, Killed):
            continue


async def _adopt(world: World, instance: Instance, snapshot_id: str, attempt: str) -> bool:
    """Whether the turn was this runner's, and its client needs to send no more."""
    told = world.oracle.ledger.tell(snapshot_id, attempt)
    answer = await instance.store.adopt_turn(SCOPE, snapshot_id, instance.name, attempt)
    if isinstance(answer, Adopted):
        world.oracle.adopted(told, answer.lease)
        return await Turn(world, instance, told, answer.lease, Raw.stored(answer.message)).run()
    world.oracle.denied(told, f"adoption: {answer}")
    return False


async def send_plainly(world: World, instance: Instance, message_id: str, target: Target) -> None:
    """One message, by a client that sends it once and whose turn completes unless something keeps it from it."""
    claim = replace(_plain_claim(world, message_id, target), runner=instance.name)
    told = _account(world, claim)
    try:
        answer = await instance.store.claim_turn(SCOPE, claim)
    except UnavailableError:
        return
    except StoreError as refusal:
        world.oracle.denied(told, refusal.code)
        return
    if isinstance(answer, SameSend):
        _referred(world, told, message_id, answer)
        return
    world.oracle.leased(told, answer)
    assert claim.message is not None
    await Turn(world, instance, told, answer, claim.message).complete()


def _account(world: World, claim: Claim) -> Told:
    world.oracle.ledger.meant[claim.snapshot_id] = Meant(names_parent=claim.snapshot_to_resume is not None)
    return world.oracle.ledger.tell(claim.snapshot_id, claim.attempt)


async def _target(world: World, instance: Instance) -> Target:
    """The session that the client has in view, and its tail: read now, or out of date."""
    sessions = list(world.oracle.ledger.sessions.values())
    if not sessions:
        return Target(None)
    session = sessions[world.choices.pick([1] * len(sessions))]
    rows = world.oracle.ledger.resumable(session.id)
    if rows and world.choices.chance(0.15):
        resumed = rows[world.choices.pick([1] * len(rows))]
        return Target(session.id, world.oracle.ledger.rows[resumed].last_message_id, resumed)
    if world.choices.chance(0.25):
        return Target(session.id, session.last_message_id)
    transcript = await instance.store.get_transcript(SCOPE, session.id)
    return Target(session.id, transcript.session.last_message_id if transcript else None)


def _claim(world: World, instance: Instance, message_id: str, target: Target) -> Claim:
    """With a message id that the client has chosen, or not; for this instance to run, or for a queue."""
    is_queued = world.choices.chance(0.15)
    is_named = target.session_id is None or not world.choices.chance(0.3)
    claim = _plain_claim(world, message_id if is_named else f"unnamed-{world.mint()}", target)
    runner = None if is_queued else instance.name
    seconds = world.options.lease_staleness * 2 if is_queued else None
    return replace(claim, runner=runner, queue_seconds=seconds, message_is_named=is_named)


def _plain_claim(world: World, message_id: str, target: Target) -> Claim:
    return Claim(
        snapshot_id=f"row-{world.mint()}",
        attempt=world.mint(),
        session=NewSession(agent="echo"),
        session_id=target.session_id,
        message=Raw.of({"id": message_id, "role": "user", "content": [{"text": f"This is {message_id}."}]}),
        last_message_id=target.last_message_id,
        snapshot_to_resume=target.resumed,
        message_is_named=True,
    )


async def _claimed(world: World, instance: Instance, claim: Claim, told: Told) -> Lease | SameSend | None:
    """The answer to a claim, which is repeated as it is where it is not known what became of it."""
    for _ in range(2):
        try:
            answer = await instance.store.claim_turn(SCOPE, claim)
        except UnavailableError:
            if world.choices.chance(0.5):
                continue
            return None
        except StoreError as refusal:
            world.oracle.denied(told, refusal.code)
            return None
        if isinstance(answer, Lease):
            world.oracle.leased(told, answer, may_be_adopted=claim.queue_seconds is not None)
        return answer
    return None


class Turn:
    """One turn of one instance, from its lease to what its client is told."""

    def __init__(self, world: World, instance: Instance, told: Told, lease: Lease, message: Raw) -> None:
        self._world = world
        self._instance = instance
        self._told = told
        self._lease = lease
        self._message = message
        self._choices = world.choices

    async def run(self) -> bool:
        """Whether the client needs to send no more."""
        if self._choices.chance(0.4):
            await self._in_batch()
        beat = await self._work()
        if beat is Beat.LOST and self._choices.chance(0.5):
            return False
        return await self._settle(self._outcome(beat))

    async def complete(self) -> None:
        """Ends the turn as turns should end, or is told why not."""
        state = self._meant("completed", self._state("", may_be_large=False))
        outcome = Outcome(SnapshotStatus.COMPLETED, "stop", self._meant("aborted", state))
        await self._settle_once(outcome)

    async def _in_batch(self) -> None:
        """Leaves the beats to the instance for a while; leaves the batch before anything else is written."""
        beating, key = self._instance.beating, self._lease.snapshot_id
        beating[key] = (self._lease, self._told)
        try:
            for _ in range(1 + self._choices.pick((2, 1))):
                await self._world.scheduler.pause("works", instance=self._instance)
        finally:
            del beating[key]
        await self._world.scheduler.pause(
            "leaves the batch", instance=self._instance, may_go=lambda: self._instance.beats_under_way == 0
        )

    async def _work(self) -> Beat:
        beat = Beat.ALIVE
        for _ in range(self._choices.pick((3, 3, 2))):
            try:
                [beat] = await self._instance.store.heartbeat([self._lease])
            except UnavailableError:
                continue
            self._world.oracle.beaten(self._told, beat)
            if beat is not Beat.ALIVE:
                break
        return beat

    def _outcome(self, beat: Beat) -> Outcome:
        completed, aborted = self._state(""), self._state(" (interrupted)")
        interrupted = Outcome(SnapshotStatus.ABORTED, "aborted", self._meant("aborted", aborted))
        if beat is Beat.ABORTING:
            return interrupted
        kind = self._choices.pick((14, 2, 2, 2))
        if kind == 1:
            return Outcome(SnapshotStatus.FAILED, "failed", error={"status": "INTERNAL", "message": "It broke."})
        if kind == 2:
            return interrupted
        done = Outcome(SnapshotStatus.COMPLETED, "stop", self._meant("completed", completed), usage={"inputTokens": 3})
        if kind == 3:  # what was produced is kept as it is when an abort comes
            self._meant("aborted", completed)
            return done
        return replace(done, interrupted=lambda: interrupted)

    def _meant(self, status: str, state: State) -> State:
        self._world.oracle.ledger.meant[self._lease.snapshot_id].may_be(status, state, *self._ids)
        return state

    @property
    def _ids(self) -> tuple[str, str]:
        """The ids of the messages that the turn adds."""
        return str(self._message.key), f"{self._lease.snapshot_id}-m"

    def _state(self, remark: str, *, may_be_large: bool = True) -> State:
        text = f"The answer{remark}."
        if may_be_large and self._choices.chance(0.01):
            text += random.Random(self._lease.snapshot_id).randbytes(LARGE // 2).hex()
        answer = Raw.of({"id": self._ids[1], "role": "model", "content": [{"text": text}]})
        before = self._lease.state
        state = before.with_messages([*messages_of(before), self._message, answer])
        return state.with_member("custom", Raw.of({"turn": self._lease.snapshot_id}))

    async def _settle(self, outcome: Outcome) -> bool:
        for _ in range(1 + self._choices.pick((1, 2))):
            if (settled := await self._settle_once(outcome)) is not None:
                return settled
        return False

    async def _settle_once(self, outcome: Outcome) -> bool | None:
        """Whether the client needs to send no more; None where that is not known: the engine may try again."""
        try:
            snapshot = await self._instance.store.settle_turn(self._lease, outcome)
        except UnavailableError:
            return None
        except StoreError as refusal:
            self._world.oracle.denied(self._told, refusal.code)
            return False
        require(snapshot.parent_id == self._lease.parent_id, f"{snapshot} has another parent than its lease")
        self._world.oracle.acknowledged(self._told, snapshot)
        return snapshot.state is not None
