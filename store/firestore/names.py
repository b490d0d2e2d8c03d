"""Paths ⇄ Firestore's resource names, and field paths. Pure.

A document lies at `{collection}{suffix}/{tenant}/{kind}/{id}`. Whatever lies elsewhere is another application's and
has no `Path`, also when its innermost collection has the same name as one of ours.
"""

import re

from store.database import Kind, Path
from store.ids import require_id

NAME_FIELD = "__name__"

_SIMPLE_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Names:
    """The names of one collection's documents in one database."""

    def __init__(self, project: str, database: str, collection: str) -> None:
        require_id(project, "project")
        require_id(database, "database")
        self.database = f"projects/{project}/databases/{database}"
        self.root = f"{self.database}/documents"
        require_id(collection, "collection")
        self._collections = {kind: f"{collection}{kind.suffix}" for kind in Kind}
        self._kinds = {(self._collections[kind], kind.value): kind for kind in Kind}

    def document(self, path: Path) -> str:
        """The resource name of a document."""
        return f"{self.tenant(path.kind, path.tenant)}/{path.kind.value}/{path.id}"

    def tenant(self, kind: Kind, tenant: str) -> str:
        """The resource name of the document under which a tenant's collection of that kind lies."""
        return f"{self.root}/{self._collections[kind]}/{tenant}"

    def parse(self, name: str) -> Path | None:
        """The path of a resource name, or None where the document is not ours."""
        if not name.startswith(f"{self.root}/"):
            return None
        parts = name[len(self.root) + 1 :].split("/")
        if len(parts) != 4:
            return None
        kind = self._kinds.get((parts[0], parts[2]))
        return None if kind is None else Path(kind, parts[1], parts[3])


def field_path(name: str) -> str:
    """One top-level field as a field path; what is not a simple identifier is quoted with backticks."""
    if _SIMPLE_FIELD.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"
