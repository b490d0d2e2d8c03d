"""Run by the benchmark of stores, in an environment that has matplotlib: draws what conversations cost as they grow.

Takes {"file", "stores": [{"name", "documents": [of each turn], "bytes": {turns: bytes}}]} as JSON.
"""

import json
import sys
from typing import Any

import matplotlib as mpl  # type: ignore[import-not-found]  # is in the benchmark's own environment only
from matplotlib import pyplot as plt

COLOURS = ("#1a73e8", "#7baaf7", "#e37400")


def draw(given: dict[str, Any]) -> None:
    """One picture: documents that a turn touches, and bytes that the conversation takes."""
    figure, (touched, stored) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for store, colour in zip(given["stores"], COLOURS, strict=False):
        if store["documents"]:
            touched.plot(range(1, len(store["documents"]) + 1), store["documents"], color=colour, label=store["name"])
        turns = [int(count) for count in store["bytes"]]
        stored.plot(turns, [size / 1e6 for size in store["bytes"].values()], "o-", color=colour, label=store["name"])
    touched.set(title="documents read and written by a turn", xlabel="turn", ylim=(0, None))
    stored.set(title="megabytes stored", xlabel="turns of 2 KiB", xlim=(0, None), ylim=(0, None))
    for axes in (touched, stored):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(given["file"], dpi=110)


if __name__ == "__main__":
    mpl.use("Agg")
    draw(json.load(sys.stdin))
