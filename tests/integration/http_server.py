"""ASGI applications on real sockets of 127.0.0.1: in the test's own loop, or as an instance in a thread of its own.

Holds no test. An instance has a loop of its own, because an application is made once per loop.
"""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import uvicorn

from functions.agents.base import Agent
from functions.settings import Settings, read_settings
from functions.wiring import application
from tests.integration.http_app import asgi


def _listening() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen(100)
    return made


def url_of(listening: socket.socket) -> str:
    """Where a listening socket is reached."""
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


def _server(app: Any) -> uvicorn.Server:
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=2)
    return uvicorn.Server(config)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """The URL of an application that the running loop serves."""
    with _listening() as listening:
        server = _server(app)
        server.capture_signals = nullcontext  # type: ignore[assignment, method-assign]  # pytest keeps its own
        running = asyncio.create_task(server.serve([listening]))
        try:
            yield url_of(listening)
        finally:
            server.should_exit = True
            await running


class Instance:
    """One instance of the deployment in a thread, with a setting's `{url}` replaced by its own."""

    def __init__(self, **environ: str) -> None:
        self._listening = _listening()
        self.url = url_of(self._listening)
        self.settings: Settings = read_settings(
            {key: value.replace("{url}", self.url) for key, value in environ.items()}
        )
        self._server = _server(asgi(self.settings))
        self._agent: Agent | None = None
        self._thread = threading.Thread(target=self._run, name=f"instance {self.url}")

    def start(self, agent: Agent | None = None) -> None:
        """Serves; with `agent` in place of the one that the settings name."""
        self._agent = agent
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        parts = application(self.settings)
        if self._agent is not None:
            parts.engine._agent = self._agent
        try:
            await self._server.serve([self._listening])
        finally:
            await parts.engine.close()
            await parts.store.close()

    def stop(self) -> None:
        """Ends it, its turns included."""
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()
