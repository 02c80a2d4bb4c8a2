"""Style: how every figure looks."""

from __future__ import annotations

from typing import Any

from cycler import cycler

COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#e08e2b", "#4a4a4a")
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "axes.prop_cycle": cycler(color=COLOURS),
    "svg.hashsalt": "fedloom",
}
