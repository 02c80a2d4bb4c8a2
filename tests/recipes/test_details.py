from fedloom.recipes.cell import Cell, Outcome, Trial
from fedloom.recipes.details import details
from fedloom.runs import Experiment

CELL = Cell("cell", Experiment(), 0.1, targets=(0.5, 0.9))
CURVE = ((0, 0.1), (2, 0.5), (10, 0.9))
TRIALS = (
    Trial(0.1, 1.0, 0, "", CURVE),
    Trial(0.1, 1.0, 1, "", ((0, 0.1), (2, 0.3), (3, 0.7), (1500, 0.8))),
    Trial(0.2, 0.99, 0, "", ((0, 0.1), (10, 0.2))),
)


def test_every_rate_and_every_seed_is_told_for_each_target() -> None:
    about = {"seconds": 90, "device": "a CPU", "experiment": {"precision": "bfloat16"}}
    *_, first, second, _, end = details([CELL], {"cell": Outcome("cell", TRIALS, about)}).splitlines()
    assert first == "| `cell`* | 50% | **0.1**; 0.2 × 0.99ʳ | 2.0, 2.5 | 2, 3 | 3 | 1.5 | a CPU |"
    assert second == "| `cell`* | 90% | **0.1**; 0.2 × 0.99ʳ | 10.0, not reached | 10, not reached |  |  |  |"
    assert end == "</details>"


def test_where_nothing_is_recorded_there_is_nothing_to_fold_away() -> None:
    assert details([CELL], {"another": Outcome("another", TRIALS, {})}) == ""
