import asyncio
import math
import random
from typing import Any

import numpy as np
import pytest
from disorder import CONTENTS, FILES, Disorder, disorder

from fedloom.federation.rules import Rules
from fedloom.federation.schema import Unfit
from fedloom.federation.service import Service
from fedloom.federation.wire_pb2 import Beat, Order, Update, Verdict
from fedloom.runs.stopping import Stop


@pytest.mark.parametrize("seed", range(4))
def test_a_coordinator_stands_calls_in_any_order(seed: int) -> None:
    done = disorder(seed, 200)
    assert done["attend"] and done["look"] and done["tick"]


def asked(*names: str) -> Disorder:
    """A run in which these are asked to work, and which watches what participants measure."""
    run = Disorder(random.Random(0))
    run.rules = Rules(begin=len(names), quorum=0.01, patience=0.0)
    run.stop = Stop(1000, target=0.9, monitor="clients_accuracy")
    run.begin()
    for name in names:
        assert run.coordinator.attend(name, Beat(protocol=1, ready=True), list[Order]().append)
    run.coordinator.tick()
    return run


def sent(run: Disorder, name: str, **said: Any) -> Verdict:
    coordinator = run.coordinator
    update = Update(run="a-run", file=FILES[0], size=len(CONTENTS[0]), examples=1, **said)
    coordinator.take(name, FILES[0], 0, len(CONTENTS[0]), CONTENTS[0])
    return coordinator.decide(name, update, coordinator.fault(name, update))


def test_what_nobody_has_measured_does_not_end_a_run() -> None:
    run = asked("a")
    assert sent(run, "a", measures={"count": 1.0}).outcome == Verdict.COUNTED
    job = run.coordinator.tick()
    assert job is not None
    run.coordinator.finish(job())
    assert math.isnan(run.coordinator.history.rows[-1]["clients_accuracy"])
    assert run.coordinator.stopped is None
    run.begin()  # nor does it keep a server from beginning again
    run.check()


def test_nobody_hides_what_others_have_measured() -> None:
    run = asked("a", "b")
    sent(run, "a", measures={"accuracy": 1.0, "count": 4.0})
    sent(run, "b", measures={"count": 1000.0})
    job = run.coordinator.tick()
    assert job is not None
    assert job().closed.row["clients_accuracy"] == 0.25


def test_updates_that_give_no_model_together_void_their_round() -> None:
    run = asked("a")
    sent(run, "a")
    before = run.coordinator.model_file

    async def broken(_: Any) -> None:
        raise Unfit("numbers that are not finite")

    asyncio.run(Service(run.coordinator, broken)._due())
    coordinator = run.coordinator
    assert (coordinator.round, coordinator.opened, coordinator.closing) == (0, None, False)
    assert coordinator.model_file == before
    assert coordinator.journal.voided() == 1
    run.check()


def test_what_was_pushed_for_a_round_that_is_over_is_taken_away() -> None:
    run = asked("a", "b")
    run.coordinator.take("b", FILES[1], 0, len(CONTENTS[1]), CONTENTS[1][:9])
    sent(run, "a")
    run.now += run.rules.deadline
    job = run.coordinator.tick()
    assert job is not None
    run.coordinator.finish(job())
    assert set(run.disk.names()) == {run.coordinator.state_file, run.coordinator.model_file}


def test_a_norm_is_that_of_its_numbers_however_large_they_are() -> None:
    run = asked("a")
    assert run.coordinator.arithmetic.norm({"update.params.w": np.full(4, 1e30, np.float32)}) == pytest.approx(2e30)
