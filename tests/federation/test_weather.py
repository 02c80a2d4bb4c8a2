"""Whatever the weather, a run ends with the model that its updates make, and each of them counts once."""

import asyncio
import gc
from collections.abc import Iterator
from dataclasses import replace

import jax
import numpy as np
import pytest
from weather import TINY, Loop, Weather, World, expected, forecast, tiny

import fedloom as fl
from fedloom.federation.arithmetic import arithmetic
from fedloom.federation.coordinator import Coordinator
from fedloom.federation.page import Families
from fedloom.federation.rules import Rules
from fedloom.federation.status import status
from fedloom.federation.void import flaw
from fedloom.tasks import Variables
from fedloom.trees import flatten


@pytest.fixture(autouse=True, scope="module")
def swept() -> Iterator[None]:
    """What crashed lives leave behind is taken away here: Python 3.11 trips over it while it parses a module."""
    yield
    gc.collect()


def test_in_fine_weather_the_model_is_that_of_plain_arithmetic() -> None:
    world = World(0, Weather())
    assert np.array_equal(world.run(), expected(tiny(1.0), [[0, 1, 2]] * 4, 3))
    assert world.crashed == 0 and world.coordinator.journal.voided() == 0


@pytest.mark.parametrize("seed", range(40))
def test_in_any_weather_the_model_is_that_of_the_updates_that_counted(seed: int) -> None:
    weather, manner = forecast(seed)
    final = World(seed, weather, **manner).run()
    if not manner:  # everybody must count: whatever happened, nothing is different
        assert np.array_equal(final, expected(tiny(1.0), [[0, 1, 2]] * 4, 3))


@pytest.mark.parametrize("seed", range(8))
def test_in_any_weather_a_liar_s_round_is_void_and_the_run_goes_on(seed: int) -> None:
    weather, manner = forecast(seed)
    world = World(seed, weather, **manner, lies=frozenset({(1, 0), (2, 2)}))
    final = world.run()
    if not manner:
        assert np.array_equal(final, expected(tiny(1.0), [[], [0, 1, 2], [], [0, 1, 2]], 3))
        assert [row["void"] for row in world.coordinator.history.rows] == [1, 0, 1, 0]


def test_a_run_of_nothing_but_void_rounds_ends_and_says_whose_updates_were_in_all_of_them() -> None:
    world = World(0, Weather(), rounds=100, lies=frozenset((1, round) for round in range(100)))
    with pytest.raises(AssertionError):
        world.run()  # which looks for a hundred rounds
    c, why = world.coordinator, "the test loss of the model after it is inf"
    assert (c.stopped or "").startswith(
        f"the last 10 rounds were void (round 10: {why}); the model before them is kept"
    )
    assert "Updates of p0, p1 and p2 were in all of them: revoke" in (c.stopped or "")
    assert len(c.history) == 10 and c.journal.voided() == 0
    assert flatten(c.state.variables)["params.w"].tolist() == [0.0] * 3
    assert Coordinator(c.course, c.journal, c.disk, c.clock, "again").stopped == c.stopped
    last = status(c)["void"][0]
    assert (last["round"], last["reason"], sorted(last["participants"])) == (10, why, ["p0", "p1", "p2"])
    assert len(status(c)["void"]) == 10 and status(c)["aborted"] == 0
    read = {s.name: s.value for family in Families(status(c)).collect() for s in family.samples if not s.labels}
    assert read["fedloom_rounds_void_total"] == 10


def test_a_state_that_is_not_finite_makes_a_round_void_too() -> None:
    state = tiny(1.0).first
    assert flaw(tiny(1.0), state, 1.0, True, {"test_loss": 1.0}) is None
    broken = replace(state, variables=Variables({"w": np.full(3, np.inf, np.float32)}, {}))
    why = "the state after it cannot be used: variables.params.w holds numbers that are not finite"
    assert flaw(tiny(1.0), broken, 1.0, True, {}) == why
    adam = arithmetic(TINY, fl.fedavg(server=fl.server("adam")), 0)
    memory = jax.tree.map(lambda a: np.full(a.shape, np.inf, a.dtype), adam.first.optimizer)
    assert "optimizer.first.w holds numbers" in str(flaw(adam, replace(adam.first, optimizer=memory), 1.0, True, {}))
    assert flaw(tiny(1.0), state, 1.0, False, {}) == "no update has a positive weight"
    assert flaw(tiny(1.0), state, np.inf, True, {}) == "the norm of the mean update is not finite"


def test_a_seed_is_a_weather() -> None:
    first, again, other = (World(seed, forecast(7)[0]) for seed in (7, 7, 8))
    for world in (first, again, other):
        world.run()
    assert first.events == again.events != other.events


def test_rounds_below_the_quorum_are_void_and_change_nothing() -> None:
    rules = Rules(begin=2, quorum=1.0, deadline=1.0, patience=0.5, pause=0.5)
    world = World(1, Weather(delay=3.0), participants=2, rounds=1, rules=rules)
    with pytest.raises(AssertionError, match=r"the run does not end"):
        world.run()
    assert world.coordinator.journal.voided() > 3
    assert world.coordinator.state_file == world.coordinator.journal.about()["state"]


def test_time_passes_only_when_everybody_waits() -> None:
    async def main() -> float:
        await asyncio.sleep(1000.0)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=Loop) as runner:
        assert runner.run(main()) == pytest.approx(1000.0)
