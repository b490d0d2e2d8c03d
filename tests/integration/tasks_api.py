"""A stand-in of the Cloud Tasks REST API on 127.0.0.1 that really calls back, and is as unreliable as it is told.

Holds no test. A task is delivered until it is answered with a success, at least once, as the service does it.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.integration.http_server import serving

QUEUE = "projects/demo/locations/here/queues/turns"
RETRY_PAUSE = 0.05  # seconds between deliveries of a task


@dataclass
class TasksApi:
    """What was asked of it, and how it behaves. `deliveries` are the answers to its calls, as (status, body)."""

    url: str = ""
    copies: int = 1  # deliveries at once of each task
    is_eager: bool = False  # calls back before it has answered whoever made the task
    is_down: bool = False
    created: list[dict[str, Any]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    deliveries: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    may_deliver: asyncio.Event = field(default_factory=asyncio.Event)
    _was_called: asyncio.Event = field(default_factory=asyncio.Event)
    _running: set["asyncio.Task[None]"] = field(default_factory=set)

    async def create(self, request: Request) -> Response:
        """POST …/tasks."""
        if self.is_down:
            return JSONResponse({"error": {"code": 500, "status": "INTERNAL", "message": "down"}}, 500)
        task = (await request.json())["task"]
        self.created.append(task)
        deliveries = [asyncio.create_task(self._deliver(task)) for _ in range(self.copies)]
        for delivery in deliveries:
            self._running.add(delivery)
        if self.is_eager:
            await self._was_called.wait()
        return JSONResponse(task)

    async def delete(self, request: Request) -> Response:
        """DELETE …/tasks/{id}."""
        self.deleted.append(request.url.path.rpartition("/")[2])
        return JSONResponse({})

    async def _deliver(self, task: dict[str, Any]) -> None:
        await self.may_deliver.wait()
        call = task["httpRequest"]
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            for number in count():
                if task["name"].rpartition("/")[2] in self.deleted:
                    return
                headers = {**call["headers"], "X-CloudTasks-TaskRetryCount": str(number)}
                try:
                    answer = await http.post(call["url"], content=base64.b64decode(call["body"]), headers=headers)
                except httpx.TransportError:
                    await asyncio.sleep(RETRY_PAUSE)  # nobody is there, or is no more
                    continue
                self.deliveries.append((answer.status_code, answer.json()))
                self._was_called.set()
                if answer.is_success:
                    return
                await asyncio.sleep(RETRY_PAUSE)

    async def settled(self) -> None:
        """Returns once every delivery has been answered with a success."""
        await asyncio.gather(*self._running)

    def results(self) -> list[str]:
        """What the successful deliveries came to."""
        return sorted(body["result"] for status, body in self.deliveries if status == 200)

    async def close(self) -> None:
        """Delivers nothing more."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@asynccontextmanager
async def tasks_api() -> AsyncIterator[TasksApi]:
    """One that delivers at once."""
    api = TasksApi()
    api.may_deliver.set()
    tasks = f"/v2/{QUEUE}/tasks"
    app = Starlette(
        routes=[
            Route(tasks, api.create, methods=["POST"]),
            Route(tasks + "/{task}", api.delete, methods=["DELETE"]),
        ]
    )
    async with serving(app) as api.url:
        try:
            yield api
        finally:
            await api.close()


def body_of(task: dict[str, Any]) -> Any:
    """What a task will send."""
    return json.loads(base64.b64decode(task["httpRequest"]["body"]))
