"""Sweep: many experiments that differ in their algorithm's numbers and names, and in seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedloom.cli.experiments import (
    EXPERIMENT,
    FIGURE,
    Manner,
    build,
    folder_of,
    leave_if_interrupted,
    short,
)
from fedloom.cli.shared import DataFolder, Debug, File, Json, Out, Quiet, errors, found, tell, told, with_fields
from fedloom.errors import CheckpointError, require
from fedloom.runs import report
from fedloom.runs.checkpoint import write_text
from fedloom.runs.comparison import comparison
from fedloom.runs.experiment import Experiment
from fedloom.runs.lock import alone
from fedloom.runs.methods import CLOCK, MESSAGES
from fedloom.runs.plan import Plan
from fedloom.runs.plot import plot
from fedloom.runs.result import Run
from fedloom.runs.sweep import Point, check_points, run_points
from fedloom.trees import listed

SWEEP = "sweep.json"


@with_fields(many=True)
def sweep_command(
    file: File = None,
    out: Out = None,
    seeds: Annotated[str, typer.Option(help="how many seeds, or which: 0,7,9")] = "1",
    data_folder: DataFolder = None,
    quiet: Quiet = False,
    json_: Json = False,
    debug: Debug = False,
    **fields: Any,
) -> None:
    """Run every combination of the algorithm's options and of seeds, each with the numbers it gives alone.

    What can be one program is one; on an accelerator experiments run side by side in it. An option of which an
    algorithm has no use is left out for it, if another one uses it. The table and the figure have the mean over seeds.
    A folder that stands there goes on where it stopped.

    Examples:
      fedloom sweep --lr 0.05,0.1,0.2 --seeds 3

      fedloom sweep --algorithm fedavg,fedprox,scaffold --mu 0.1 --partition shards

      fedloom sweep --algorithm dpa-sgd --topology ring,torus,complete --clients 16 --compute 0.01 --latency 0.1
    """
    with told(debug):
        stands = {"evaluate": "test", **(Experiment.read(file).given if file else {})}
        given = {name: value for name, value in fields.items() if value is not None}
        plan = Plan.of(found({**stands, **given}), parse_seeds(seeds))
        first = next(iter(plan.experiments().values()))
        folder = folder_of(out, f"sweep-{first.model}-{short(first.data)}")
        if (folder / SWEEP).exists() and Plan.read(folder / SWEEP) != plan:
            raise CheckpointError(f"{folder} holds another sweep: choose another folder, or fedloom resume it")
        go_sweep(plan, folder, Manner(quiet, json_, data_folder))


def go_sweep(plan: Plan, folder: Path, manner: Manner) -> None:
    """Run a sweep in a folder, and tell what came of it."""
    experiments = plan.experiments()
    points = [Point(label, e.build_algorithm(), e.seed) for label, e in experiments.items()]
    first = next(iter(experiments.values()))
    require("test" in first.splits, "evaluate", "with test, by which a sweep compares", first.evaluate)
    central = {e.algorithm for e in experiments.values()} & {"central"}
    require(not central, "algorithm", "federated, to be swept (fedloom run --central)", "central")
    data = build(first, folder, manner, [point.algorithm for point in points])
    task, runs = first.build_task(data), list[Run]()
    with alone(folder, "sweep"), report.live(errors, first.stop(), manner.shows) as watch:
        for settings, mine in by_clock(points, experiments):
            check_points(mine, data, task, settings, folder)  # before anything is written
        write_text(folder / SWEEP, plan.as_json())
        for point in points:
            write_text(folder / point.folder / EXPERIMENT, experiments[point.label].to_toml())
        for settings, mine in by_clock(points, experiments):
            runs += run_points(mine, first.build_engine(), data, task, settings, folder, watch)
            if any(run.interrupted for run in runs):
                break
    against = ["rounds", *(["bytes"] if costs_differ(runs) else []), *(["clock"] if first.compute else [])]
    plot(runs, against=against, target=first.target, file=folder / FIGURE)
    table = comparison(runs, first.target)
    tell(manner.quiet, manner.json, [report.as_json(run) for run in runs], table, f"Figure: {folder / FIGURE}")
    leave_if_interrupted(runs, folder)


def by_clock(points: list[Point], experiments: dict[str, Experiment]) -> list[tuple[Any, list[Point]]]:
    """Return the settings of a sweep and the points that have them: a clock and limits have no effect on some."""
    found: dict[Any, list[Point]] = {}
    for point in points:
        e = experiments[point.label]
        found.setdefault(tuple(getattr(e, name) for name in (*CLOCK, *MESSAGES)), []).append(point)
    return [(experiments[mine[0].label].settings(), mine) for mine in found.values()]


def costs_differ(runs: list[Run]) -> bool:
    """Whether a round of some run sends more than one of another."""
    sent = lambda run: run.history.last("bytes_up") + run.history.last("bytes_down")  # noqa: E731
    return len({sent(run) / run.history.last("round") for run in runs if run.history.last("round")}) > 1


def parse_seeds(text: str) -> list[int]:
    """Which seeds, from how many or a list.

    >>> parse_seeds("3"), parse_seeds("0,7")
    ([0, 1, 2], [0, 7])
    """
    parts = listed(text)
    require(bool(parts) and all(p.isdigit() for p in parts), "seeds", "a number, or numbers with commas", text)
    require(text != "0", "seeds", "at least one", text)
    return [int(p) for p in parts] if "," in text else list(range(int(text)))
