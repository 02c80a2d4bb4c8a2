"""Style: how every figure looks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.errors import ArgumentError, FedloomError

if TYPE_CHECKING:  # matplotlib takes long to import, so a function that draws imports it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#e08e2b", "#4a4a4a")
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",
    "svg.hashsalt": "fedloom",
}


def logarithmic(axes: Axes) -> None:
    """Make the upward axis of what is drawn by now logarithmic, with plain numbers if it is less than tenfold."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < 10 * low:
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def save(figure: Figure, file: str | Path) -> None:
    """Write a figure; the name's ending (png, pdf, svg, …) says as what."""
    import matplotlib as mpl

    path = Path(file)
    known = [f".{kind}" for kind in sorted(figure.canvas.get_supported_filetypes())]
    if path.suffix.lower() not in known:
        raise ArgumentError("the figure's name", "one that ends in " + ", ".join(known), str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(STYLE):  # colours such as C0 are looked up when they are drawn
            figure.savefig(path, dpi=150)
    except OSError as error:
        raise FedloomError(f"the figure {path} cannot be written ({error})") from error
