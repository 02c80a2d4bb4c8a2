"""A participant's way to a server: what it says of a call that has ended."""

import asyncio

import grpc
import grpc.aio
import pytest

from fedloom.federation.channel import GrpcLine
from fedloom.federation.participant import Lost, Rejected
from fedloom.federation.wire_pb2 import Beat


class Ended:
    """A call that has ended before something is written to it."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self.ended = code

    async def write(self, content: bytes) -> None:  # noqa: ARG002
        raise asyncio.InvalidStateError("RPC already finished.")

    def done(self) -> bool:
        return True

    async def code(self) -> grpc.StatusCode:
        return self.ended

    async def details(self) -> str:
        return "the reason"


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, Lost, "unavailable: the reason"),
        (grpc.StatusCode.OK, Lost, "the server has hung up"),
        (grpc.StatusCode.PERMISSION_DENIED, Rejected, "the reason"),
    ],
)
def test_a_sign_of_life_after_the_end_says_why_it_ended(
    code: grpc.StatusCode, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        asyncio.run(GrpcLine(Ended(code)).send(Beat()))
