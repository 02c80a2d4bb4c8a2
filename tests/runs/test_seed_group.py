from pathlib import Path

import numpy as np

import fedloom as fl
from fedloom.runs.seed_group import group_seeds


def test_the_runs_of_two_sweeps_are_grouped_by_all_but_their_seed(tmp_path: Path) -> None:
    columns = {"x": np.zeros((8, 2), np.float32), "y": np.arange(8, dtype=np.int32) % 2}
    data = fl.data.Dataset("toy", columns, 2, np.arange(6), test=np.arange(6, 8)).partition(fl.partition.iid(2))
    swept = [
        fl.sweep(data, fl.tasks.logistic(2, classes=2), fl.fedavg(fraction=1.0, decay=decay), lr=[0.1], seeds=2,
                 rounds=1, directory=tmp_path / str(decay)) for decay in (1.0, 0.5)
    ]  # fmt: skip
    both = [*swept[0], *swept[1]]
    expected = [("lr=0.1 (decay=1.0)", (0, 1)), ("lr=0.1 (decay=0.5)", (2, 3))]
    assert [(group.label, group.indices) for group in group_seeds(both)] == expected
    loaded = [fl.load(run.directory) for run in both if run.directory]
    assert [(group.label, group.indices) for group in group_seeds(loaded)] == expected
    assert [group.label for group in group_seeds(both[:2])] == ["lr=0.1"]
