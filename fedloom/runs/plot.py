"""Plot: the curves of runs, as figures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.errors import FedloomError, UnknownName, choose, require
from fedloom.measures import LABELS, MEAN, OWN, OWN_ON_ALL, SHARED, Measure, parse
from fedloom.runs.history import AGAINST, History
from fedloom.runs.seed_group import LabelledRun, group_seeds
from fedloom.style import COLOURS, STYLE, logarithmic, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AXES = {"rounds": "rounds of communication", "bytes": "megabytes sent", "seconds": "seconds",
        "steps": "local steps", "clock": "seconds by the simulated clock"}  # fmt: skip
INSIDE = 8  # lines of a legend that fit into a panel
FEW = 20  # a run of fewer evaluations is shown whole, but for the untrained model
DASHES = {"test": "-", "validation": "-.", "train": "--"}
PANELS = (SHARED, OWN, OWN_ON_ALL)
"""Whose models have panels of their own."""


@dataclass(frozen=True)
class Curve:
    """A labelled history without its settings, which is drawn as a line of its own."""

    label: str
    history: History


@dataclass(frozen=True)
class Line:
    """The histories that are drawn as one line: those of the seeds of one experiment."""

    label: str
    histories: tuple[History, ...]


def plot(
    runs: Sequence[tuple[str, History] | LabelledRun],
    *,
    metrics: Sequence[str] = (),
    against: Sequence[str] = ("rounds",),
    target: float | None = None,
    file: str | Path | None = None,
) -> Figure:
    """Draw metrics of one or several runs: a row a metric and a column an abscissa, or all in a row if there is one.

    Each curve is drawn twice: as measured, faint, and best so far, bold. With one run each part of the data has its own
    colour; with several, each run has its own colour and each part its own dashes. Runs that differ in their seed alone
    are one curve, the mean at equal rounds of the best so far, with the curve of each seed faint behind it. All other
    runs have a curve each. Where labels are equal, the settings that differ are added to them.

    The shared model, clients' own models on their own data and clients' own models on everybody's data have a panel
    each: numbers of different models or different data never share an axis.

    Arguments:
        runs: runs; or (label, history) pairs, whose settings are not known, so that each is a curve of its own.
        metrics: such as ``accuracy`` and ``loss``; or whatever else a history has, such as ``update_norm`` and, without
            a server, ``consensus``, which is drawn as measured. By default accuracy, or the first other metric of runs
            that have none, and the loss.
        against: any of rounds, bytes, seconds, steps, and clock where the runs had one.
        target: a line to draw across the accuracies.
        file: where to save the figure (png, pdf, svg); the name's ending says which.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    lines = merge_seeds(runs)
    metrics = metrics or usual_metrics(lines)
    with mpl.rc_context(STYLE):
        measured = [(metric, models) for metric in metrics for models in kinds(lines, metric)]
        panels = list(itertools.product(measured, against))
        rows, columns = (1, len(measured)) if len(against) == 1 else (len(measured), len(against))
        figure = Figure(figsize=(5.2 * columns, 3.8 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, ((metric, models), x) in zip(grid.flat, panels, strict=True):
            _check(lines, metric, x)
            _panel(axes, lines, metric, models, x)
            if target is not None and metric == "accuracy":
                axes.axhline(target, color="grey", linewidth=0.8, linestyle=":")
        if meaning := _faint(lines, metrics):
            grid[0, 0].plot([], [], color="grey", alpha=0.4, linewidth=1, label=meaning)
        if len(grid[0, 0].get_legend_handles_labels()[0]) > INSIDE:
            figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
        else:
            for axes in grid.flat if len(measured) > len(metrics) else [grid[0, 0]]:
                axes.legend(loc="lower right", fontsize="small", frameon=True, framealpha=0.8, edgecolor="none")
        if file:
            save(figure, file)
    return figure


def merge_seeds(runs: Sequence[tuple[str, History] | LabelledRun]) -> list[Line]:
    """Return the lines of a figure: one for all seeds of an experiment."""
    named = [Curve(*run) if isinstance(run, tuple) else run for run in runs]
    return [Line(group.label, tuple(named[i].history for i in group.indices)) for group in group_seeds(named)]


def usual_metrics(lines: Sequence[Line]) -> Sequence[str]:
    """Return the metrics to draw unless others are asked for."""
    histories = [history for line in lines for history in line.histories]
    found = {measure.metric for history in histories for name in history.columns if (measure := parse(name))}
    first = "accuracy" if "accuracy" in found else min(found - {"loss"}, default="accuracy")
    return first, "loss"


def _faint(lines: Sequence[Line], metrics: Sequence[str]) -> str:
    """The meaning of faint curves, if any are drawn."""
    histories = [history for line in lines for history in line.histories]
    columns = [(h, Measure(models, split, metric).column) for h in histories for metric in metrics
               for models in PANELS for split in _splits(h, models, metric)]  # fmt: skip
    if not any(history.direction(column) for history, column in columns):
        return ""
    if len(lines) < len(histories):
        return "bold: mean of the best so far, faint: each seed's"
    return "bold: best so far, faint: as measured" if len(histories) > 1 else "faint: as measured"


def kinds(lines: Sequence[Line], metric: str) -> list[str]:
    """Return whose models a metric is measured of in some runs; the metric has a panel for each."""
    every = [history for line in lines for history in line.histories]
    return [models for models in PANELS if any(_splits(history, models, metric) for history in every)] or [SHARED]


def _splits(history: History, models: str, metric: str) -> list[str]:
    """Return the parts of the data on which a history has a metric of some models."""
    return [split for split in DASHES if Measure(models, split, metric).column in history.columns]


def _panel(axes: Any, lines: Sequence[Line], metric: str, models: str, x: str) -> None:
    """Draw one metric of some models against one abscissa."""
    every = [history for line in lines for history in line.histories]
    parts = {split for history in every for split in _splits(history, models, metric)}
    alone = len(every) == 1
    for colour, line in zip(colours(len(lines)), lines, strict=True):
        label, histories = line.label, line.histories
        for j, split in enumerate(_splits(histories[0], models, metric)):
            style = {"color": f"C{j}" if alone else colour, "linestyle": "-" if alone else DASHES[split]}
            column = Measure(models, split, metric).column
            drawn = f"{split}, best so far" if histories[0].direction(column) else split
            shown = drawn if alone else f"{label}: {split}" if len(parts) > 1 else label
            _curve(axes, histories, column, x, shown, style)
        if metric in others(histories[0]):
            measured = [(h.along("rounds"), abscissa(h, x), h.column(metric)) for h in histories]
            axes.plot(*mean_curve(measured), label=label, linewidth=1.8, color=colour)
    whose = "".join(f"{split} " for split in parts) if len(parts) == 1 and not alone else ""
    only = models == SHARED and kinds(lines, metric) == [SHARED]
    axes.set(xlabel=AXES[x], ylabel=whose + metric.replace("_", " ") + ("" if only else f",\n{LABELS[models]}"))
    if metric == "accuracy":
        low = usual if max(map(len, every)) >= FEW else least
        shown_columns = [(h, Measure(models, s, metric).column) for h in every for s in _splits(h, models, metric)]
        lowest = min(low(history, column) for history, column in shown_columns)
        axes.set_ylim(max(0.0, lowest - 0.12), 1.005)
    if metric == "loss":
        logarithmic(axes)


def usual(history: History, name: str) -> float:
    """What a measure was usually: of a long run, not its first rounds."""
    return float(np.nanmedian(history.column(name)))


def least(history: History, name: str) -> float:
    """The least that was measured after the first round or later, if anything was."""
    values = history.column(name)
    later = values[history.column("round") > 0]
    return float(np.nanmin(later if np.isfinite(later).any() else values))


def _check(lines: Sequence[Line], metric: str, x: str) -> None:
    """Raise an error unless every run has the metric and the abscissa."""
    choose("against", x, AGAINST)
    every = [history for line in lines for history in line.histories]
    has = lambda h: any(_splits(h, models, metric) for models in PANELS) or metric in others(h)  # noqa: E731
    if not any(map(has, every)):
        known = {one.metric for h in every for c in h.columns if (one := parse(c)) and one.models in PANELS}
        raise UnknownName("metric", metric, known.union(*(others(h) for h in every)))
    lacking = [line.label for line in lines if not all(map(has, line.histories))]
    require(not lacking, "metric", f"one that all runs have, unlike {' and '.join(lacking)}", metric)
    timeless = [line.label for line in lines if any("clock" not in h.columns for h in line.histories)]
    if x == "clock" and timeless:
        verb = "has" if len(timeless) == 1 else "have"
        raise FedloomError(f"{' and '.join(timeless)} {verb} no clock: run with --compute (in Python: clock=)")


def _curve(axes: Any, histories: Sequence[History], name: str, x: str, label: str, style: dict[str, str]) -> None:
    """Draw a curve: faint as measured, or each of several; and bold the best so far, or the mean of several. A metric
    without a direction has no best so far: it is drawn as measured.
    """
    best = [(h.along("rounds"), abscissa(h, x), h.so_far(name) if h.direction(name) else h.column(name))
            for h in histories]  # fmt: skip
    faint = best if len(histories) > 1 else [(h.along("rounds"), abscissa(h, x), h.column(name)) for h in histories]
    for _, places, values in faint:
        axes.plot(places, values, alpha=0.3, linewidth=1, **style)
    axes.plot(*mean_curve(best), label=label, linewidth=1.8, **style)


def mean_curve(curves: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the places and the values of the mean of several curves of (rounds, places, values) at equal rounds.

    The mean is taken in the rounds in which every curve that goes on was evaluated. A curve that has ended keeps its
    last value and no longer moves the place.

    >>> every_round = np.array([0, 1, 2]), np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.5, 0.9])
    >>> mean_curve([every_round, (np.array([0, 2]), np.array([0.0, 2.0]), np.array([0.0, 0.7]))])
    (array([0., 2.]), array([0. , 0.8]))
    >>> mean_curve([every_round, (np.array([0, 1]), np.array([0.0, 1.0]), np.array([0.0, 0.7]))])
    (array([0., 1., 2.]), array([0. , 0.6, 0.8]))
    """
    known = [set(rounds.tolist()) for rounds, _, _ in curves]
    shared = [r for r in sorted(set().union(*known)) if all(r in rounds or r > max(rounds) for rounds in known)]
    values, steps = np.zeros((len(curves), len(shared))), np.full((len(curves), len(shared)), np.nan)
    for i, (rounds, places, measured) in enumerate(curves):
        rows = np.searchsorted(rounds, shared, side="right") - 1
        values[i] = measured[rows]
        running = np.asarray(shared) <= rounds[-1]
        steps[i, running] = np.diff(places[rows[running]], prepend=0.0)
    return np.cumsum(np.nanmean(steps, axis=0)), values.mean(axis=0)


def colours(many: int) -> list[Any]:
    """A colour each: the usual ones, or shades where there are more."""
    if many <= len(COLOURS):
        return [f"C{i}" for i in range(many)]
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0, 0.92, many)))


def others(history: History) -> set[str]:
    """The columns of a history that are neither of a part of the data nor what curves are drawn against."""
    known = {*AGAINST.values(), "bytes_up", "bytes_down"}
    return {name for name in history.columns if name not in known
            and ((measure := parse(name)) is None or measure.models == MEAN)}  # fmt: skip


def abscissa(history: History, x: str) -> np.ndarray:
    """Where a history's rows stand along an axis."""
    return history.along(x) / (1e6 if x == "bytes" else 1)
