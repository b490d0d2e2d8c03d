"""The queue on Google Cloud Tasks. The client is made by `functions.wiring`; this module knows its calls only."""

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any, Final, Protocol

from store.errors import UnavailableError
from store.models import Scope

_LOG = logging.getLogger("firesession.queue")
_TIMEOUT: Final = 4.0  # seconds
_DEADLINE: Final = 1800  # seconds that a delivery may take; the most that Cloud Tasks allows


class TasksClient(Protocol):
    """What is used of `google.cloud.tasks_v2.CloudTasksClient`."""

    def create_task(self, *, request: dict[str, Any], timeout: float) -> Any: ...

    def delete_task(self, *, request: dict[str, Any], timeout: float) -> Any: ...


@dataclass(frozen=True, slots=True)
class CloudTasksQueue:
    """`queue` is `projects/…/locations/…/queues/…`; `url` is what a task calls, with a token of `account` for
    `audience`. `is_known` tells the client's error for a task that exists already."""

    client: TasksClient
    queue: str
    url: str
    account: str | None
    audience: str | None
    is_known: Any

    async def enqueue(self, scope: Scope, snapshot_id: str) -> None:
        """One task per turn: its name is the turn's id."""
        request = {"parent": self.queue, "task": self._task(scope, snapshot_id)}
        try:
            await asyncio.to_thread(self.client.create_task, request=request, timeout=_TIMEOUT)
        except self.is_known:
            return
        except Exception as error:
            raise UnavailableError("The queue did not take the turn.") from error

    def _task(self, scope: Scope, snapshot_id: str) -> dict[str, Any]:
        body = {"tenant": scope.tenant, "user": scope.user, "snapshotId": snapshot_id}
        call: dict[str, Any] = {
            "http_method": "POST",
            "url": self.url,
            "headers": {"Content-Type": "application/json"},
            "body": json.dumps(body).encode(),
        }
        if self.account is not None:
            call["oidc_token"] = {"service_account_email": self.account, "audience": self.audience}
        name = f"{self.queue}/tasks/{snapshot_id}"
        return {"name": name, "http_request": call, "dispatch_deadline": {"seconds": _DEADLINE}}

    async def forget(self, snapshot_id: str) -> None:
        """Best effort: a task that is delivered all the same finds no row to run."""
        request = {"name": f"{self.queue}/tasks/{snapshot_id}"}
        try:
            await asyncio.to_thread(self.client.delete_task, request=request, timeout=_TIMEOUT)
        except Exception:  # whatever it is, the delivery is harmless
            _LOG.debug("task %s was not deleted", snapshot_id, exc_info=True)
