"""What a server and its participants do after something has gone wrong: nobody is stuck, and little is done twice."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation.test_coordinator import Desk
from weather import Loop, Memory

from fedloom.errors import DataError
from fedloom.federation.channel import Channel
from fedloom.federation.disk import digest
from fedloom.federation.log import lines, several
from fedloom.federation.outbox import Trained
from fedloom.federation.participant import LONGEST, Lost, Participant, Rejected
from fedloom.federation.points import CRASH, POINTS, from_environment, nothing
from fedloom.federation.rules import Rules
from fedloom.federation.schema import Schema
from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Over, Place, Refusal, Update, Verdict, Want, Welcome, Work

MODEL = Schema.of({"w": np.zeros(2, np.float32)})
CONTENT = MODEL.content({"w": np.ones(2, np.float32)})
FILE = digest(CONTENT)
WELCOME = Order(welcome=Welcome(run="r", number=0, about="{}", beat=2.0))
WORK = Order(work=Work(round=0, attempt=0, model=FILE, size=len(CONTENT), seconds=600, counted=-1))
OVER = Order(over=Over(why="done", model=FILE, size=len(CONTENT), counted=0))
RULES = Rules(begin=3, quorum=0.5, patience=10.0, pause=0.0)


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    def full(event: str, **fields: Any) -> None:  # noqa: ARG001
        raise OSError(28, "No space left on device")

    file = StringIO()
    several(full, lines(file))("came", name="a")
    assert json.loads(file.getvalue())["name"] == "a"


def test_two_participants_may_send_the_same_update() -> None:
    desk = Desk()
    desk.come("a", "b")
    desk.tick()
    desk.send("a", 1.0)
    same = desk.update("b", 1.0, push=False)
    assert desk.c.held("b", same.file).start == 0  # what a has sent is not what b has sent
    assert desk.send("b", 1.0) == Verdict.COUNTED


def test_after_a_crash_whoever_stays_away_is_not_waited_for_until_time_is_up() -> None:
    desk = Desk(RULES)
    desk.come("a", "b", "c")
    desk.tick()
    desk.send("a")
    desk.begin()
    desk.come("a", "b")
    desk.send("b")
    desk.tick(9.0)
    assert desk.c.round == 0
    desk.tick(2.0)
    assert desk.c.round == 1


def test_whoever_has_gone_for_good_delays_one_round_and_not_all() -> None:
    desk = Desk(RULES, rounds=5)
    desk.come("a", "b", "c")
    desk.tick()
    desk.tick(5.0)
    desk.tick(5.1)  # the server has been there for long enough to be known
    desk.go("c")
    for name in ("a", "b"):
        desk.send(name)
    desk.tick()
    assert desk.c.round == 1 and desk.c.opened is None  # c may come back
    assert desk.c.rest() == pytest.approx(6.0, abs=0.1)  # silence is noticed before
    desk.tick(5.0)
    desk.tick(5.1)
    assert desk.asked() == {"a", "b"}
    for name in ("a", "b"):
        desk.send(name)
    desk.tick()
    assert desk.c.round == 2 and desk.asked() == {"a", "b"}  # at once


class Counting:
    """Local work that counts how often it is made ready and done."""

    model_schema = update_schema = MODEL
    examples = 10

    def __init__(self) -> None:
        self.prepared = self.trained = 0

    def prepare(self, welcome: Welcome) -> None:  # noqa: ARG002
        self.prepared += 1

    def train(
        self,
        round: int,  # noqa: ARG002
        model: Mapping[str, np.ndarray],  # noqa: ARG002
        kept: Mapping[str, np.ndarray],  # noqa: ARG002
        seconds: float | None = None,  # noqa: ARG002
    ) -> Trained:
        self.trained += 1
        return Trained({"w": np.full(2, 2.0, np.float32)}, 10, {}, {}, {})


class Flaky:
    """A server that is away at times.

    Arguments:
        lives: the orders of each of its lives, and how many seconds it lasts; none: it cannot be reached.
    """

    def __init__(self, *lives: tuple[list[Order], float] | None) -> None:
        self.lives, self.tried, self.open, self.fetched_open = list(lives), list[float](), False, list[bool]()
        self.submitted = 0

    async def attend(self) -> "Flaky":
        self.tried.append(asyncio.get_running_loop().time())
        life = self.lives.pop(0)
        if life is None:
            raise Lost("nobody is there")
        self.orders, seconds = list(life[0]), life[1]
        self.end, self.open = asyncio.get_running_loop().time() + seconds, True
        return self

    async def send(self, beat: Beat) -> None:
        pass

    async def receive(self) -> Order:
        if self.orders:
            return self.orders.pop(0)
        await asyncio.sleep(self.end - asyncio.get_running_loop().time())
        raise Lost("it has gone")

    async def close(self) -> None:
        self.open = False

    async def fetch(self, want: Want) -> AsyncIterator[Chunk]:
        self.fetched_open.append(self.open)
        yield Chunk(content=CONTENT[want.start :])

    async def held(self, want: Want) -> Place:  # noqa: ARG002
        return Place(start=0)

    async def push(self, chunks: AsyncIterator[Chunk]) -> Place:
        return Place(start=sum([len(chunk.content) async for chunk in chunks]))

    async def submit(self, update: Update) -> Verdict:  # noqa: ARG002
        self.submitted += 1
        return Verdict(outcome=Verdict.COUNTED)


async def slow(job: Any) -> Any:
    await asyncio.sleep(10.0)
    return job()


def participate(server: Flaky, work: Counting, **more: Any) -> None:
    async def main() -> None:
        participant = Participant(server, work, Memory(nothing), compute=slow, draw=lambda: 0.5, **more)
        over, model = await participant.run()
        assert over.why == "done" and model["w"].tolist() == [1.0, 1.0]

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())


def test_local_work_goes_on_while_the_server_is_away() -> None:
    server, work = Flaky(([WELCOME, WORK], 45.0), None, ([WELCOME, WORK], 90.0), ([WELCOME, OVER], 90.0)), Counting()
    participate(server, work)
    assert (work.prepared, work.trained, server.submitted) == (1, 1, 1)


def test_the_final_model_is_fetched_while_the_server_knows_that_somebody_is_there() -> None:
    server = Flaky(([WELCOME, OVER], 120.0))
    participate(server, Counting())
    assert server.fetched_open == [True]


def test_a_server_that_was_there_is_soon_found_again_and_one_long_away_is_left_alone() -> None:
    server = Flaky(([WELCOME], 20.0), *[None] * 60, ([WELCOME, OVER], 120.0))
    participate(server, Counting())
    away = np.array(server.tried[1:]) - 20.0
    waits = np.diff(away)
    assert np.all(waits[away[1:] < 10.0] <= 1.25) and away[0] == 0.5
    assert waits.max() == pytest.approx(LONGEST)
    assert np.all(np.diff(waits) >= -1e-9)


class Strict(Counting):
    """Local work whose data do not fit."""

    def prepare(self, welcome: Welcome) -> None:  # noqa: ARG002
        raise DataError("there is no column height")


class Hearing(Flaky):
    """A server that lets go of whoever takes no part, and remembers what was said to it."""

    async def attend(self) -> "Flaky":
        self.beats, self.heard = list[Beat](), asyncio.Event()
        return await super().attend()

    async def send(self, beat: Beat) -> None:
        self.beats.append(beat)
        if beat.unfit:
            self.heard.set()

    async def receive(self) -> Order:
        if self.orders:
            return self.orders.pop(0)
        await self.heard.wait()
        return Order(refusal=Refusal(why="nobody waits for you"))


def test_whoever_cannot_take_part_says_so_and_not_why() -> None:
    server = Hearing(([WELCOME, WORK], 120.0))
    with pytest.raises(DataError, match="height"):
        participate(server, Strict())
    assert [(beat.ready, beat.unfit) for beat in server.beats][0 :: len(server.beats) - 1] == [
        (True, False),
        (False, True),
    ]
    assert "height" not in str(server.beats)


def test_another_run_may_fit() -> None:
    class Once(Strict):
        """The first does not fit, the second does."""

        def prepare(self, welcome: Welcome) -> None:
            self.prepared += 1
            if welcome.run == "r":
                super().prepare(welcome)

    class Breaking(Flaky):
        """Whose first life breaks off while a sign of life is on its way."""

        async def send(self, beat: Beat) -> None:
            beats.append((len(self.tried), beat.unfit))
            if len(self.tried) == 1 and len(beats) == 2:
                await asyncio.sleep(1.0)
                raise Lost("it has gone")

    beats = list[tuple[int, bool]]()
    other = Order(welcome=Welcome(run="other", number=0, about="{}", beat=2.0))
    server, work = Breaking(([WELCOME], 120.0), ([other, OVER], 120.0)), Once()
    participate(server, work)
    assert work.prepared == 2
    assert not any(unfit for life, unfit in beats if life == 2)


def test_a_server_that_does_not_hear_that_one_takes_no_part_is_not_waited_for() -> None:
    server = Flaky(([WELCOME], 120.0))
    with pytest.raises(DataError, match="height"):
        participate(server, Strict())


def test_after_long_enough_without_a_server_one_gives_up() -> None:
    with pytest.raises(Rejected, match="not answered for 60 seconds"):
        participate(Flaky(*[None] * 60), Counting(), patience=60.0)


def test_a_sign_of_life_on_a_call_that_is_over_says_that_the_server_is_lost() -> None:
    async def main() -> None:
        channel = Channel("127.0.0.1:1", None, "a")
        try:
            line = await channel.attend()
            await asyncio.wait_for(line.call.code(), 20)
            with pytest.raises(Lost, match="unavailable"):
                await line.send(Beat(ready=True))
        finally:
            await channel.close()

    asyncio.run(main())


def test_moments_are_listed_and_crashed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert from_environment() is nothing
    monkeypatch.setenv(POINTS, str(tmp_path / "moments"))
    reach = from_environment()
    reach("before"), reach("after")
    assert (tmp_path / "moments").read_text() == "before\nafter\n"
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda process, how: killed.append((process, how)))
    monkeypatch.setenv(CRASH, "after@2")
    reach = from_environment()
    reach("after"), reach("before")
    assert not killed
    reach("after"), reach("after")
    assert killed == [(os.getpid(), signal.SIGKILL)]
