"""The command `firesession`: names its subcommands, each of which parses its own arguments."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from functions.cli import forget, fsck

COMMANDS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {"forget": forget.main, "fsck": fsck.main}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; 2 for a command that there is not."""
    given = sys.argv[1:] if arguments is None else arguments
    command = COMMANDS.get(given[0]) if given else None
    if command is None:
        print(f"usage: firesession {{{','.join(COMMANDS)}}} ...", file=sys.stderr)
        return 2
    return command(given[1:])


if __name__ == "__main__":
    sys.exit(main())
