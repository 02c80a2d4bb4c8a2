"""How a call ended, in whatever order gRPC says it. What it really does is in test_channel.py."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest

import fedloom.federation.ending as module
from fedloom.federation.ending import FORGOTTEN, Ending, Status

DENIED = grpc.StatusCode.PERMISSION_DENIED, "not you"
ITS_OWN = grpc.StatusCode.INTERNAL, "an error of the server's own"
CANCELLED = grpc.StatusCode.CANCELLED, "by us"


class Call:
    """A call that changes its mind."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.noted: Callable[[Any], None] = print

    def add_done_callback(self, note: Callable[[Any], None]) -> None:
        self.noted = note

    def end(self, status: Status) -> None:
        self.status = status
        self.noted(self)

    async def code(self) -> grpc.StatusCode:
        assert self.status is not None
        return self.status[0]

    async def details(self) -> str | None:
        assert self.status is not None
        return self.status[1]


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ([DENIED], DENIED),
        ([DENIED, FORGOTTEN], DENIED),
        ([FORGOTTEN, DENIED], DENIED),
        ([DENIED, CANCELLED], DENIED),  # which we do when all is over
        ([FORGOTTEN], FORGOTTEN),
        ([ITS_OWN, FORGOTTEN], ITS_OWN),
    ],
)
def test_what_the_server_said_counts(monkeypatch: pytest.MonkeyPatch, said: list[Status], known: Status) -> None:
    monkeypatch.setattr(module, "MOMENT", 0.05)

    async def main() -> None:
        call = Call()
        ending = Ending(call)
        for status in said:
            call.end(status)
        assert await ending.status() == known
        assert await ending.status() == known

    asyncio.run(main())


def test_what_comes_late_is_waited_for() -> None:
    async def main() -> None:
        call = Call()
        ending = Ending(call)
        call.end(FORGOTTEN)
        asyncio.get_running_loop().call_later(0.05, call.end, DENIED)
        assert await ending.status() == DENIED

    asyncio.run(main())
