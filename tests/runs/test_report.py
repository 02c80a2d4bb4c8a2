from dataclasses import replace

from fedloom.runs.history import History
from fedloom.runs.report import beside, comparison
from fedloom.runs.result import Run
from fedloom.tasks import Variables


def run(label: str, *accuracies: float, stopped: str = "did 2 rounds", **more: float) -> Run:
    rows = tuple({"round": i, "bytes_up": 1e6 * i, "bytes_down": 1e6 * i, "seconds": 2.0 * i, "test_accuracy": a,
                  **{name: value * i for name, value in more.items()}} for i, a in enumerate(accuracies))  # fmt: skip
    settings, _, seed = label.rpartition("seed=")
    return Run(label, History(rows), Variables({}, {}), stopped, identity={"settings": settings, "seed": int(seed)})


def lines(*runs: Run, target: float) -> dict[str, list[str]]:
    table = comparison(runs, target)
    columns = [list(column.cells) for column in table.columns]
    heads = [str(column.header) for column in table.columns]
    assert heads[0] == "experiment"
    return {"": heads[1:], **{str(row[0]): [str(cell) for cell in row[1:]] for row in zip(*columns, strict=True)}}


def test_seeds_are_one_line_and_the_best_is_first() -> None:
    shown = lines(
        run("lr=0.1,seed=0", 0.1, 0.5, 0.6), run("lr=0.1,seed=1", 0.1, 0.7, 0.8), run("lr=0.2,seed=0", 0.1, 0.9, 0.8),
        run("lr=0.2,seed=1", 0.1, 0.6, stopped="diverged: loss is nan"), target=0.7,
    )  # fmt: skip
    assert list(shown) == ["", "lr=0.2", "lr=0.1"]
    assert shown[""] == ["best test", "to 0.7", "rounds", "MB", "seconds", "stopped"]
    assert shown["lr=0.1"] == ["70.00% ± 14.14%", "1 (1 of 2)", "2", "4.0", "4.0", ""]
    assert shown["lr=0.2"] == ["75.00% ± 21.21%", "1 (1 of 2)", "1.5", "3.0", "3.0", "diverged"]


def test_one_seed_each_and_a_clock() -> None:
    both = [run(f"algorithm={name},seed=0", 0.1, 0.5, clock=7.0) for name in ("fedavg", "scaffold")]
    assert lines(*both, target=0.9) == {
        "": ["best test", "to 0.9", "rounds", "MB", "clock"],
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
    assert comparison(seeds, None).caption == f"±: the deviation over seeds; {compiling}"
    assert comparison(seeds[:1], None).caption == compiling
    assert not comparison([run("lr=0.1,seed=0", 0.1, 0.5, clock=7.0)], None).caption


def test_beside_the_union_it_is_said_how_the_rate_decays() -> None:
    two = run("a, seed=0", 0.1, 0.5), run("b, seed=0", 0.1, 0.6)
    told = "The learning rate decays over the same work: by 0.9 a round, 0.3487 a pass."
    assert beside(*two, 0.1, (0.9, 0.9**10)).endswith(told)
    assert "decays" not in beside(*two, 0.1)
