"""The store for one machine: a directory, shared safely by any number of processes."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.errors import InvalidRequestError
from store.file.database import FileDatabase
from store.file.paths import require_tenant
from store.local.values import utc_now


class FileStore(DocumentStore):
    """Documents as files under `directory`. `poll_interval` is how often, in seconds, changes by other processes are
    looked for; 0 or less: never. Tenants may be paths (`a/b`). `options` are the keywords of
    `store.documents.shelf.Options`."""

    def __init__(
        self,
        directory: str | Path,
        *,
        collection: str = "genkit-sessions",
        poll_interval: float = 1.0,
        clock: Callable[[], datetime] = utc_now,
        **options: Any,
    ) -> None:
        if not isinstance(directory, str | Path) or not str(directory).strip() or "\0" in str(directory):
            raise InvalidRequestError("directory must be the path of a folder.")
        database = FileDatabase(Path(directory), collection=collection, poll_interval=poll_interval, clock=clock)
        super().__init__(Shelf(database, Options(**options), check_tenant=require_tenant))
