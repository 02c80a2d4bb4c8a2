from dataclasses import replace

from fedloom.runs.comparison import comparison
from fedloom.runs.history import History
from fedloom.runs.result import Run
from fedloom.tasks import Variables

NONE = Variables({}, {})


def run(label: str, *accuracies: float, stopped: str = "did 2 rounds", **more: float) -> Run:
    rows = tuple({"round": i, "bytes_up": 1e6 * i, "bytes_down": 1e6 * i, "seconds": 2.0 * i, "test_accuracy": a,
                  **{name: value * i for name, value in more.items()}} for i, a in enumerate(accuracies))  # fmt: skip
    settings, _, seed = label.rpartition("seed=")
    return Run(label, History(rows), NONE, stopped, identity={"settings": settings, "seed": int(seed)})


def lines(*runs: Run, target: float) -> dict[str, list[str]]:
    table = comparison(runs, target)
    columns = [list(column.cells) for column in table.columns]
    heads = [str(column.header) for column in table.columns]
    assert heads[0] == "experiment"
    return {"": heads[1:], **{str(row[0]): [str(cell) for cell in row[1:]] for row in zip(*columns, strict=True)}}


def test_seeds_are_one_line_and_the_best_in_the_last_round_is_first() -> None:
    shown = lines(
        run("lr=0.1,seed=0", 0.1, 0.5, 0.6), run("lr=0.1,seed=1", 0.1, 0.7, 0.8), run("lr=0.2,seed=0", 0.1, 0.9, 0.85),
        run("lr=0.2,seed=1", 0.1, 0.6, stopped="diverged: loss is nan"), target=0.7,
    )  # fmt: skip
    assert list(shown) == ["", "lr=0.2", "lr=0.1"]
    assert shown[""] == ["test", "to 0.7", "rounds", "MB", "seconds", "stopped"]
    assert shown["lr=0.1"] == ["70.00% ± 14.14%", "1 (1 of 2)", "2", "4.0", "4.0", ""]
    assert shown["lr=0.2"] == ["72.50% ± 17.68%", "1 (1 of 2)", "1.5", "3.0", "3.0", "diverged"]


def test_one_seed_each_and_a_clock() -> None:
    both = [run(f"algorithm={name},seed=0", 0.1, 0.5, clock=7.0) for name in ("fedavg", "scaffold")]
    assert lines(*both, target=0.9) == {
        "": ["test", "to 0.9", "rounds", "MB", "clock"],
        **{name: ["50.00%", "–", "1", "2.0", "7.0"] for name in ("fedavg", "scaffold")},
    }


def test_different_settings_under_one_label_are_lines_of_their_own() -> None:
    one, other = (
        replace(run("lr=0.1,seed=0", 0.1, a), identity={"mu": mu, "seed": 0}) for a, mu in ((0.5, 1), (0.7, 2))
    )
    assert list(lines(one, other, target=0.9)) == ["", "lr=0.1 (mu=2)", "lr=0.1 (mu=1)"]


def test_what_numbers_mean_is_said_below() -> None:
    seeds = [run(f"lr=0.1,seed={seed}", 0.1, 0.5) for seed in range(2)]
    compiling = "seconds include compiling, which the first run of a program does"
    last = "accuracy: of the last round"
    assert comparison(seeds, None).caption == f"{last}; ±: the deviation over seeds; {compiling}"
    assert comparison(seeds[:1], None).caption == f"{last}; {compiling}"
    assert comparison([run("lr=0.1,seed=0", 0.1, 0.5, clock=7.0)], None).caption == last


def measured(label: str, **columns: float) -> Run:
    """A run whose first round was twice as good as its last one, on test data."""
    costs = {"bytes_up": 0.0, "bytes_down": 0.0, "seconds": 1.0}
    first = {name: value * (2 if "test" in name else 1) for name, value in columns.items()}
    return Run(label, History(({"round": 1, **costs, **first}, {"round": 2, **costs, **columns})), NONE, "did 2 rounds")


def test_different_models_on_different_data_have_columns_of_their_own_and_are_not_ranked_together() -> None:
    both = {"test_accuracy": 0.2, "own_test_accuracy": 0.4}
    runs = [
        measured("algorithm=fedper,seed=0", own_test_accuracy=0.45),
        measured("algorithm=fedavg,seed=0", test_accuracy=0.3),
        measured("algorithm=ditto,seed=0", **both), measured("algorithm=local,seed=0", own_test_accuracy=0.5),
        measured("algorithm=ring,seed=0", own_on_all_test_accuracy=0.35),
    ]  # fmt: skip
    table = comparison(runs, None)
    heads = [str(column.header) for column in table.columns]
    assert heads[1:4] == ["test,\nshared model", "test,\nown models,\nown data", "test,\nown models,\neverybody's data"]
    rows = list(zip(*(column.cells for column in table.columns[:4]), strict=True))
    assert rows == [
        ("fedavg", "30.00%", "–", "–"), ("ditto", "20.00%", "40.00%", "–"),
        ("local", "–", "50.00%", "–"), ("fedper", "–", "45.00%", "–"), ("ring", "–", "–", "35.00%"),
    ]  # fmt: skip
    assert [row.end_section for row in table.rows] == [False, True, False, True, False]
    assert "lines are ranked within their section only" in str(table.caption)


def test_the_best_on_validation_data_decides_where_there_is_some() -> None:
    runs = [measured("lr=1,seed=0", test_accuracy=0.4, validation_accuracy=0.3),
            measured("lr=2,seed=0", test_accuracy=0.3, validation_accuracy=0.4)]  # fmt: skip
    shown = lines(*runs, target=0.9)
    assert list(shown) == ["", "lr=2", "lr=1"]
    assert shown[""][:2] == ["test", "best\nvalidation"] and shown["lr=2"][:2] == ["30.00%", "40.00%"]


def test_a_task_without_accuracy_is_compared_by_its_loss() -> None:
    runs = [measured(f"lr={i},seed=0", test_loss=loss) for i, loss in enumerate((2.0, 1.0))]
    shown = comparison(runs, None)
    assert list(shown.columns[0].cells) == ["lr=1", "lr=0"] and list(shown.columns[1].cells) == ["1.0000", "2.0000"]
