"""`firesession forget USER --tenant TENANT`: erases everything that a user has, on the store that the settings name.

The operator authorises first; this command only scopes. It is resumable: run it again until nothing is left.
"""

import argparse
import asyncio
import os
from collections.abc import Sequence

from functions.settings import settings_of_process
from functions.wiring import make_store
from store.models import Scope


def main(arguments: Sequence[str] | None = None) -> int:
    """0 once nothing is left."""
    parser = argparse.ArgumentParser(prog="firesession forget", description="Erases all sessions of a user.")
    parser.add_argument("user")
    parser.add_argument("--tenant", required=True, help="the tenant that the user belongs to")
    chosen = parser.parse_args(arguments)
    return asyncio.run(_forget(Scope(chosen.tenant, chosen.user)))


async def _forget(scope: Scope) -> int:
    store = make_store(settings_of_process(os.environ))
    try:
        while not await store.erase_user(scope):
            print("going on …", flush=True)
    finally:
        await store.close()
    print(f"Nothing of {scope.user!r} is left in {scope.tenant!r}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
