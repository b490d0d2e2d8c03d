"""The application for tests that Hypothesis drives: a loop that lives through all examples, and an eye on every commit.
Holds no test."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from functions.wiring import application
from store.database import Committed, Write
from tests.acceptance.chat_client import ok
from tests.integration.http_app import App, served

_Result = TypeVar("_Result")


class FuzzedApp:
    """Answers one request after the other; `known` are ids that exist, by the names that requests give them."""

    def __init__(self, app: App, runner: asyncio.Runner) -> None:
        self.app = app
        self.commits = 0
        self.known: dict[str, str] = {}
        self._runner = runner
        self._count_commits()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self._runner.run(work)

    def ask(self, request: httpx.Request) -> httpx.Response:
        """The answer. AssertionError for a failure of ours, and where a refused request has written anything."""
        before = self.commits
        response = self.run(self.app.http.send(request))
        assert response.status_code < 500, response.text
        if response.status_code >= 400:
            assert self.commits == before, f"{response.status_code} {response.text}, and yet something was written"
        self.run(self.until_idle())
        return response

    async def furnish(self) -> None:
        """Stores a session with one turn, whose ids become the known ones."""
        done = ok(await self.app.http.post("/chat", json={"message": "Hello"}))
        messages = ok(await self.app.http.get(f"/sessions/{done['sessionId']}/messages"))["messages"]
        self.known = {
            "sessionId": done["sessionId"],
            "snapshotId": done["snapshotId"],
            "messageId": messages[0]["id"],
            "lastMessageId": done["lastMessageId"],
            "agent": "echo",
        }

    async def until_idle(self) -> None:
        """Detached turns end, so that none of them writes while the next request is looked at."""
        engine = application(self.app.settings).engine
        while left := engine._tasks.unfinished():
            await asyncio.wait(left)

    def _count_commits(self) -> None:
        database: Any = self.app.database
        commit, write_each = database.commit, database.write_each

        async def counted_commit(writes: Sequence[Write]) -> Committed:
            self.commits += 1
            committed: Committed = await commit(writes)
            return committed

        async def counted_each(writes: Sequence[Write]) -> Any:
            self.commits += 1
            return await write_each(writes)

        database.commit, database.write_each = counted_commit, counted_each


@contextmanager
def fuzzed(**environ: str) -> Iterator[FuzzedApp]:
    """The application with these settings, furnished."""
    with asyncio.Runner() as runner:
        serving = served(None, **environ)
        app = FuzzedApp(runner.run(serving.__aenter__()), runner)
        try:
            app.run(app.furnish())
            yield app
        finally:
            runner.run(serving.__aexit__(None, None, None))
