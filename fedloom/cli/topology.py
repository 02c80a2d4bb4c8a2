"""Topology: who is whose neighbour, drawn and measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.table import Table

from fedloom.cli.shared import Debug, Json, Quiet, console, told
from fedloom.errors import require, whole
from fedloom.mixing.drawing import draw_graph
from fedloom.mixing.graph import GRAPHS, NUMBER, graph
from fedloom.mixing.spread import Spread, sparsest, spread

KNOWN = ", ".join(f"{name}:{'4' if NUMBER[name][1] is int else '0.8'}" if name in NUMBER else name for name in GRAPHS)


def topology_command(
    names: Annotated[Optional[list[str]], typer.Argument(help=f"{KNOWN}, or a CSV file of pairs")] = None,  # noqa: UP045
    workers: Annotated[int, typer.Option(help="K, how many workers")] = 16,
    weights: Annotated[str, typer.Option(help="of neighbours: metropolis, uniform or optimised")] = "metropolis",
    period: Annotated[int, typer.Option(help="τ, steps between two exchanges")] = 5,
    parameters: Annotated[int, typer.Option(help="of the model that is exchanged; 199,210 is the 2NN")] = 199_210,
    target_gap: Annotated[Optional[float], typer.Option(help="find the sparsest with such a spectral gap")] = None,  # noqa: UP045
    file: Annotated[Path, typer.Option(help="where the first is drawn: png, pdf or svg")] = Path("topology.png"),
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Measure and draw topologies: how fast they spread what workers know, and what that costs.

    ζ is the share of workers' disagreement that an exchange leaves, the gap 1 - ζ. T is the number of steps after which
    the bound of DPA-SGD holds, K³ ((1 + ζ²)/(1 - ζ²)·τ - 1)².

    Examples:
      fedloom topology ring torus hypercube regular:4 --workers 64

      fedloom topology --workers 100 --target-gap 0.2
    """
    with told(debug):
        whole("workers", workers, 2)
        whole("period", period, 1)
        whole("parameters", parameters, 1)
        require(bool(names) != (target_gap is not None), "topologies", "named, or looked for with --target-gap", names)
        if target_gap is not None:
            found = [sparsest(workers, target_gap, weights)]
        else:
            found = [spread(graph(name, workers), weights) for name in names or []]
        draw_graph(found[0].graph, file=file)
        if json_:
            print(json.dumps([as_json(s, period, parameters) for s in found], ensure_ascii=False))
        elif not quiet:
            console.print(shown(found, period, parameters))
            console.print(f"{found[0].graph.name}: {found[0].advice(period)}.")
            console.print(f"Figure: {file}")


def as_json(s: Spread, period: int, parameters: int) -> dict[str, str | int | float | bool]:
    """What is known of a topology, for scripts."""
    return {
        "topology": s.graph.name,
        "workers": len(s.graph),
        "weights": s.by,
        "connections": s.links,
        "degree_min": int(s.graph.degrees.min()),
        "degree_max": int(s.graph.degrees.max()),
        "zeta": s.zeta,
        "gap": s.gap,
        "keeps_mean": s.keeps_mean,
        "bytes_a_round": 4 * parameters * s.links,
        "steps_for_the_bound": s.steps(period),
    }


def shown(found: list[Spread], period: int, parameters: int) -> Table:
    """The same for the terminal."""
    table = Table(title=f"{len(found[0].graph):,} workers, weights {found[0].by}, τ = {period}", title_justify="left")
    table.add_column("topology", no_wrap=True)
    for name in ("degree", "ζ", "gap", "MB a round", "T of the bound"):
        table.add_column(name, justify="right")
    table.add_column("mean kept")
    for s in found:
        low, high = int(s.graph.degrees.min()), int(s.graph.degrees.max())
        table.add_row(
            s.graph.name, f"{low}" if low == high else f"{low}–{high}", f"{s.zeta:.4f}", f"{s.gap:.4f}",
            f"{4 * parameters * s.links / 1e6:,.1f}", f"{s.steps(period):.3g}", "yes" if s.keeps_mean else "no",
        )  # fmt: skip
    return table
