"""The page about insight names what there is: every metric, and no other."""

import re
from pathlib import Path

from opentelemetry.metrics import Meter, NoOpMeter, NoOpMeterProvider

from functions.replies import COSTS_HEADER
from functions.telemetry import ENDPOINT, Telemetry
from store.firestore.calls import Tally

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "insight.md").read_text("utf-8")


class Named(NoOpMeterProvider):
    """Remembers what was made."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def get_meter(self, *_: object, **__: object) -> Meter:
        names = self.names

        class Remembering(NoOpMeter):
            def __getattribute__(self, name: str) -> object:
                made = object.__getattribute__(self, name)
                if not name.startswith("create_"):
                    return made
                return lambda *given, **more: names.append(given[0]) or made(*given, **more)  # type: ignore[func-returns-value]  # appends first

        return Remembering("firesession")


def test_the_page_lists_every_metric() -> None:
    made = Named()
    Telemetry(Tally, meters=made)
    assert re.findall(r"^\| `(firesession\.[a-z_.]+)` \|", PAGE, re.MULTILINE) == made.names


def test_the_page_names_the_header_and_the_setting() -> None:
    assert f"`{COSTS_HEADER}`" in PAGE
    assert f"`{ENDPOINT}`" in PAGE
