"""Disorder: a coordinator that is called in any order, by anybody, with anything; after every call, what must hold."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from intruder import ARITHMETIC, GOOD, update
from weather import Memory, database

from fedloom.federation.coordinator import Coordinator
from fedloom.federation.course import Course
from fedloom.federation.disk import digest
from fedloom.federation.journal import Journal
from fedloom.federation.page import plain
from fedloom.federation.rules import Rules
from fedloom.federation.schema import Unfit
from fedloom.federation.status import status
from fedloom.federation.wire_pb2 import Beat, Order, Update, Verdict
from fedloom.runs.stopping import Stop
from fedloom.trees import flatten

NAMES = ("a", "b", "c", "d")
CONTENTS = [
    update(GOOD),
    *(update({"update.params.w": np.full(3, value, np.float32)}) for value in (0.1, -0.2, np.nan, 1e30, 3e38, 1e12)),
    update({"update.params.w": np.zeros(2, np.float32)}), update({"x": np.zeros(3, np.float32)}), b"", b"no file",
]  # fmt: skip
WEIGHTS = [9, 9, 9, *(1 for _ in CONTENTS[3:])]
FILES = [digest(content) for content in CONTENTS]
MOST = ARITHMETIC.update_schema.most


class Disorder:
    """One run in disorder.

    Arguments:
        draw: what happens.
    """

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.now, self.done = draw, 1e9, Counter[str]()
        self.connection = database(self)
        self.disk = Memory(lambda _: None)
        target = draw.choice([None, 0.9])
        self.stop = Stop(draw.choice([2, 1000]), target=target, monitor="clients_accuracy" if target else None)
        self.rules = Rules(begin=draw.choice([1, 2]), quorum=draw.choice([0.01, 0.6, 1.0]), deadline=20.0, patience=2.0,
                           norm=draw.choice([1.0, math.inf]), offences=draw.choice([3, 1000]))  # fmt: skip
        self.begin()

    def begin(self) -> None:
        """The server comes, or comes back."""
        course = Course(ARITHMETIC, self.rules, self.stop, lambda _: {}, "{}", {"tiny": 1})
        self.coordinator = Coordinator(course, Journal(self.connection), self.disk, lambda: self.now, "a-run")
        self.posts: dict[str, Callable[[Order], None]] = {}
        self.looked: dict[str, tuple[Update, str | None]] = {}  # updates that are being looked into
        self.job: Any = None

    def step(self) -> None:
        """Something happens, and what must hold holds."""
        acts = ["attend", "beat", "leave", "take", "take", "look", "look", "decide", "tick", "tick", "close",
                "pass_time", "held", "restart", "forgive"]  # fmt: skip
        act = self.draw.choices(acts, [3, 3, 1, 4, 4, 5, 5, 6, 4, 4, 4, 3, 1, 0.1, 0.3])[0]
        self.done[act] += 1
        opened, looks = self.coordinator.opened, act in ("take", "look", "decide") and self.draw.random() < 0.8
        getattr(self, act)(self.draw.choice(opened.cohort if opened and looks else NAMES))
        self.check()

    def attend(self, name: str) -> None:
        posted: list[Order] = []
        post = posted.append
        beat = Beat(
            protocol=self.draw.choice([1, 1, 1, 1, 0, 2]),
            ready=self.draw.random() < 0.9,
            examples=self.draw.choice([0, 9, 2**64 - 1]),
        )
        if self.coordinator.attend(name, beat, post):
            self.posts[name] = post
        assert posted

    def beat(self, name: str) -> None:
        self.coordinator.beat(name, Beat(protocol=1, ready=self.draw.random() < 0.9))

    def leave(self, name: str) -> None:
        self.coordinator.leave(name, self.posts.get(name, lambda _: None))

    def held(self, name: str) -> None:
        if name in self.coordinator.members:
            assert 0 <= self.coordinator.held(name, self.draw.choice(FILES)).start <= MOST

    def take(self, name: str) -> None:
        if name not in self.coordinator.members or name in self.looked:
            return  # the service sees to both
        i = self.draw.choices(range(len(CONTENTS)), WEIGHTS)[0]
        content, whole = CONTENTS[i], len(CONTENTS[i])
        start = self.draw.choice([0] * 20 + [1, whole // 2, whole, 2**64 - 1])
        end = self.draw.choice([whole] * 9 + [whole // 2])
        size = self.draw.choice([whole] * 20 + [0, MOST, MOST + 1, 2**64 - 1])
        try:
            at = self.coordinator.take(name, FILES[i], start, size, content[start : max(start, end)])
            assert 0 <= at <= MOST
        except Unfit:
            self.done["unfit"] += 1

    def look(self, name: str) -> None:
        if name not in self.coordinator.members or name in self.looked:
            return
        coordinator, i = self.coordinator, self.draw.randrange(len(CONTENTS))
        if self.draw.random() < 0.9 and (part := coordinator.uploads.pushing.get(coordinator.members[name].number)):
            i = FILES.index(part.partition("-")[2].removesuffix(".part"))
        opened = coordinator.opened
        said = Update(
            run=self.draw.choice(["a-run"] * 9 + ["another"]), file=FILES[i], size=len(CONTENTS[i]),
            round=self.draw.choice([opened.round if opened else 0] * 30 + [0, 2**32 - 1]),
            attempt=self.draw.choice([opened.attempt if opened else 0] * 30 + [0, 2**32 - 1]),
            examples=self.draw.choice([1, 10, 10_000_000] * 9 + [0, 2**64 - 1]),
            readings=self.draw.choice([{}] * 20 + [{"x": 1e300}]),
            measures=self.draw.choice([{}, {"count": 1.0}, *[{"accuracy": 1.0, "count": 2.0}] * 9,
                                       {"accuracy": 3.0, "count": 2.0}, {"loss": -1e14, "count": -1.0}]),
        )  # fmt: skip
        verdict = coordinator.known(name, said)
        if verdict is not None:
            self.done[f"verdict {Verdict.Outcome.Name(verdict.outcome)}"] += 1
            return
        try:
            self.looked[name] = said, coordinator.fault(name, said)
        except FileNotFoundError:
            coordinator.garbled(name)

    def decide(self, _: str) -> None:
        if self.looked:
            name = self.draw.choice(sorted(self.looked))
            verdict = self.coordinator.decide(name, *self.looked.pop(name))
            self.done[f"verdict {Verdict.Outcome.Name(verdict.outcome)}"] += 1

    def tick(self, _: str) -> None:
        job = self.coordinator.tick()
        assert job is None or self.job is None
        self.job = job or self.job

    def close(self, _: str) -> None:
        if self.job is None:
            return
        job, self.job = self.job, None
        if self.draw.random() < 0.1:
            self.coordinator.failed()
            return
        try:
            self.coordinator.finish(job())
            self.done["round"] += 1
        except Unfit as error:
            self.done["spoiled"] += 1
            self.coordinator.spoiled(str(error))

    def pass_time(self, _: str) -> None:
        rest = self.coordinator.rest()
        assert 0 < rest <= 3601
        self.now += self.draw.choice([0.01, 0.3, 1.0, 1.0, min(rest, 3.0)] * 4 + [7.0, 30.0])

    def restart(self, _: str) -> None:
        self.begin()

    def forgive(self, _: str) -> None:
        self.coordinator.forgive(self.draw.random() * 5)

    def check(self) -> None:
        """What must hold at any moment."""
        c, files = self.coordinator, self.disk.files
        assert c.members == c.journal.members()
        assert sorted(member.number for member in c.members.values()) == list(range(len(c.members)))
        assert all(name in c.members and not c.roll.left_out(name) for name in c.present)
        cohort = set(c.opened.cohort) if c.opened else set()
        assert len(cohort) == (len(c.opened.cohort) if c.opened else 0)
        assert cohort <= c.members.keys()
        assert c.received.keys() <= cohort
        assert c.expected <= cohort - c.received.keys()
        assert c.closing == (self.job is not None)
        assert c.round == len(c.history) == len(c.journal.rows())
        assert [row["round"] for row in c.history.rows] == list(range(1, c.round + 1))
        assert sum(m.rounds for m in c.members.values()) == sum(row["replies"] for row in c.history.rows)
        assert all(np.isfinite(a).all() for a in flatten(c.state.variables).values())
        wanted = {c.state_file, c.model_file, *(got.file for got in c.received.values())}
        assert all(digest(files[name]) == name for name in wanted)
        parts = {name for name in files if name.endswith(".part")}
        assert parts <= set(c.uploads.pushing.values())
        assert all(len(files[name]) <= MOST for name in parts)
        assert len({part.partition("-")[0] for part in parts}) == len(parts)
        assert files.keys() - parts <= wanted | set(FILES), "a file that nobody needs"
        assert len(files.keys() - parts) <= 2 + len(c.members)
        json.dumps(plain(status(c)), allow_nan=False)


def disorder(seed: int, steps: int) -> Counter[str]:
    """So many things happen; how often each did."""
    run = Disorder(random.Random(seed))
    for _ in range(steps):
        run.step()
    run.done["runs"] += 1
    return run.done
