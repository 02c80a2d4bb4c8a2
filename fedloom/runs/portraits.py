"""Portraits: how users fared, as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedloom.errors import FedloomError, UnknownName
from fedloom.mixing.drawing import draw_graph
from fedloom.mixing.graph import Graph
from fedloom.runs.history import History
from fedloom.runs.users import MOMENTS, QUANTILES, Users, measured_among, moment_of
from fedloom.style import STYLE, save

FRAMES = 60  # of an animation, at most
OWN, EVERYBODYS = ("before_accuracy", "after_accuracy"), ("global_before_accuracy", "global_accuracy")
"""Accuracies before and after fitting: on clients' own test data; and where all test data belongs to no client."""
ON = {"after_accuracy": "on its own test data", "global_accuracy": "on everybody's test data"}
"""The accuracy by which workers are coloured → the examples that it was measured on, in a title."""


def bands(runs: Sequence[tuple[str, Users]], metric: str = "accuracy", file: str | Path | None = None) -> Figure:
    """Draw how the clients of each round fare: against rounds, the mean and the band between the quantiles, before and
    after fitting; and the distribution over the clients of the last round. A row a run.

    Arguments:
        runs: (label, users) pairs.
        metric: ``accuracy`` or ``loss``.
        file: where to save the figure (png, pdf, svg).
    """
    for label, users in runs:
        if not len(users):
            raise FedloomError(f"{label} measured no users: run it with users")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 3.4 * len(runs)), layout="constrained")
        grid = figure.subplots(len(runs), 2, squeeze=False, sharey="row", width_ratios=(2, 1))
        for (left, right), (label, users) in zip(grid, runs, strict=True):
            shown = {m: f"{m}_{metric}" for m in MOMENTS if f"{m}_{metric}" in users.columns}
            if not shown:
                raise UnknownName(
                    "metric", metric, {name.removeprefix(f"{moment_of(name)}_") for name in users.measures}
                )
            for i, (moment, name) in enumerate(shown.items()):
                _band(left, users, name, MOMENTS[moment], f"C{i}")
            left.set(
                xlabel="rounds of communication",
                ylabel=metric,
                title=f"{label}: mean, and 10–90 % of each round's clients",
            )
            left.xaxis.set_major_locator(MaxNLocator(integer=True))
            left.legend(loc="best", fontsize="small")
            _violins(
                right,
                [users.last(name) for name in shown.values()],
                [moment.replace("_", " ") for moment in shown],
                metric,
            )
            right.set_title(f"{measured_among(users)}, in round {int(users.columns['round'][-1]):,}")
        if file:
            save(figure, file)
    return figure


def _band(axes: Any, users: Users, name: str, label: str, colour: str) -> None:
    seen = [(int(r), v[np.isfinite(v)]) for r, v in zip(users.columns["round"], users.column(name), strict=True)]
    rounds, values = zip(*[(r, v) for r, v in seen if len(v)] or [(0, np.array([np.nan]))], strict=True)
    low, high = (np.array([np.quantile(v, q) for v in values]) for q in (QUANTILES[0], QUANTILES[-1]))
    axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(rounds, [v.mean() for v in values], color=colour, label=label)


def _violins(axes: Any, values: Sequence[np.ndarray], labels: Sequence[str], metric: str) -> None:
    real = [v[~np.isnan(v)] for v in values]
    places = np.arange(1, len(real) + 1)
    for i, (place, v) in enumerate(zip(places, real, strict=True)):
        if len(v) > 1 and np.ptp(v) > 0:
            drawn = axes.violinplot(v, positions=[place], widths=0.8, showextrema=False)
            drawn["bodies"][0].set(facecolor=f"C{i % 6}", alpha=0.3)
        axes.boxplot(v, positions=[place], widths=0.18, showfliers=len(v) < 300, flierprops={"markersize": 2})
    axes.set_xticks(places, labels)
    axes.set_ylabel(metric)


def violins(
    runs: Sequence[tuple[str, Users]],
    measures: Sequence[str] | None = None,
    file: str | Path | None = None,
) -> Figure:
    """Draw the distribution of measures over users in the last round, several runs side by side; a row a measure.

    Arguments:
        runs: (label, users) pairs.
        measures: such as ``after_accuracy``; by default the accuracies before and after fitting, on clients' own test
            data, or on everybody's if no run has them on clients' own.
        file: where to save the figure.
    """
    measures = measures or (OWN if any(OWN[1] in users.columns for _, users in runs) else EVERYBODYS)
    with mpl.rc_context(STYLE):
        size = max(4.0, 1.1 * len(runs)), 0.8 + 2.6 * len(measures)
        figure = Figure(figsize=size, layout="constrained")
        rows = figure.subplots(len(measures), 1, squeeze=False, sharex=True)[:, 0]
        for axes, measure in zip(rows, measures, strict=True):
            moment = moment_of(measure)
            metric = measure.removeprefix(f"{moment}_")
            _violins(axes, [users.last(measure) for _, users in runs], [label for label, _ in runs], metric)
            axes.set_title(MOMENTS.get(moment, measure), fontsize="medium")
        rows[-1].tick_params(axis="x", rotation=30)
        if file:
            save(figure, file)
    return figure


def mixing(users: Users, file: str | Path | None = None, panels: int = 4) -> Figure:
    """Draw the mixing matrix over rounds: row i is what user i's next model is made of.

    Arguments:
        users: of a run in which every user has its own model.
        file: where to save the figure.
        panels: how many rounds are shown, from the first to the last.
    """
    if "mixing" not in users.columns:
        raise FedloomError("no mixing matrix was recorded: users have no models of their own, or are too many")
    return _matrices(users, "mixing", ("model of user", "in user's next model", "share"), file, panels)


def related(users: Users, file: str | Path | None = None, panels: int = 4) -> Figure:
    """Draw Ω over rounds, who was found to be like whom, each number over the roots of its row's and its column's on
    the diagonal. The arguments are those of :func:`mixing`.
    """
    if "related" not in users.columns:
        raise FedloomError("no relations were recorded: it was no multi-task learning, or users are too many")
    return _matrices(users, "related", ("user", "user", "how alike"), file, panels)


def _matrices(users: Users, name: str, labels: tuple[str, str, str], file: str | Path | None, panels: int) -> Figure:
    matrices, rounds = users.column(name), users.column("round")
    chosen = np.unique(np.linspace(0, len(matrices) - 1, panels).round().astype(int))
    low, high = _limits(np.concatenate([matrices[i].ravel() for i in chosen]))
    colours = "RdBu_r" if low < 0 else "magma_r"
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(3.2 * len(chosen) + 0.8, 3.4), layout="constrained")
        row = figure.subplots(1, len(chosen), squeeze=False)[0]
        for axes, i in zip(row, chosen, strict=True):
            image = axes.imshow(matrices[i], cmap=colours, vmin=low, vmax=high)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(MaxNLocator(integer=True))
            axes.set(title=f"round {int(rounds[i]):,}", xlabel=labels[0])
        row[0].set_ylabel(labels[1])
        figure.colorbar(image, ax=list(row), shrink=0.8, label=labels[2])
        if file:
            save(figure, file)
    return figure


def _limits(values: np.ndarray) -> tuple[float, float]:
    """Between which numbers colours lie: about zero if some are below it; else from the least to the most, but so far
    apart that what is all but the same looks so.

    >>> _limits(np.array([0.0, 1.0])), _limits(np.array([-2.0, 1.0])), _limits(np.array([1.0, 1.0]))
    ((0.0, 1.0), (-2.0, 2.0), (0.95, 1.05))
    """
    low, high = float(values.min()), float(values.max())
    if low < 0:
        high = max(-low, high)
        return -high, high
    middle = (low + high) / 2
    half = max((high - low) / 2, middle / 20)
    return middle - half, middle + half


def workers(
    label: str, users: Users, history: History, graph: Graph | None = None, file: str | Path | None = None
) -> Figure:
    """Draw a run without a server: who hears whom, coloured by accuracy; every worker's accuracy against rounds; and
    how far models are from their mean. Accuracies are those on workers' own test data, if they have some; else those
    on everybody's.

    Arguments:
        label: what the run is called.
        users, history: what was measured.
        graph: who hears whom; those who mixed in the rounds that were evaluated by default.
        file: where to save the figure.
    """
    graph = graph or heard(users)
    accuracy = _accuracy(users)
    values, rounds = users.by_client(accuracy, len(graph)), [int(r) for r in users.columns["round"]]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(13.2, 4.0), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        latest = _latest(values)
        draw_graph(graph, latest, label=f"accuracy {ON[accuracy]}", title=label, axes=left)
        order = np.argsort(latest)
        shades = mpl.colormaps["viridis"](np.linspace(0, 1, len(order)))
        for shade, worker in zip(shades, order, strict=True):
            middle.plot(rounds, values[:, worker], color=shade, linewidth=0.9, alpha=0.8)
        middle.plot(rounds, _means(values), color="black", linewidth=2, label="mean")
        middle.set(xlabel="rounds of communication", ylabel="accuracy", title=f"every worker, {ON[accuracy]}")
        middle.legend(fontsize="small")
        right.plot(history.column("round")[1:], history.column("consensus")[1:], color="C3")  # all begin as one
        right.set(xlabel="rounds of communication", ylabel="distance from their mean", title="models apart")
        for axes in (middle, right):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if file:
            save(figure, file)
    return figure


def animation(label: str, users: Users, file: str | Path, graph: Graph | None = None) -> None:
    """Write a GIF of who hears whom, coloured by accuracy, round after round; the accuracy is that of :func:`workers`.

    Arguments:
        label: what the run is called.
        users: what was measured.
        file: where the GIF goes.
        graph: who hears whom; those who mixed in the rounds that were evaluated by default.
    """
    graph = graph or heard(users)
    accuracy = _accuracy(users)
    values, rounds = users.by_client(accuracy, len(graph)), [int(r) for r in users.columns["round"]]
    shown = np.unique(np.linspace(0, len(rounds) - 1, min(FRAMES, len(rounds))).round().astype(int))
    means, real = _means(values), values[np.isfinite(values)]
    limits = (float(real.min()), float(real.max())) if len(real) else (0.0, 1.0)
    with mpl.rc_context(STYLE):
        figure = draw_graph(graph, values[0], label=f"accuracy {ON[accuracy]}", title=label, limits=limits)
        axes = figure.axes[0]
        dots = axes.collections[-1]

        def frame(i: int) -> list[Any]:
            dots.set_array(values[i])
            axes.set_title(f"{label}, round {rounds[i]:,}: {means[i]:.1%}")
            return [dots]

        Path(file).parent.mkdir(parents=True, exist_ok=True)
        FuncAnimation(figure, frame, frames=list(shown)).save(file, writer=PillowWriter(fps=5), dpi=80)


def _accuracy(users: Users) -> str:
    """Return the accuracy by which workers are coloured: on their own test data, if they have some."""
    return next((name for name in ON if name in users.columns), next(iter(ON)))


def _latest(values: np.ndarray) -> np.ndarray:
    """Of each worker, the last value that there is."""
    last = np.where(np.isfinite(values), np.arange(len(values))[:, None], 0).max(axis=0)
    return values[last, np.arange(values.shape[1])]


def _means(values: np.ndarray) -> np.ndarray:
    """Of each round, the mean over those who were there."""
    return np.array([row[np.isfinite(row)].mean() if np.isfinite(row).any() else np.nan for row in values])


def heard(users: Users) -> Graph:
    """Who heard whom in the rounds that were evaluated, by how they mixed."""
    there = np.any([matrix > 0 for matrix in users.column("mixing")], axis=0)
    np.fill_diagonal(there, False)
    return Graph("ring" if (there.sum(1) == 2).all() else "workers", there)
