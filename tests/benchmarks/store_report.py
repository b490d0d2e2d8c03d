"""The benchmark of stores as a section of a Markdown document. Holds no test."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.measurements import Measured, Talk

BEGIN, END = "<!-- stores: made by make bench -->\n", "<!-- end of stores -->\n"
BYTES_AT = (10, 100, 300)
OPERATIONS_AT = (1, 25, 300, 1000)
OPERATIONS = {
    "save": "save of one more row",
    "load": "load by id",
    "latest": "latest with its state",
    "metadata": "latest without its state",
}


@dataclass
class Figures:
    """Conversations by their turns, large states by their mebibytes (ours, theirs), and eight increments at once."""

    ours: dict[int, Talk] = field(default_factory=dict)
    unshared: dict[int, Talk] = field(default_factory=dict)
    theirs: dict[int, Talk] = field(default_factory=dict)
    big: dict[int, tuple[Mapping[str, Measured], Mapping[str, Any]]] = field(default_factory=dict)
    increments: tuple[tuple[float, int], Mapping[str, Any]] = ((0.0, 0), {})


def with_section(document: str, section: str) -> str:
    """The document with the section in the place of the one before, or at its end."""
    if BEGIN not in document:
        return f"{document.rstrip()}\n\n{BEGIN}{section}{END}"
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{section}{END}{after}"


def section_of(figures: Figures) -> str:
    """All of it."""
    parts = (_bytes(figures), _operations(figures), _big(figures), _increments(figures))
    return _INTRODUCTION + "".join(f"{line}\n" for part in parts for line in part)


_INTRODUCTION = """\
## Stores

Made by `make bench` (`tests/benchmarks/test_store_costs.py`), side by side in one run on one emulator: firesession, the
same with `share_runs=False`, and `genkit-google-cloud` 0.12.0. The conversation is the recorded sessions' text, cut in
order into turns of 2 KiB. Bytes are by Firestore's rules for storage size: every document counts, indexes do not. What
is measured has an empty cache, but for the whole turn. A turn is claim and settle here, and one save there, where the
runtime makes more of them. Times are medians on a busy two-core machine that the emulator runs on too: they are there
to be compared.

![documents that a turn touches, and bytes stored, by turns](store-costs.png)

"""


def _bytes(figures: Figures) -> Iterator[str]:
    yield "| bytes stored after | firesession | without shared runs | genkit-google-cloud | ratio |"
    yield "|---|---|---|---|---|"
    for count in sorted(figures.ours):
        if count in BYTES_AT or count > max(BYTES_AT):
            sizes = [talks[count].bytes for talks in (figures.ours, figures.unshared, figures.theirs)]
            cells = " | ".join(f"{size:,}" for size in sizes)
            yield f"| {count:,} turns | {cells} | {sizes[2] / sizes[0]:.1f} |"
    yield ""


def _operations(figures: Figures) -> Iterator[str]:
    yield "Requests / documents read / documents written, and milliseconds:"
    yield ""
    yield "| operation | after turns | firesession | genkit-google-cloud | ratio of documents |"
    yield "|---|---|---|---|---|"
    for name, title in OPERATIONS.items():
        for count in OPERATIONS_AT:
            ours, theirs = figures.ours[count].operations[name], figures.theirs[count].operations.get(name)
            yield f"| {title} | {count:,} | {_cell(ours)} | {_cell(theirs)} | {_ratio(ours, theirs)} |"
    for count in OPERATIONS_AT:
        yield f"| a whole turn, warm | {count:,} | {_cell(figures.ours[count].operations['turn'])} | – | – |"
    yield ""


def _big(figures: Figures) -> Iterator[str]:
    yield "| one large state of prose | firesession | genkit-google-cloud |"
    yield "|---|---|---|"
    names = {"save": "saved", "load": "loaded", "append": "saved with one more message"}
    for size, (ours, theirs) in sorted(figures.big.items()):
        for name, title in names.items():
            other = _cell(theirs[name]) if name in theirs else _failure(theirs["error"])
            yield f"| {size} MiB, {title} | {_cell(ours[name])} | {other} |"
    yield ""


def _increments(figures: Figures) -> Iterator[str]:
    (seconds, lost), theirs = figures.increments
    yield "Eight tasks add one to the same row at once:"
    yield f"firesession {seconds} s, {lost} lost; genkit-google-cloud {theirs['seconds']} s, {theirs['lost']} lost."


def _cell(measured: Mapping[str, Any] | None) -> str:
    if measured is None:
        return "–"
    return f"{measured['rpcs']} / {measured['read']} / {measured['written']} · {measured['ms']:,.0f} ms"


def _failure(error: str) -> str:
    known = ("RESOURCE_EXHAUSTED", "TimeoutError")
    return next((f"fails: {name}" for name in known if name in error), error)


def _ratio(ours: Mapping[str, Any], theirs: Mapping[str, Any] | None) -> str:
    if theirs is None:
        return "–"
    touched = [each["read"] + each["written"] for each in (ours, theirs)]
    return f"{touched[1] / touched[0]:.1f}"
