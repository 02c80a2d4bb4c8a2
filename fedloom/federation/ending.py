"""Ending: how a call over gRPC ended, as its server said."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import grpc
import grpc.aio

T = TypeVar("T")
Status = tuple[grpc.StatusCode, str | None]
MOMENT = 1.0  # seconds in which the end of a call that is over must be known
OVER = grpc.aio.AioRpcError, grpc.aio.UsageError, grpc.aio.InternalError, asyncio.InvalidStateError
"""What is raised where a call is over."""
FORGOTTEN = grpc.StatusCode.INTERNAL, "Internal error from Core"
"""What gRPC says where it has forgotten how a call ended."""


class Ending:
    """How a call ended. Where a message was still under way to the server gRPC forgets what that said, and says instead
    that something is wrong with itself.

    Arguments:
        call: one in which messages are sent one after another.
    """

    def __init__(self, call: Any) -> None:
        self.said: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        call.add_done_callback(self._note)  # called again where gRPC changes its mind

    def _note(self, call: Any) -> None:
        status = _at_once(call.code()), _at_once(call.details())
        if status != FORGOTTEN and not self.said.done():
            self.said.set_result(status)

    async def status(self) -> Status:
        """How a call ended that is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(MOMENT):
                return await asyncio.shield(self.said)
        return FORGOTTEN


def _at_once(answer: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives that has nothing to wait for."""
    try:
        answer.send(None)
    except StopIteration as end:
        given: T = end.value
        return given
    raise AssertionError("it waits")
