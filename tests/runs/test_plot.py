from pathlib import Path

import pytest

from fedloom.errors import UnknownName
from fedloom.runs import History, plot

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
