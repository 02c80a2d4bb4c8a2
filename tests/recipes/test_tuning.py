from collections.abc import Callable

import pytest

import fedloom.recipes.tuning as tuning
from fedloom.data import FederatedData
from fedloom.engines import compiled
from fedloom.recipes.cell import Cell, Trial
from fedloom.runs import Experiment


def test_the_grid_is_the_papers() -> None:
    assert tuning.grid(1.0, 4) == [0.215, 0.464, 1.0, 2.15]
    assert tuning.wider([0.1, 0.215], 0.1) == [0.0464, 0.0215]


@pytest.mark.parametrize("lanes", [None, 2])
def test_tuning_finds_a_rate_and_repeats_it(generated: Callable[..., FederatedData], lanes: int | None) -> None:
    """One after another, as on a CPU, and side by side, as on an accelerator: the best rate is the same."""
    data = generated([20] * 6, test=200)
    cell = Cell("toy", Experiment(model="logistic", fraction=0.5, target=0.8, rounds=40, evaluate="test"), rate=0.1)
    found = tuning.tune(cell, data, compiled(lanes=lanes, devices=1), rates=3, seeds=2)
    assert found.rounds is not None
    assert [t.seed for t in found.chosen] == [0, 1]
    assert min(found.rates) < found.winner < max(found.rates)  # widened until the best is inside
    for other in (t for t in found.trials if t.lr != found.winner):
        assert other.crossing is None or other.crossing >= found.chosen[0].crossing  # type: ignore[operator]


def test_a_rate_that_fails_with_some_seed_gives_way_to_a_smaller(
    generated: Callable[..., FederatedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    def race(*arguments: object) -> list[Trial]:
        points: list[tuple[float, int]] = arguments[3]  # type: ignore[assignment]

        def rounds(lr: float, seed: int) -> float | None:
            return {0.1: 30.0, 0.215: 20.0 if seed == 0 else None}.get(lr)

        return [Trial(lr, seed, rounds(lr, seed), None, "", ((0, 0.5),)) for lr, seed in points]

    monkeypatch.setattr(tuning, "race", race)
    cell = Cell("toy", Experiment(), rate=0.1)
    found = tuning.tune(cell, generated([5]), compiled(), rates=5, seeds=3)
    assert found.winner == 0.1
    assert found.rounds == 30
    assert len({(t.lr, t.seed) for t in found.trials}) == len(found.trials)
