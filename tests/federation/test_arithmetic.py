"""A server's arithmetic: the simulation's cohorts, and nothing compiled anew when somebody comes."""

from pathlib import Path

import numpy as np
import pytest
from quadratic import quadratic
from weather import tiny

import fedloom as fl
from fedloom.errors import ArgumentError
from fedloom.federation import arithmetic
from fedloom.federation.arithmetic import Contribution
from fedloom.selection import cohorts, random_order
from fedloom.trees import flatten


@pytest.mark.parametrize("participants", [1, 2, 3, 7, 64, 100])
def test_a_round_would_have_the_simulation_s_cohort_first(participants: int) -> None:
    for round in (0, 5):
        order = tiny(1.0).preference(round, [1] * participants)
        assert sorted(order) == list(range(participants))
        m = max(1, participants // 3)
        seeds, rounds = np.array([0], np.uint32), np.array([round])
        assert order[:m] == cohorts("uniform", seeds, rounds, np.ones(participants), m)[0, 0].tolist()


def test_a_step_by_hand() -> None:
    mine = tiny(1.0)
    given = [Contribution(0, 1, {}), Contribution(1, 3, {})]
    updates = [{"update.params.w": np.full(3, w, np.float32)} for w in (4.0, 8.0)]
    state, norm, counted = mine.step(mine.first, given, updates, 2)
    assert flatten(state.variables)["params.w"] == pytest.approx([7.0] * 3)  # (1 · 4 + 3 · 8) / 4
    assert norm == pytest.approx(7.0 * np.sqrt(3)) and counted and int(state.round) == 1


def test_whoever_comes_costs_no_compilation() -> None:
    mine = tiny(1.0)
    given, update = [Contribution(0, 1, {})], [{"update.params.w": np.ones(3, np.float32)}]
    for everyone in (33, 40):
        mine.preference(0, [1] * everyone)
        mine.step(mine.first, given, update, everyone)
    before = arithmetic._apply._cache_size(), random_order._drawn._cache_size()
    for everyone in (41, 50, 64):
        mine.preference(0, [1] * everyone)
        mine.step(mine.first, given, update, everyone)
    assert (arithmetic._apply._cache_size(), random_order._drawn._cache_size()) == before


def test_the_longest_work_is_added_first() -> None:
    assert tiny(1.0).ordered([Contribution(k, n, {}) for k, n in enumerate((10, 30, 20, 30))]) == [1, 3, 2, 0]


def test_a_file_of_epochs_that_is_gone_later_changes_nothing(tmp_path: Path) -> None:
    """A participant's epochs are read when it comes; by its name, also where that is another's number."""
    file = tmp_path / "work.csv"
    file.write_text("client,epochs\n1,3\nclinic,5\n")
    mine = arithmetic.arithmetic(quadratic(), fl.fedavg(epochs=str(file), lr=0.1), 0)
    assert [int(mine.work(k, name).batches.epochs) for k, name in enumerate(("1", "clinic"))] == [3, 5]
    file.unlink()
    assert mine.ordered([Contribution(0, 8, {}, "1"), Contribution(1, 8, {}, "clinic")]) == [1, 0]
    with pytest.raises(ArgumentError, match=r"^epochs must be a CSV file that exists"):
        mine.work(2, "late")
