"""Documents that were damaged, one way each. Holds no test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from store.database import Delete, Document, Put, Write
from store.layout.codec import encode

Fields = dict[str, Any]
Change = Callable[[Fields], Fields | None]
"""From a document's fields to what they have become; None: the document is gone."""


Hit = TypeVar("Hit")


@dataclass(frozen=True)
class Damage(Generic[Hit]):
    """One document, and what has become of it. `hits` are the operations that must notice."""

    name: str
    document: Document
    change: Change
    hits: frozenset[Hit]

    def inflict(self) -> Write:
        """The write that does it."""
        changed = self.change(dict(self.document.fields))
        return Delete(self.document.path) if changed is None else Put(self.document.path, changed)


def gone(_: Fields) -> None:
    """The document is missing."""


def without(name: str) -> Change:
    """A field is missing."""
    return lambda fields: {each: value for each, value in fields.items() if each != name}


def having(**changes: Any) -> Change:
    """Fields have other values."""
    return lambda fields: fields | changes


def replaced_by(other: Document) -> Change:
    """The content is another document's."""
    return lambda _: dict(other.fields)


def with_fields_of(other: Document, *names: str) -> Change:
    """Some fields are another document's."""
    return lambda fields: fields | {name: other.fields[name] for name in names}


def flipped(name: str) -> Change:
    """One bit in the middle of a field is another one."""
    return lambda fields: fields | {name: _flipped(fields[name])}


def truncated(name: str) -> Change:
    """A field's second half is missing."""
    return lambda fields: fields | {name: fields[name][: len(fields[name]) // 2]}


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def inside(name: str, change: Change) -> Change:
    """The change happens in a map of the document."""
    return lambda fields: fields | {name: change(dict(fields[name]))}


def entry(number: int, change: Callable[[bytes], Any]) -> Change:
    """The change happens to one element of the tail."""

    def apply(fields: Fields) -> Fields:
        tail = list(fields["tail"])
        tail[number] = change(tail[number])
        return fields | {"tail": tail}

    return apply


def tail(change: Callable[[list[bytes]], Any]) -> Change:
    """The change happens to the tail as a whole; its length is told as it is now."""

    def apply(fields: Fields) -> Fields:
        changed = change(list(fields["tail"]))
        return fields | {"tail": changed, "tailBytes": sum(map(len, changed))}

    return apply


def stored_otherwise(text: bytes, content: str, digest: str) -> Change:
    """Another text, with a digest that is right for it."""
    stored = encode(text)
    return having(**{content: stored.content, "codec": stored.codec, digest: stored.digest})


def of_versions() -> Iterator[tuple[str, Change]]:
    """What any document may suffer."""
    yield "of a newer version", having(formatVersion=2)
    yield "without a version", without("formatVersion")
    yield "with a version that is none", having(formatVersion="1")


def of_shard(other: Document) -> Iterator[tuple[str, Change]]:
    """What a shard may suffer; `other` is another one of the same session."""
    yield "missing", gone
    yield from of_versions()
    yield "flipped", flipped("chunk")
    yield "truncated", truncated("chunk")
    yield "empty", having(chunk=b"")
    yield "without content", without("chunk")
    yield "with text for content", having(chunk="text")
    yield "with another digest", flipped("digest")
    yield "without digest", without("digest")
    yield "with another codec", having(codec="lzma")
    yield "with a wrong codec", having(codec="json")
    yield "swapped", replaced_by(other)
    yield "with another's content", with_fields_of(other, "chunk", "codec")
    yield "with another's content and digest", with_fields_of(other, "chunk", "codec", "digest")
    yield "with another text", stored_otherwise(b'{"messages":[]}', "chunk", "digest")
    yield "with another id", having(shardId="another_0")
    yield "of another session", having(sessionId="another")


def of_row(other: Document) -> Iterator[tuple[str, Change]]:
    """What a diff may suffer; `other` is the next one of the same chain."""
    yield from of_versions()
    yield "flipped patch", flipped("statePatch")
    yield "truncated patch", truncated("statePatch")
    yield "no patch", without("statePatch")
    yield "text for a patch", having(statePatch="[]")
    yield "another digest of the patch", flipped("patchDigest")
    yield "another codec", having(codec="lzma")
    yield "another's patch", with_fields_of(other, "statePatch", "codec", "patchDigest")
    yield "another patch that fits", stored_otherwise(b"[]", "statePatch", "patchDigest")
    yield "a patch that does not fit", stored_otherwise(b'[{"op":"remove","path":"/x"}]', "statePatch", "patchDigest")
    yield "swapped", replaced_by(other)
    yield "another's chain", with_fields_of(other, "chain", "stateDigest")
    yield "flipped chain", flipped("chain")
    yield "truncated chain", truncated("chain")
    yield "no chain", without("chain")
    yield "another state digest", flipped("stateDigest")
    yield "no state digest", without("stateDigest")
    yield "another kind", having(kind="checkpoint")
    yield "a kind that is none", having(kind="delta")
    yield "another id", having(snapshotId="another")
    yield "another session", having(sessionId="another")
    yield "another parent", having(parentId="another")
    yield "no parent", without("parentId")
    yield "a status that is none", having(status="done")
    yield "a status that is not settled", having(status="pending")
    yield "a time that is none", having(createdAt="today")
    yield "no owner", without("ownerId")
    yield "an error that is none", having(error=b"json:oops")


def of_session(other: Document) -> Iterator[tuple[str, Change]]:
    """What a session document with a base and a tail may suffer; `other` is another session's."""
    yield from of_versions()
    yield "swapped", replaced_by(other)
    yield "another id", having(id="another")
    yield "no owner", without("ownerId")
    yield "a time that is none", having(createdAt=0)
    yield "another head", having(headSnapshotId="another")
    yield "no map of its head", without("head")
    yield "text for its head", having(head="text")
    for name in ("chain", "runs", "stateDigest"):
        yield f"flipped {name} of its head", inside("head", flipped(name))
        yield f"truncated {name} of its head", inside("head", truncated(name))
    yield "another's chain of its head", inside("head", having(chain=other.fields["head"]["chain"]))
    yield "another's runs of its head", inside("head", having(runs=other.fields["head"]["runs"]))
    yield "another kind of its head", inside("head", having(kind="checkpoint"))
    yield "a status of its head that is none", inside("head", having(status="done"))
    yield "no time of its head", inside("head", without("createdAt"))


def of_copy(other: Document) -> Iterator[tuple[str, Change]]:
    """What base and tail may suffer."""
    yield "no base", without("base")
    yield "flipped base", flipped("base")
    yield "truncated base", truncated("base")
    yield "another's base", with_fields_of(other, "base")
    yield "text for a base", having(base="text")
    yield "no tail", without("tail")
    yield "text for a tail", having(tail="text")
    yield "flipped tail", entry(0, _flipped)
    yield "truncated tail", entry(0, lambda content: content[:-3])
    yield "text in the tail", entry(0, lambda _: "text")
    yield "a tail that lost its end", tail(lambda entries: entries[:-1])
    yield "a tail that lost its beginning", tail(lambda entries: entries[1:])
    yield "a tail in another order", tail(lambda entries: entries[::-1])
    yield "a tail with an entry twice", tail(lambda entries: [*entries, entries[-1]])
    yield "another's tail", with_fields_of(other, "tail", "tailBytes")
    yield "another length of its tail", having(tailBytes=1)
    yield "another last message", having(lastMessageId="another")
    yield "no last message", without("lastMessageId")
    yield "another count of messages", having(messageCount=7)


def damages_of(document: Document, ways: Iterator[tuple[str, Change]], hits: frozenset[Hit]) -> Iterator[Damage[Hit]]:
    """The document, damaged in each of these ways."""
    for name, change in ways:
        yield Damage(f"{document.path}: {name}", document, change, hits)
