from pathlib import Path

import pytest

import fedloom.recipes.cell as record
from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Cell, Outcome, Trial
from fedloom.runs import Experiment


def trial(lr: float, seed: int, crossing: float | None, best: float = 0.9) -> Trial:
    return Trial(lr, seed, crossing, None if crossing is None else round(crossing), "", ((0, 0.1), (5, best)))


def test_the_winner_needs_the_fewest_rounds_over_its_seeds() -> None:
    trials = [trial(0.1, 0, 40), trial(0.2, 0, 30), trial(0.2, 1, 34), trial(0.2, 2, 32), trial(0.4, 0, None)]
    found = Outcome("a", 0.97, tuple(trials), {})
    assert found.winner == 0.2
    assert found.rounds == 32
    assert found.rates == [0.1, 0.2, 0.4]


def test_a_rate_that_fails_with_a_seed_does_not_win() -> None:
    trials = [trial(0.4, 0, 10), trial(0.4, 1, None), trial(0.2, 0, 30), trial(0.2, 1, 32)]
    assert Outcome("a", 0.97, tuple(trials), {}).winner == 0.2


def test_nobody_gets_there() -> None:
    found = Outcome("a", 0.97, (trial(0.1, 0, None, 0.8), trial(0.2, 0, None, 0.9)), {})
    assert found.winner == 0.2
    assert found.rounds is None


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    cell = Cell("a", Experiment(), 0.1)
    assert record.read(cell, tmp_path) is None
    kept = Outcome("a", 0.97, (trial(0.1, 0, 12.5), trial(0.2, 1, None)), {"device": "CPU", "seconds": 3.0})
    record.write(kept, tmp_path)
    assert record.read(cell, tmp_path) == kept
    (tmp_path / "a.json").write_text('{"cell": "a"}')
    with pytest.raises(CheckpointError, match=r"a.json is damaged .*: delete it, and it is computed again"):
        record.read(cell, tmp_path)
