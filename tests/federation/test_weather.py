"""Whatever the weather, a run ends with the model that its updates make, and each of them counts once."""

import asyncio
import gc
from collections.abc import Iterator

import numpy as np
import pytest
from weather import Loop, Weather, World, expected, forecast, tiny

from fedloom.federation.rules import Rules


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
