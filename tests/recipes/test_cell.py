import json
from pathlib import Path

import pytest

import fedloom.recipes.cell as record
from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Cell, Outcome, Trial
from fedloom.runs import Experiment


def trial(lr: float, seed: int, rounds: int | None, decay: float = 1.0, best: float = 0.9) -> Trial:
    """A run that reaches 97 % exactly in some round, or 90 % (or another best) in the end."""
    last = (5, best) if rounds is None else (rounds, 0.97)
    return Trial(lr, decay, seed, "", ((0, 0.1), last))


def test_a_curve_crosses_between_two_evaluations() -> None:
    one = Trial(0.1, 1.0, 0, "", ((0, 0.1), (10, 0.5), (20, 0.9)))
    assert (one.crossing(0.7), one.reached(0.7)) == (15.0, 20)
    assert (one.crossing(0.95), one.reached(0.95)) == (None, None)
    assert one.best == 0.9


def test_the_winner_needs_the_fewest_rounds_over_its_seeds() -> None:
    trials = [trial(0.1, 0, 40), trial(0.2, 0, 30), trial(0.2, 1, 34), trial(0.2, 2, 32), trial(0.4, 0, None)]
    found = Outcome("a", tuple(trials), {})
    assert found.winner(0.97) == (0.2, 1.0)
    assert found.rounds(0.97) == 32
    assert found.settings == [(0.1, 1.0), (0.2, 1.0), (0.4, 1.0)]


def test_each_target_has_its_winner() -> None:
    slow = Trial(0.1, 0.99, 0, "", ((0, 0.0), (10, 0.5), (20, 0.9)))
    fast = Trial(0.2, 1.0, 0, "", ((0, 0.0), (5, 0.5), (30, 0.9)))
    found = Outcome("a", (slow, fast), {})
    assert (found.winner(0.5), found.winner(0.9)) == ((0.2, 1.0), (0.1, 0.99))
    assert (found.rounds(0.5), found.rounds(0.9)) == (5, 20)


def test_a_rate_that_fails_with_a_seed_does_not_win() -> None:
    trials = [trial(0.4, 0, 10), trial(0.4, 1, None), trial(0.2, 0, 30), trial(0.2, 1, 32)]
    assert Outcome("a", tuple(trials), {}).winner(0.97) == (0.2, 1.0)


def test_nobody_gets_there() -> None:
    found = Outcome("a", (trial(0.1, 0, None, best=0.8), trial(0.2, 0, None, best=0.9)), {})
    assert found.winner(0.97) == (0.2, 1.0)
    assert found.rounds(0.97) is None


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    assert record.read("a", tmp_path) is None
    kept = Outcome("a", (trial(0.1, 0, 12), trial(0.2, 1, None, decay=0.99)), {"device": "CPU", "seconds": 3.0})
    record.write(kept, tmp_path)
    assert record.read("a", tmp_path) == kept
    (tmp_path / "a.json").write_text('{"cell": "a", "trials": []}')
    with pytest.raises(CheckpointError, match=r"a.json is damaged \(it has no trials"):
        record.read("a", tmp_path)
    (tmp_path / "a.json").write_text('{"cell": "a"}')
    with pytest.raises(CheckpointError, match=r"a.json is damaged .*: delete it, and it is computed again"):
        record.read("a", tmp_path)


@pytest.mark.parametrize(("change", "why"), [
    ({"cell": "b"}, "it says that it is 'b'"), ({"experiment": ["lr"]}, r"its experiment is \['lr'\]"),
    ({"seconds": "long"}, "could not convert"), ({"lr": None}, "float"), ({"curve": []}, "a trial has no curve"),
    ({"curve": [[0, float("nan")]]}, "a trial has the accuracy nan"), ({"curve": [[0, 97.0]]}, "the accuracy 97.0"),
])  # fmt: skip
def test_a_record_that_cannot_be_is_told_of(tmp_path: Path, change: dict[str, object], why: str) -> None:
    record.write(Outcome("a", (trial(0.1, 0, 12),), {"seconds": 3.0}), tmp_path)
    content = json.loads((tmp_path / "a.json").read_text())
    for name, value in change.items():
        (content["trials"][0] if name in content["trials"][0] else content)[name] = value
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=rf"a.json is damaged \(.*{why}.*\): delete it"):
        record.read("a", tmp_path)


def test_what_is_of_another_experiment_is_refused(tmp_path: Path) -> None:
    cell, path = Cell("a", Experiment(lr=0.5, rounds=7), 0.1), tmp_path / "a.json"
    record.check(cell, Outcome("a", (), {"experiment": {"lr": 0.5, "every": 5}}), path)
    with pytest.raises(CheckpointError, match=r"a.json is of another experiment \(\{'lr': 0.2\}\): delete it"):
        record.check(cell, Outcome("a", (), {"experiment": {"lr": 0.2}}), path)
    with pytest.raises(CheckpointError, match=r"a.json is damaged \(a field of an experiment must be one of .*'lrr'"):
        record.check(cell, Outcome("a", (), {"experiment": {"lrr": 0.2}}), path)
