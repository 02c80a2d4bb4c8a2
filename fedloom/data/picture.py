"""Picture: who has what, drawn: clients × labels, and how much each has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.description import Description, describe
from fedloom.data.federated import FederatedData
from fedloom.data.partition.partition import counted
from fedloom.style import COLOURS, STYLE, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 12  # clients up to which they are named
BUBBLES = 40  # clients up to which every client has a column of bubbles
CLASSES = 200  # beyond which a picture of classes shows nothing
BARS = 100  # clients that are drawn as bars when there are more


def picture(data: FederatedData | Description, file: str | Path | None = None) -> Figure:
    """Draw clients × labels, as bubbles for few clients and stacked bars for many, and the histogram of sizes.

    Arguments:
        data: the data, or its description.
        file: where to save the figure (png, pdf, svg); the name's ending says which.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    about = describe(data) if isinstance(data, FederatedData) else data
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.4, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[2, 1])
        if about.counts is None or about.counts.shape[1] > CLASSES:
            _ranks(left, about)
        elif about.clients <= BUBBLES:
            _bubbles(left, about, about.counts)
        else:
            _bars(left, about, about.counts)
        _histogram(right, about)
        figure.suptitle(f"{about.name}: {counted(about.clients, 'client', 'clients')}", fontsize="medium")
        if file:
            save(figure, file)
    return figure


def _bubbles(axes: Any, about: Description, counts: np.ndarray) -> None:
    """A circle for each client and class, its area the number of examples."""
    from matplotlib.ticker import MaxNLocator

    client, label = np.nonzero(counts)
    room = min(400 / about.clients, 230 / counts.shape[1]) ** 2
    area = room * counts[client, label] / counts.max()
    axes.scatter(client, label, s=area, color=COLOURS[0], alpha=0.75, linewidth=0)
    axes.set(xlabel="client", ylabel="label", xlim=(-0.7, about.clients - 0.3), ylim=(-0.7, counts.shape[1] - 0.3))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if about.client_names and about.clients <= NAMED:
        axes.set_xticks(range(about.clients), [short(name, 10) for name in about.client_names], fontsize="small")
    if about.clients == 1:
        axes.set_xticks([0])
    _name_classes(axes, about)
    axes.text(1, 1.01, f"largest circle: {counts.max():,} examples", transform=axes.transAxes, ha="right",
              fontsize="small", color="grey")  # fmt: skip


def short(name: str, most: int) -> str:
    """A name, its middle left out if it is long.

    >>> short("walking upstairs", 9)
    'walk…airs'
    """
    half = (most - 1) // 2
    return name if len(name) <= most else f"{name[:half]}…{name[-half:]}"


def _name_classes(axes: Any, about: Description) -> None:
    names = [short(name, 14) for name in about.class_names]
    step = -(-len(names) // 20)
    axes.set_yticks(range(0, len(names), step), names[::step], fontsize="small")


def _bars(axes: Any, about: Description, counts: np.ndarray) -> None:
    """A bar for each client, stacked by class; of many clients every so-manieth, by size."""
    from matplotlib import colormaps

    order = np.argsort(-about.sizes, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(BARS, len(order))).round().astype(int)]
    colours = colormaps["tab20" if counts.shape[1] > 10 else "tab10"]
    if counts.shape[1] > 20:
        colours = colormaps["turbo"].resampled(counts.shape[1])
    wide = about.sizes.max() > 30 * max(about.sizes.min(), 1)  # bars would show the largest client and nothing else
    heights = counts[shown] / (counts[shown].sum(axis=1, keepdims=True) if wide else 1)
    below = np.zeros(len(shown))
    for label in range(counts.shape[1]):
        axes.bar(range(len(shown)), heights[:, label], bottom=below, width=1.0, color=colours(label), linewidth=0,
                 label=about.class_names[label])  # fmt: skip
        below += heights[:, label]
    every = f", {len(shown)} of {about.clients:,} shown" if len(shown) < about.clients else ""
    axes.set(xlabel=f"clients by size{every}", ylabel="share of a client's examples" if wide else "training examples",
             xlim=(-0.5, len(shown) - 0.5), xticks=[])  # fmt: skip
    if counts.shape[1] <= 20:
        axes.legend(loc="upper right", fontsize="x-small", ncols=2 if counts.shape[1] > 6 else 1, handlelength=1)
        axes.set_ylim(top=below.max() * 1.35)


def _ranks(axes: Any, about: Description) -> None:
    """Sizes in descending order, where there are no classes to show."""
    sizes = np.sort(about.sizes)[::-1]
    axes.plot(np.arange(1, len(sizes) + 1), sizes, color=COLOURS[0])
    axes.set(xlabel="clients by size", ylabel="training examples", xscale="log", yscale="log")


def _histogram(axes: Any, about: Description) -> None:
    """How many clients have how much."""
    from matplotlib.ticker import MaxNLocator, NullFormatter

    low, high = int(about.sizes.min()), int(about.sizes.max())
    wide = high > 30 * max(low, 1)
    many = int(np.clip(2 * np.sqrt(about.clients), 5, 30))
    if wide:
        bins: Any = np.unique(np.geomspace(max(low, 1), high + 1, many + 1).round()) - 0.5
    else:
        step = -(-(high - low + 1) // many)  # as many whole numbers in each bin
        bins = np.arange(low, high + step + 1, step) - 0.5
    axes.hist(about.sizes, bins=bins, color=COLOURS[0], alpha=0.85)
    axes.set(xlabel="training examples of a client", ylabel="clients", xscale="log" if wide else "linear")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    if wide:
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    if high - low < 5:
        axes.set_xlim(low - 3, high + 3)
        axes.set_xticks(sorted({low, high}), [f"{size:,}" for size in sorted({low, high})])
