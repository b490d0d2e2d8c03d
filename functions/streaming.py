"""A response that is a stream of server-sent events. Owns the connection's side: pings, and seeing the client leave."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from functions.dialects.native import COMMENT, MEDIA_TYPE

PING_INTERVAL = 15.0  # seconds; proxies cut connections that are silent for a minute


class EventStream(Response):
    """Sends frames as they come, comments while none do, and closes `frames` as soon as either side is done."""

    media_type = MEDIA_TYPE
    charset = "utf-8"

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        headers: dict[str, str] | None = None,
        comment: bytes | None = COMMENT,  # None for readers that cannot bear any
        longest: float | None = None,  # seconds, for readers that do not even take the frame that tells them to leave
    ) -> None:
        self.status_code = 200
        self.background = None
        self._frames = frames
        self._comment = comment
        self._longest = longest
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        del self.headers["content-length"]

    def render(self, content: object) -> bytes:
        return b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), timeout=self._longest, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)
            await self._frames.aclose()

    async def _send(self, send: Send) -> None:
        upcoming = asyncio.ensure_future(anext(self._frames, None))
        try:
            while True:
                await asyncio.wait((upcoming,), timeout=None if self._comment is None else PING_INTERVAL)
                frame = upcoming.result() if upcoming.done() else self._comment
                if frame is None:
                    break
                await send({"type": "http.response.body", "body": frame, "more_body": True})
                if upcoming.done():
                    upcoming = asyncio.ensure_future(anext(self._frames, None))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)


async def wait_for_disconnect(receive: Receive) -> None:
    """Returns once the client has left. The request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
