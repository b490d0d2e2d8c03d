"""The HTTP application in the test's own process, on the memory store: quick, and its documents can be looked at.

Holds no test. `Exchange` drives one request by hand, which the ASGI transport of httpx cannot: it reads a stream while
it runs, and lets the client leave.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from functions.agents.base import Agent
from functions.app import serve
from functions.settings import Settings, read_settings
from functions.wiring import application
from store.database import Database, Document, Kind, Path, Query
from store.documents.store import DocumentStore
from tests.acceptance.chat_client import STREAM, ServerEvent, parse_frame

Documents = dict[Path, Document]


async def all_documents(database: Database) -> Documents:
    """Every document of every kind and tenant; with its update time, so that a rewrite of the same fields shows."""
    found = [await database.query(Query(kind, None, ())) for kind in Kind]
    return {document.path: document for page in found for document in page.documents}


class Exchange:
    """One request and its answer, as they go."""

    def __init__(self, settings: Settings, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._settings = settings
        self._scope: Scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self._outgoing: asyncio.Queue[Message] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})

    async def run(self) -> None:
        """Serves it to its end, the client's leaving included."""
        request = Request(self._scope, self._incoming.get, self._outgoing.put)
        response = await serve(request, self._settings)
        await response(self._scope, self._incoming.get, self._outgoing.put)

    def leave(self) -> None:
        """The client closes the connection."""
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def frames(self) -> AsyncIterator[str]:
        """The frames of the streamed answer as they come, each of which is sent whole."""
        start = await self._outgoing.get()
        assert start["status"] == 200, start
        while (part := await self._outgoing.get()).get("more_body"):
            yield part["body"].decode("ascii").removesuffix("\n\n")

    async def events(self) -> AsyncIterator[ServerEvent]:
        """The events among them."""
        async for frame in self.frames():
            event = parse_frame(frame)
            if event is not None:
                yield event


@dataclass(frozen=True)
class App:
    """The running application, and what a test may know of it."""

    http: httpx.AsyncClient
    settings: Settings
    store: DocumentStore
    database: Database

    async def documents(self) -> Documents:
        """Everything that is stored."""
        return await all_documents(self.database)

    @asynccontextmanager
    async def chat(self, body: Mapping[str, Any], user: str = "local") -> AsyncIterator[Exchange]:
        """A streamed turn, driven by hand; served to its end before the context is left."""
        headers = {"accept": STREAM, "content-type": "application/json", "x-user-id": user}
        exchange = Exchange(self.settings, "POST", "/chat", json.dumps(body).encode(), headers)
        serving = asyncio.create_task(exchange.run())
        try:
            yield exchange
        finally:
            exchange.leave()
            await serving


def asgi(settings: Settings) -> Any:
    """The application as any ASGI server takes it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await serve(Request(scope, receive, send), settings)
        await response(scope, receive, send)

    return app


@asynccontextmanager
async def served(agent: Agent | None = None, **environ: str) -> AsyncIterator[App]:
    """The application with these settings on an empty memory store, closed at the end; with `agent` in place of the
    one that the settings name."""
    settings = read_settings({"STORE": "memory", "ABORT_GRACE": "0.2"} | environ)
    parts = application(settings)
    if agent is not None:
        parts.engine._agent = (
            agent  # the settings name agents by import path, which would find a module's, not a test's
        )
    assert isinstance(parts.store, DocumentStore)
    transport = httpx.ASGITransport(app=asgi(settings), raise_app_exceptions=True)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://app", timeout=30) as http:
            yield App(http, settings, parts.store, parts.store._shelf.database)
    finally:
        await parts.engine.close()
        await parts.store.close()
