from dataclasses import replace
from pathlib import Path

import pytest

from fedloom.errors import ArgumentError, FedloomError, UnknownName
from fedloom.runs import History, Run, plot
from fedloom.tasks import Variables

HISTORY = History(
    tuple(
        {
            "round": i,
            "seconds": i,
            "steps": i,
            "bytes_up": 1e6 * i,
            "bytes_down": 2e6 * i,
            "train_accuracy": 0.5 + i / 20,
            "test_accuracy": 0.5 + (i % 3) / 10,
            "test_loss": 2.0 / (i + 1),
        }
        for i in range(6)
    )
)


def test_each_curve_is_drawn_as_measured_and_best_so_far(tmp_path: Path) -> None:
    figure = plot([("a", HISTORY)], metrics=["accuracy"], against=["bytes"], file=tmp_path / "f.png")
    [axes] = figure.axes
    measured, best = axes.lines[0], axes.lines[1]
    assert list(measured.get_ydata()) == HISTORY.column("test_accuracy").tolist()
    assert list(best.get_ydata()) == HISTORY.so_far("test_accuracy").tolist()
    assert list(best.get_xdata()) == [0, 3, 6, 9, 12, 15]
    assert (tmp_path / "f.png").stat().st_size > 10_000


def test_of_a_long_run_the_first_rounds_are_not_what_is_seen() -> None:
    rows = [{"round": i, "test_accuracy": min(0.1 + i / 10, 0.9), "test_loss": 2 - i / 50} for i in range(30)]
    limits = [plot([("a", History(tuple(rows[:n])))], against=["rounds"]).axes[0].get_ylim() for n in (8, 30)]
    assert limits == [(pytest.approx(0.08), 1.005), (pytest.approx(0.78), 1.005)]
    loss = plot([("a", History(tuple(rows)))], against=["rounds"]).axes[1]
    assert loss.yaxis.get_minor_formatter()(1.5, 0) == "1.5"  # not 1.5 × 10⁰


def test_of_a_short_run_all_is_seen_but_what_was_before_the_first_round() -> None:
    rows = [{"round": i, "test_accuracy": a, "test_loss": 1.0} for i, a in enumerate((0.1, 0.94, 0.98, 0.99))]
    bottoms = [plot([("a", History(tuple(rows[:n])))], against=["rounds"]).axes[0].get_ylim()[0] for n in (1, 4)]
    assert bottoms == [0.0, pytest.approx(0.82)]


def test_several_runs_share_a_figure() -> None:
    figure = plot([("a", HISTORY), ("b", HISTORY)], against=["rounds", "seconds", "bytes"])
    assert len(figure.axes) == 6
    labels = [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
    assert {"a: test", "b: test", "a: train"} <= set(labels)


def test_whatever_else_there_is_is_drawn_as_measured() -> None:
    apart = History(tuple({**row, "consensus": 1 / (1 + row["round"])} for row in HISTORY.rows))
    [axes] = plot([("a", apart)], metrics=["consensus"]).axes
    assert list(axes.lines[0].get_ydata()) == apart.column("consensus").tolist() and axes.get_ylabel() == "consensus"


def test_unknown_names() -> None:
    with pytest.raises(UnknownName, match="metric must be one of accuracy, loss, but is 'f1'"):
        plot([("a", HISTORY)], metrics=["f1"])
    with pytest.raises(UnknownName, match="against must be one of bytes, clock, rounds, seconds, steps, but is 'time'"):
        plot([("a", HISTORY)], against=["time"])


def seeded(label: str, seed: int, rows: int = 6, **settings: object) -> Run:
    return Run(label, History(HISTORY.rows[:rows]), Variables({}, {}), "did 5 rounds",
               identity={"lr": 0.1, "seed": seed, **settings})  # fmt: skip


def bold(*runs: Run) -> dict[str, list[float]]:
    """The bold curves of training accuracy in a figure, by their labels."""
    only = [replace(run, history=without_test(run.history)) for run in runs]
    [axes] = plot(only, metrics=["accuracy"]).axes
    return {str(line.get_label()): line.get_ydata().tolist() for line in axes.lines if line.get_linewidth() == 1.8}


def without_test(history: History) -> History:
    return History(tuple({k: v for k, v in row.items() if k != "test_accuracy"} for row in history.rows))


def test_runs_that_differ_in_their_seed_alone_are_one_curve() -> None:
    short, other = seeded("a", 1, rows=3), seeded("b", 0)
    [axes] = plot([seeded("a", 0), other, short], metrics=["accuracy"]).axes
    labels = [t.get_text() for t in axes.get_legend().get_texts()]
    assert labels == ["a: test", "a: train", "b: test", "b: train", "bold: mean of the best so far, faint: each seed's"]
    mean = next(line for line in axes.lines if line.get_label() == "a: train")
    assert list(mean.get_ydata()) == pytest.approx([0.5, 0.55, 0.6, 0.625, 0.65, 0.675])  # who ended stays at 0.6
    assert list(mean.get_xdata()) == [0, 1, 2, 3, 4, 5]


def test_different_settings_under_one_label_are_curves_of_their_own() -> None:
    curves = bold(seeded("a", 0), seeded("a", 1, rows=3, lr=0.2), seeded("a", 1, rows=3))
    assert list(curves) == ["a (lr=0.1)", "a (lr=0.2)"]
    assert curves["a (lr=0.2)"] == [0.5, 0.55, 0.6]
    assert curves["a (lr=0.1)"] == pytest.approx([0.5, 0.55, 0.6, 0.625, 0.65, 0.675])


def test_a_run_that_is_drawn_twice_is_two_curves() -> None:
    run = seeded("a", 0)
    assert list(bold(run, run)) == ["a (1)", "a (2)"]
    [axes] = plot([("a", HISTORY), ("a", HISTORY)], metrics=["loss"]).axes
    assert [t.get_text() for t in axes.get_legend().get_texts()][:2] == ["a (1)", "a (2)"]


def test_seeds_are_averaged_at_equal_rounds() -> None:
    rows = [{"round": i, "test_accuracy": i / 10} for i in range(11)]
    one, other = (Run("a", History(tuple(rows[::every])), Variables({}, {}), "", identity={"seed": every})
                  for every in (1, 5))  # fmt: skip
    [axes] = plot([one, other], metrics=["accuracy"]).axes
    mean = next(line for line in axes.lines if line.get_linewidth() == 1.8)
    assert (mean.get_xdata().tolist(), mean.get_ydata().tolist()) == ([0, 5, 10], [0.0, 0.5, 1.0])


def test_many_curves_have_shades_and_a_legend_beside_them() -> None:
    only = History(tuple({k: v for k, v in row.items() if k != "train_accuracy"} for row in HISTORY.rows))
    figure = plot([(f"lr={i}", only) for i in range(9)], metrics=["accuracy"])
    [axes] = figure.axes
    assert axes.get_legend() is None and len(figure.legends) == 1
    assert axes.get_ylabel() == "test accuracy"
    bold = [line for line in axes.lines if line.get_label().startswith("lr=")]
    assert [line.get_label() for line in bold] == [f"lr={i}" for i in range(9)]
    assert len({tuple(line.get_color()) for line in bold}) == 9


def test_runs_are_drawn_as_they_are() -> None:
    run = Run("mine", HISTORY, Variables({}, {}), "did 5 rounds")
    [axes] = plot([run, ("b", HISTORY)], metrics=["loss"]).axes
    assert [t.get_text() for t in axes.get_legend().get_texts()][:2] == ["mine", "b"]


def test_what_not_all_runs_have_is_refused() -> None:
    apart = History(tuple({**row, "consensus": 1.0, "clock": 1.0} for row in HISTORY.rows))
    with pytest.raises(
        ArgumentError, match="metric must be one that all runs have, unlike b and c, but is 'consensus'"
    ):
        plot([("a", apart), ("b", HISTORY), ("c", HISTORY)], metrics=["consensus"])
    with pytest.raises(ArgumentError, match="all runs have, unlike a, but is 'consensus'"):  # one of its seeds
        plot([replace(seeded("a", 0), history=apart), seeded("a", 1)], metrics=["consensus"])
    for runs, told in (([("a", apart), ("b", HISTORY)], "b has"), ([("a", HISTORY), ("b", HISTORY)], "a and b have")):
        with pytest.raises(FedloomError, match=rf"^{told} no clock: run with --compute \(in Python: clock=\)$"):
            plot(runs, against=["rounds", "clock"])
    assert len(plot([("a", apart)], against=["clock"]).axes) == 2


def test_shared_and_own_models_never_share_an_axis() -> None:
    own = History(tuple({"round": i, "own_test_accuracy": 0.9, "own_test_loss": 1.0} for i in range(3)))
    both = History(tuple({**row, "own_on_all_test_accuracy": 0.2} for row in HISTORY.rows))
    figure = plot([("fedper", own), ("fedavg", HISTORY), ("ditto", both)], metrics=["accuracy"])
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["accuracy,\nshared model", "test accuracy,\nown models on own data",
                      "test accuracy,\nown models on everybody's data"]  # fmt: skip
    drawn = [{line.get_label().split(":")[0] for line in axes.lines} & {"fedper", "fedavg", "ditto"}
             for axes in figure.axes]  # fmt: skip
    assert drawn == [{"fedavg", "ditto"}, {"fedper"}, {"ditto"}]
    assert [axes.get_legend() is not None for axes in figure.axes] == [True] * 3
