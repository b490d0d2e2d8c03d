"""Cursors: where a page of a query ended, as an opaque text."""

import base64
import binascii
import json
from datetime import datetime

from store.database import Document
from store.errors import InvalidRequestError
from store.ids import require_session_id

_TEXT = "text"  # a time as Genkit's stores write it; a database orders text behind its own times


def cursor_after(document: Document, field: str) -> str:
    """The place behind `document` in an order by the time in `field`, and by id."""
    value = document.fields[field]
    place = [value, document.path.id, _TEXT] if isinstance(value, str) else [value.isoformat(), document.path.id]
    text = json.dumps(place, ensure_ascii=False)  # escaped, the longest id would make a cursor that is too long to take
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def open_cursor(cursor: str | None) -> tuple[datetime | str, str] | None:
    """The values to start after; None for the first page. InvalidRequestError for what was not made here."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        time, document_id, *kind = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        require_session_id(document_id, "cursor")
        if kind == [_TEXT] and isinstance(time, str) and isinstance(document_id, str):
            return time, document_id
        moment = datetime.fromisoformat(time)
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidRequestError("The cursor was not made here.") from error
    if moment.tzinfo is None or not isinstance(document_id, str):
        raise InvalidRequestError("The cursor was not made here.")
    return moment, document_id
