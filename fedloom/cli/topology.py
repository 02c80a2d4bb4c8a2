"""Topology: who is whose neighbour, drawn and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.table import Table

from fedloom.cli.shared import Debug, Json, Quiet, console, tell, told
from fedloom.errors import FedloomError, choose, require, whole
from fedloom.mixing.drawing import draw_graph
from fedloom.mixing.graph import GRAPHS, NUMBER, RANDOM, graph
from fedloom.mixing.matrix import WEIGHTS
from fedloom.mixing.spread import Spread, sparsest, spread

KNOWN = ", ".join(f"{name}:{'4' if NUMBER[name][1] is int else '0.8'}" if name in NUMBER else name for name in GRAPHS)
HEADS = ("degree", "ζ", "gap", "MB a\nround", "T of the\nbound", "mean\nkept")
WIDE = 1000  # characters that any table fits into
Measured = dict[str, Spread | str]


def topology_command(
    names: Annotated[Optional[list[str]], typer.Argument(help=f"{KNOWN}, or a CSV file of pairs")] = None,  # noqa: UP045
    workers: Annotated[int, typer.Option(help="K, how many workers")] = 16,
    neighbours: Annotated[str, typer.Option(help="how they are weighted: " + ", ".join(WEIGHTS))] = "metropolis",
    seed: Annotated[int, typer.Option(help="of random topologies (topology_seed of a run)")] = 0,
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
    the bound of DPA-SGD holds, K³ ((1 + ζ²)/(1 - ζ²)·τ - 1)². What cannot be measured is told of below the table.

    Examples:
      fedloom topology ring torus hypercube regular:4 --workers 64

      fedloom topology --workers 100 --target-gap 0.2
    """
    with told(debug):
        whole("workers", workers, 2)
        whole("period", period, 1)
        whole("parameters", parameters, 1)
        whole("seed", seed, 0)
        choose("neighbours", neighbours, WEIGHTS)
        require(bool(names) != (target_gap is not None), "topologies", "named, or looked for with --target-gap", names)
        if target_gap is not None:
            found: Measured = {"sparsest": sparsest(workers, target_gap, neighbours, seed)}
        else:
            found = measured(names or [], workers, neighbours, seed)
        good = [s for s in found.values() if isinstance(s, Spread)]
        draw_graph(good[0].graph, file=file)
        if json_:
            tell(quiet, True, [as_json(name, s, period, parameters) for name, s in found.items()])
        elif not quiet:
            console.print(shown(good, period, parameters), crop=False)
            for name, why in found.items():
                if isinstance(why, str):
                    console.print(f"{name}: {why}.", soft_wrap=True, highlight=False, markup=False)
            console.print(f"{good[0].graph.name}: {good[0].advice(period)}.")
            console.print(f"Figure: {file}")


def measured(names: list[str], workers: int, neighbours: str, seed: int) -> Measured:
    """Topology → what is known of it, or why nothing is; an error if nothing is known of any."""
    random = [name for name in names if name.split(":")[0] in RANDOM]
    require(seed == 0 or bool(random), "seed", "left alone where no topology is random", seed)
    found: Measured = {}
    for name in names:
        try:
            found[name] = spread(graph(name, workers, **({"seed": seed} if name in random else {})), neighbours)
        except FedloomError as error:
            found[name] = str(error)
    if all(isinstance(s, str) for s in found.values()):
        raise FedloomError("; ".join(f"{name}: {why}" for name, why in found.items()))
    return found


def as_json(name: str, s: Spread | str, period: int, parameters: int) -> dict[str, str | int | float | bool]:
    """What is known of a topology, or why nothing is, for scripts."""
    if isinstance(s, str):
        return {"topology": name, "refused": s}
    return {
        "topology": s.graph.name,
        "workers": len(s.graph),
        "weights": s.weights,
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
    """The same for the terminal; where that is narrow names are folded, and numbers stay whole."""
    title = f"{len(found[0].graph):,} workers, weights {found[0].weights}, τ = {period}"
    table = Table(title=title, title_justify="left")
    table.add_column("topology", overflow="fold")
    for head in HEADS:
        table.add_column(head, justify="right", no_wrap=True)
    for s in found:
        table.add_row(s.graph.name, *numbers(s, period, parameters))
    least = console.measure(table, options=console.options.update(width=WIDE)).minimum
    table.width = least if least > console.width else None
    return table


def numbers(s: Spread, period: int, parameters: int) -> tuple[str, ...]:
    """What is known of a topology, below HEADS."""
    low, high = int(s.graph.degrees.min()), int(s.graph.degrees.max())
    return (
        f"{low}" if low == high else f"{low}–{high}", f"{s.zeta:.4f}", f"{s.gap:.4f}",
        f"{4 * parameters * s.links / 1e6:,.1f}", f"{s.steps(period):.3g}", "yes" if s.keeps_mean else "no",
    )  # fmt: skip
