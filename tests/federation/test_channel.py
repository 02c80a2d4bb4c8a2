"""A participant and a server that is broken or hostile: a clear error, no work, and no file outside its folder."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
from google.protobuf.message import Message
from intruder import ARITHMETIC, update
from weather import Worker

from fedloom.federation.authority import init, issue
from fedloom.federation.channel import Channel
from fedloom.federation.disk import Disk, digest
from fedloom.federation.door import SERVICE
from fedloom.federation.keys import Keys
from fedloom.federation.participant import Lost, Participant, Rejected
from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Over, Place, Refusal, Verdict, Welcome, Work

MODEL = update({"variables.params.w": np.zeros(3, np.float32)})
WELCOME = Order(welcome=Welcome(run="r", number=0, about="{}", beat=1.0))


def work(content: bytes = MODEL, **said: Any) -> Order:
    return Order(work=Work(**{"model": digest(content), "size": len(content), "counted": -1, "seconds": 9.0, **said}))


Says = Callable[[Any, Any], Awaitable[None]]


def says(*messages: Any) -> Says:
    """A server that says these things, whatever it hears, and waits."""

    async def answer(_: Any, context: Any) -> None:
        for message in messages:
            await context.write(message if isinstance(message, bytes) else message.SerializeToString())
        if messages and isinstance(messages[0], Order | bytes):
            await asyncio.sleep(60)

    return answer


class Student(Worker):
    """A trainer that reads what the server says, and remembers whether it has worked."""

    worked = False

    def prepare(self, welcome: Welcome) -> None:
        {**json.loads(welcome.about)}  # which must be one
        super().prepare(welcome)

    def train(self, *given: Any) -> Any:
        self.worked = True
        return super().train(*given)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    keys = init(tmp_path_factory.mktemp("channel") / "keys", "here")
    issue(keys, "server", role="server", hosts=("localhost",))
    issue(keys, "a")
    return keys


@asynccontextmanager
async def serving(authority: Path, server: dict[str, Says]) -> AsyncIterator[Channel]:
    """Inside, a way to a server."""
    mine = Keys.read(authority / "server")
    listening = grpc.aio.server()
    handlers = {method: grpc.stream_stream_rpc_method_handler(answer) for method, answer in server.items()}
    listening.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    proof = grpc.ssl_server_credentials([(mine.key, mine.cert)], mine.ca, require_client_auth=True)
    port = listening.add_secure_port("localhost:0", proof)
    await listening.start()
    channel = Channel(f"localhost:{port}", Keys.read(authority / "a"))
    try:
        yield channel
    finally:
        await channel.close()
        await listening.stop(0)


async def taking_part(
    authority: Path, folder: Path, server: dict[str, Says], patience: float = 5.0
) -> tuple[Student, str, list[dict[str, Any]]]:
    """The participant in the end, why it ended, and what it told."""
    student, told = Student(ARITHMETIC), []
    async with serving(authority, server) as channel:
        participant = Participant(
            channel,
            student,
            Disk(folder / "own"),
            tell=lambda event, **fields: told.append({"event": event, **fields}),
            draw=lambda: 0.0,
        )
        why = "still there"
        try:
            async with asyncio.timeout(patience):
                await participant.run()
                why = "over"
        except Rejected as error:
            why = str(error)
        except TimeoutError:
            pass
    return student, why, told


NOT_THERE = says(Place(start=0))
WRONG = update({"variables.params.w": np.full(3, np.nan, np.float32)})
OTHER = update({"variables.params.v": np.zeros(3, np.float32)})


@pytest.mark.parametrize(
    ("orders", "fetch", "why"),
    [
        ([b"\xff\xff"], None, "the server says what cannot be meant: not a Order"),
        ([work()], None, "orders before it has said what is learned"),
        ([Order(over=Over(model=digest(MODEL), size=9))], None, "orders before it has said what is learned"),
        ([WELCOME, work(model="../../../outside")], says(Chunk(content=MODEL)), "a file that is no SHA-256"),
        ([WELCOME, Order(over=Over(model="/tmp/outside", size=9))], None, "a file that is no SHA-256"),
        ([WELCOME, work(size=2**50)], None, "the server's model has 1,125,899,906,842,624 bytes"),
        ([WELCOME, work(WRONG)], says(Chunk(content=WRONG)), "does not fit: variables.params.w holds numbers that are"),
        ([WELCOME, work(OTHER)], says(Chunk(content=OTHER)), "does not fit: it lacks variables.params.w"),
        ([WELCOME, Order(over=Over(model=digest(OTHER), size=len(OTHER)))], says(Chunk(content=OTHER)), "does not fit"),
        ([Order(welcome=Welcome(run="r", about="{no", beat=1.0))], None, "the run cannot be used (JSONDecodeError"),
        ([Order(welcome=Welcome(run="r", about="[[]]", beat=1.0))], None, "cannot be used (TypeError"),
        ([Order(welcome=Welcome(run="r", about="[" * 100_000, beat=1.0))], None, "cannot be used (RecursionError"),
        ([Order(welcome=Welcome(run="r", beat=math.nan))], None, "nan seconds between two signs of life"),
        ([Order(refusal=Refusal(why="no", again=math.inf))], None, "a return after inf seconds"),
        ([Order(refusal=Refusal(why="not you"))], None, "not you"),
        ([WELCOME, work()], says(Chunk(content=b"x" * 9)), "still there"),
        ([WELCOME, work()], says(Chunk(content=MODEL[:-1] + b"x")), "still there"),
        ([WELCOME, work()], says(*[Chunk()] * 9), "still there"),
        ([WELCOME, work()], says(Chunk(content=MODEL * 2)), "still there"),
        ([WELCOME, Order(), Order(welcome=WELCOME.welcome)], None, "still there"),
    ],
)  # fmt: skip
def test_what_a_server_may_not_say(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orders: list[Any], fetch: Says | None, why: str
) -> None:
    monkeypatch.setattr("fedloom.federation.participant.FAREWELL", 0.2)  # it never hears that one takes no part
    server = {"Attend": says(*orders), "Fetch": fetch or says(), "Held": NOT_THERE}
    patience = 1.0 if why == "still there" else 10.0
    student, ended, told = asyncio.run(taking_part(authority, tmp_path, server, patience))
    assert why in ended
    assert not student.worked
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
    assert sum(path.stat().st_size for path in (tmp_path / "own").iterdir()) <= 2 * len(MODEL)
    if fetch and ended == "still there":
        assert told[-1]["event"] == "lost"
        assert told[-1]["why"] == "the model did not come over whole"


def test_a_verdict_that_there_is_not_is_unknown(authority: Path, tmp_path: Path) -> None:
    answer = Verdict(why="why not")
    answer.outcome = 99
    server = {"Attend": says(WELCOME, work()), "Fetch": says(Chunk(content=MODEL)), "Held": says(Place(start=2**63)),
              "Submit": says(answer)}  # fmt: skip
    student, ended, told = asyncio.run(taking_part(authority, tmp_path, server, 2.0))
    assert ended == "still there"
    assert student.worked
    assert told[-1] == {"event": "verdict", "round": 0, "outcome": "UNKNOWN", "why": "why not"}


async def cut_off(
    authority: Path, code: grpc.StatusCode, say: Callable[[Channel, asyncio.Event], Any], *answer: Message
) -> Any:
    """Say something to a server that ends the call meanwhile: when its end has come over, and nobody knows it yet."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def hold() -> None:
        time.sleep(0.1)  # nothing else happens in this thread while the end comes over
        ended.set()

    async def end(_: Any, context: Any) -> None:
        for message in answer:
            await context.write(message.SerializeToString())
        loop.call_soon(hold)
        if code != grpc.StatusCode.OK:
            await context.abort(code, "the reason")

    async with serving(authority, {"Attend": end, "Push": end}) as channel:
        return await say(channel, ended)


async def attending(channel: Channel, ended: asyncio.Event) -> None:
    line = await channel.attend()
    await ended.wait()
    await line.send(Beat())
    assert await line.receive() is None


async def pushing(channel: Channel, ended: asyncio.Event) -> Place:
    async def chunks() -> AsyncIterator[Chunk]:
        await ended.wait()
        yield Chunk(content=b"x")

    return await channel.push(chunks())


@pytest.mark.parametrize("say", [attending, pushing])
@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, Lost, "unavailable: the reason"),
        (grpc.StatusCode.OK, Lost, "the server has hung up"),
        (grpc.StatusCode.PERMISSION_DENIED, Rejected, "the reason"),
    ],
)
def test_what_is_said_when_it_is_over_is_answered_with_why_it_is(
    authority: Path, code: grpc.StatusCode, error: type[Exception], said: str, say: Any
) -> None:
    with pytest.raises(error, match=said):
        asyncio.run(cut_off(authority, code, say))


@pytest.mark.parametrize("code", [grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE])
def test_a_server_may_answer_before_it_has_heard_everything(authority: Path, code: grpc.StatusCode) -> None:
    place = asyncio.run(cut_off(authority, code, pushing, Place(start=5)))
    assert place == Place(start=5)


def test_a_file_that_cannot_be_read_ends_its_push(authority: Path) -> None:
    heard = list[Any]()

    async def listen(_: Any, context: Any) -> None:
        while (message := await context.read()) is not grpc.aio.EOF:
            heard.append(message)

    async def chunks() -> AsyncIterator[Chunk]:
        yield Chunk(content=b"x")
        raise OSError("the disk is gone")

    async def main() -> None:
        async with serving(authority, {"Push": listen}) as channel:
            await channel.push(chunks())

    with pytest.raises(OSError, match="disk"):
        asyncio.run(main())
