"""What a turn was asked to do, as its pending row keeps it until it settles."""

from dataclasses import dataclass

from store.canonical import dump
from store.layout.chain import cut_runs, pack_ids
from store.layout.codec import Stored, encode, seal
from store.models import Claim

INLINE_BYTES = 262_144


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The row's fields, and the shards of a request too large for the row."""

    fields: dict[str, object]
    shards: dict[str, Stored]


def plan_request(claim: Claim, shard_size: int) -> RequestPlan:
    """The request inline, compressed, up to 256 KiB; larger ones in shards of the row."""
    text = _text(claim)
    stored = encode(text)
    if len(stored.content) <= INLINE_BYTES:
        return RequestPlan({"request": seal(stored)}, {})
    prefix = f"{claim.snapshot_id}_{token_of(claim.attempt)}r"
    runs = cut_runs(iter([text]), shard_size, shard_size)
    shards = {f"{prefix}_{index}": encode(run) for index, run in enumerate(runs)}
    return RequestPlan({"requestShards": pack_ids(list(shards))}, shards)


def _text(claim: Claim) -> bytes:
    members = [b'"agent":' + dump(claim.session.agent)]
    for name, text in (
        ("message", claim.message and claim.message.text),
        ("resume", claim.resume and claim.resume.text),
        ("model", claim.model and dump(claim.model)),
        ("snapshotId", claim.snapshot_to_resume and dump(claim.snapshot_to_resume)),
    ):
        if text:
            members.append(b'"' + name.encode() + b'":' + text)
    return b"{" + b",".join(members) + b"}"


def token_of(attempt: str) -> str:
    """The part of an attempt that makes the ids of its shards its own."""
    return attempt.replace("-", "")[:8]
