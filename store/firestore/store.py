"""The store for production: any number of instances, one Firestore database."""

from typing import Any

from google.auth.credentials import Credentials

from store.documents.shelf import Options, Shelf
from store.documents.store import DocumentStore
from store.firestore.calls import Calls
from store.firestore.database import FirestoreDatabase


class FirestoreStore(DocumentStore):
    """Documents of `project`, in `database`, under `collection`.

    `emulator_host` is `host:port` of an emulator; without it, `credentials` or the application default ones are used.
    `calls` counts round trips and documents. `options` are the keywords of `store.documents.shelf.Options`. Nothing is
    connected before the first use."""

    def __init__(
        self,
        project: str,
        *,
        database: str = "(default)",
        collection: str = "genkit-sessions",
        emulator_host: str | None = None,
        credentials: Credentials | None = None,
        calls: Calls | None = None,
        **options: Any,
    ) -> None:
        documents = FirestoreDatabase(
            project,
            database=database,
            collection=collection,
            emulator_host=emulator_host,
            credentials=credentials,
            calls=calls,
        )
        super().__init__(Shelf(documents, Options(**options)))
