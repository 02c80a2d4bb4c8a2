"""Drawing: a topology as a picture, its workers coloured by what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from fedloom.errors import require
from fedloom.mixing.graph import Graph, networkx
from fedloom.style import STYLE, save

ROUND = ("ring", "complete", "exponential", "one-peer", "sparsity", "small world", "matrix")  # best seen as circles


def draw_graph(
    graph: Graph,
    values: Sequence[float] | np.ndarray | None = None,
    *,
    label: str = "",
    title: str | None = None,
    limits: tuple[float, float] | None = None,
    axes: Any = None,
    file: str | Path | None = None,
) -> Figure:
    """Draw who is whose neighbour.

    Arguments:
        graph: the topology.
        values: of each worker, by which it is coloured; its number of neighbours by default.
        label: what those values are.
        title: above it; the topology's name by default.
        limits: the values of the first and the last colour; the least and the largest by default.
        axes: where to draw it, in a figure that there is.
        file: where to save it (png, pdf, svg).
    """
    shown = np.asarray(graph.degrees if values is None else values, float)
    require(len(shown) == len(graph), "values", f"one for each of {len(graph)} workers", len(shown))
    places = layout(graph)
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(5.6, 5.0), layout="constrained") if axes is None else axes.figure
        axes = figure.subplots() if axes is None else axes
        first, second = np.nonzero(np.triu(graph.heard | graph.heard.T))
        lines = np.stack([places[first], places[second]], axis=1)
        faint = max(0.08, min(0.7, 60 / max(1, len(first))))
        axes.add_collection(LineCollection(list(lines), colors="grey", linewidths=0.8, alpha=faint, zorder=1))
        size = max(8.0, min(160.0, 4000 / len(graph)))
        real = shown[np.isfinite(shown)]
        low, high = limits or ((float(real.min()), float(real.max())) if len(real) else (0.0, 1.0))
        dots = axes.scatter(places[:, 0], places[:, 1], c=shown, cmap="viridis", vmin=low, vmax=high, s=size, zorder=2,
                            edgecolors="white", linewidths=0.5)  # fmt: skip
        if high > low:
            figure.colorbar(dots, ax=axes, shrink=0.7, label=label or "neighbours")
        axes.set_title(title or f"{graph.name}, {len(graph):,} workers")
        axes.set_aspect("equal")
        axes.axis("off")
        if file:
            save(figure, file)
    return figure


def layout(graph: Graph) -> np.ndarray:
    """Where each worker is drawn: on a circle, on a grid, or where springs would pull it."""
    k = len(graph)
    if graph.name.startswith(ROUND):
        angle = np.pi / 2 - 2 * np.pi * np.arange(k) / k
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if graph.name.startswith("torus"):
        columns = int(graph.name.split("×")[1])
        row, column = np.divmod(np.arange(k), columns)
        bulge = [np.sin(np.pi * a / a.max()) / 4 for a in (row, column)]  # so that what leads round is seen
        return np.stack([column + bulge[0], -row - bulge[1]], axis=1)
    if graph.name == "line":
        return np.stack([np.arange(k), np.zeros(k)], axis=1)
    library = networkx()
    found = library.spring_layout(library.from_numpy_array(graph.heard | graph.heard.T), seed=0)
    return np.array([found[i] for i in range(k)])
