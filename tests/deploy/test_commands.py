"""The commands that the pages print are ones that the Google Cloud SDK has, with options that it knows."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.deploy.packages import ROOT, gcloud

PAGES = ("README.md", "docs/deploying.md", "docs/retention.md", "docs/running-it-for-real.md")


class Command(NamedTuple):
    """What is run, without what it is run on, and the options given to it."""

    words: tuple[str, ...]
    options: frozenset[str]


def printed() -> set[Command]:
    """All commands of gcloud in the pages' blocks; a line that ends with a backslash goes on."""
    blocks = [block for page in PAGES for block in re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)]
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    commands = set()
    for line in lines:
        if line.startswith("gcloud "):
            words = shlex.split(line, comments=True)[1:]
            options = frozenset(word.split("=")[0] for word in words if word.startswith("--"))
            end = next((at for at, word in enumerate(words) if not re.fullmatch("[a-z][a-z0-9-]*", word)), len(words))
            commands.add(Command(tuple(words[:end]), options))
    return commands


@pytest.mark.deploy
@pytest.mark.timeout(300)
def test_every_printed_command_and_option_exists(tmp_path: Path) -> None:
    """Held against `--help`, which lists the options at the beginnings of lines."""
    commands = printed()
    assert len(commands) > 5
    unknown = [
        (command.words, option)
        for command in sorted(commands)
        for known in [_known_options(command.words, tmp_path)]
        for option in command.options
        if option not in known
    ]
    assert unknown == []


def _known_options(words: tuple[str, ...], folder: Path) -> set[str]:
    """The options of the command that these words begin with; the last of them may be a name to run it on."""
    try:
        page = gcloud(folder, *words, "--help")
    except AssertionError:
        page = gcloud(folder, *words[:-1], "--help")
    named = re.findall(r"^ *(--(?:\[no-\])?[a-z0-9-]+)", re.sub("\x1b\\[[0-9;]*m", "", page), re.MULTILINE)
    return {option.replace("[no-]", no) for option in named for no in ("", "no-")} | {"--project", "--quiet"}
