"""What a store may offer besides reading and writing snapshots, and which protocol stands for it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from store import contract


class Capability(StrEnum):
    """Declared by a harness, and held to: what is declared has to work, what works has to be declared."""

    METADATA = "metadata"  # reading rows without their state
    SUBSCRIPTIONS = "subscriptions"  # following a row's status
    TURNS = "turns"  # claim, heartbeat, settle, abort
    DIRECTORY = "directory"  # session records
    EDITING = "editing"  # truncate, restore, branch, delete, tree
    QUEUE = "queue"  # turns that wait for a runner
    STREAMS = "streams"  # event logs of running turns
    RETENTION = "retention"  # rules of what is kept, and the sweep
    PRUNING = "pruning"  # the option `max_persisted_chain_length`
    NESTED_TENANTS = "nested tenants"  # tenants such as `a/b`
    DOCUMENTS = "documents"  # made of a `Database` of documents, which the harness opens to the suite
    OWN_IDS = "own ids"  # what two users of a tenant call the same is two sessions


EVERYTHING: Final = frozenset(Capability) - {Capability.OWN_IDS}
"""What our backends have. OWN_IDS is another promise, not one more: without it, the ids of others cannot be used."""

PROTOCOLS: Final[Mapping[Capability, type]] = {
    Capability.METADATA: contract.SnapshotMetadataReader,
    Capability.SUBSCRIPTIONS: contract.SnapshotSubscriber,
    Capability.TURNS: contract.TurnStore,
    Capability.DIRECTORY: contract.SessionDirectory,
    Capability.EDITING: contract.TranscriptEditor,
    Capability.QUEUE: contract.QueuedTurns,
    Capability.STREAMS: contract.TurnStreams,
    Capability.RETENTION: contract.RetentionStore,
}


def methods_of(protocol: type) -> frozenset[str]:
    """The names of a protocol's methods."""
    return frozenset(name for name in vars(protocol) if not name.startswith("_"))


CAPABILITY_OF: Final[Mapping[str, Capability]] = {
    name: capability for capability, protocol in PROTOCOLS.items() for name in methods_of(protocol)
}
