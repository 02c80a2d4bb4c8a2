"""Plot: what people would rather look at than read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fedloom.errors import ArgumentError, UnknownName, choose
from fedloom.runs.history import History
from fedloom.style import STYLE, save

AGAINST = {"rounds": "round", "bytes": "bytes", "seconds": "seconds", "steps": "steps", "clock": "clock"}
"""What a curve can be drawn against → the column it is."""
AXES = {"rounds": "rounds of communication", "bytes": "megabytes sent", "seconds": "seconds",
        "steps": "local steps", "clock": "seconds by the simulated clock"}  # fmt: skip
DASHES = {"test": "-", "validation": "-.", "train": "--"}


def plot(
    runs: Sequence[tuple[str, History]],
    *,
    metrics: Sequence[str] = ("accuracy", "loss"),
    against: Sequence[str] = ("rounds",),
    target: float | None = None,
    file: str | Path | None = None,
) -> Figure:
    """Draw metrics of one or several runs: a row a metric and a column an abscissa, or all in a row if there is one.

    Each curve is drawn twice: as measured, faint, and best so far, bold. With one run the parts of the data have a
    colour each; with several, the runs do and the parts differ by dashes.

    Arguments:
        runs: (label, history) pairs.
        metrics: such as ``accuracy`` and ``loss``; or whatever else a history has, such as ``update_norm`` and, without
            a server, ``consensus``, which is drawn as measured.
        against: any of rounds, bytes, seconds, steps, and clock where the runs had one.
        target: a line to draw across the accuracies.
        file: where to save the figure (png, pdf, svg); the name's ending says which.
    """
    with mpl.rc_context(STYLE):
        panels = list(itertools.product(metrics, against))
        rows, columns = (1, len(metrics)) if len(against) == 1 else (len(metrics), len(against))
        figure = Figure(figsize=(5.2 * columns, 3.8 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        faint = False
        for axes, (metric, x) in zip(grid.flat, panels, strict=True):
            faint |= _panel(axes, runs, metric, x)
            if target is not None and metric == "accuracy":
                axes.axhline(target, color="grey", linewidth=0.8, linestyle=":")
        if faint:
            told = "bold: best so far, faint: as measured" if len(runs) > 1 else "faint: as measured"
            grid[0, 0].plot([], [], color="grey", alpha=0.4, linewidth=1, label=told)
        grid[0, 0].legend(loc="lower right", fontsize="small")
        if file:
            save(figure, file)
    return figure


def _panel(axes: Any, runs: Sequence[tuple[str, History]], metric: str, x: str) -> bool:
    """Draw one; whether there are faint curves in it."""
    choose("against", x, AGAINST)
    drawn, faint = 0, False
    for i, (label, history) in enumerate(runs):
        for j, split in enumerate(split for split in DASHES if f"{split}_{metric}" in history.columns):
            name = f"{split}_{metric}"
            style = {"color": f"C{j}", "linestyle": "-"} if len(runs) == 1 else {"color": f"C{i % 6}"}
            style = {"linestyle": DASHES[split], **style}
            places = abscissa(history, x)
            axes.plot(places, history.column(name), alpha=0.3, linewidth=1, **style)
            shown = f"{split}, best so far" if len(runs) == 1 else f"{label}: {split}"
            axes.plot(places, history.so_far(name), label=shown, linewidth=1.8, **style)
            drawn, faint = drawn + 1, True
        if metric in others(history):
            axes.plot(abscissa(history, x), history.column(metric), label=label, linewidth=1.8, color=f"C{i % 6}")
            drawn += 1
    if not drawn:
        known = {c.split("_", 1)[1] for _, h in runs for c in h.columns if c.split("_")[0] in DASHES}
        raise UnknownName("metric", metric, known.union(*(others(h) for _, h in runs)))
    axes.set(xlabel=AXES[x], ylabel=metric.replace("_", " "))
    if metric == "accuracy":
        lowest = min(float(np.nanmedian(h.column(c))) for _, h in runs for c in h.columns if c.endswith("accuracy"))
        axes.set_ylim(max(0.0, lowest - 0.12), 1.005)
    if metric == "loss":
        axes.set_yscale("log")
    return faint


def others(history: History) -> set[str]:
    """The columns of a history that are neither of a part of the data nor what curves are drawn against."""
    known = {*AGAINST.values(), "bytes_up", "bytes_down"}
    return {name for name in history.columns if name not in known and name.split("_")[0] not in DASHES}


def abscissa(history: History, x: str) -> np.ndarray:
    """Where a history's rows stand along an axis."""
    if x == "clock" and x not in history.columns:
        raise ArgumentError("against", "something else: a run had no clock (run it with --compute)", x)
    if x == "bytes":
        return (history.column("bytes_up") + history.column("bytes_down")) / 1e6
    return history.column(AGAINST[x])
