"""A process whose clock is wrong, for as long as a test says so."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace

import pytest


@contextmanager
def clock_off_by(seconds: float) -> Iterator[None]:
    """Inside, `time.time` is off for everybody, and `datetime.now` for every module of the store."""
    seen = SimpleNamespace(time=time.time)
    with pytest.MonkeyPatch.context() as patch:
        # gRPC turns deadlines into times by Python's clock and hands them to C code with the machine's own. A machine
        # that is wrong is wrong in both.
        patch.setattr("grpc.aio._utils.time", seen)
        patch.setattr(time, "time", lambda: seen.time() + seconds)
        patch.setattr(time, "time_ns", lambda: int((seen.time() + seconds) * 1e9))
        wrong = _datetime_off_by(timedelta(seconds=seconds))
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] == "store" and vars(module).get("datetime") is datetime:
                patch.setattr(module, "datetime", wrong)
        yield


def _datetime_off_by(skew: timedelta) -> type[datetime]:
    class Meta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, datetime)

    class Wrong(datetime, metaclass=Meta):
        """Everybody's datetime but for what it takes to be the present."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # not one of these: a plain one
            return datetime.now(tz) + skew

    return Wrong
