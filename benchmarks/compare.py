"""Time fedloom and its peers side by side, each in its own process and environment, and keep what came of it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from hardware import cores, cpu, gpu, slug
from rich.console import Console
from summary import problems, ratios, seconds, table
from systems import CPU_ONLY, MISSING, SYSTEMS, Device, Outcome, Settings, attempt, interpreter
from workloads import WORKLOADS

RESULTS = Path(__file__).resolve().parent.parent / "results"
QUICK = 2  # timed rounds of a quick look

console, progress = Console(), Console(stderr=True)


def outcomes(workload: str, systems: Sequence[str], repeat: int, settings: Settings) -> Iterator[Outcome]:
    """Every system in turn, and that several times, so that a machine that drifts drifts for all of them."""
    failed = set()
    for repetition in range(repeat):
        for name in systems:
            if name not in failed:
                outcome = attempt(name, workload, repetition, settings)
                if outcome.problem:
                    failed.add(name)
                yield outcome


def record(done: Sequence[Outcome], device: str, settings: Settings, repeat: int) -> dict[str, Any]:
    """All there is to keep."""
    timings = seconds(done)
    lines = [outcome.line | {"repetition": outcome.repetition} for outcome in done if outcome.line is not None]
    return {
        "command": shlex.join(["python", "benchmarks/compare.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": settings.seed,
        "repeat": repeat,
        "device": {"kind": settings.device, "name": device, "cpu": cpu(), "cores": cores()},
        "versions": {line["system"]: line["packages"] for line in lines},
        "workloads": {outcome.workload: asdict(WORKLOADS[outcome.workload]) for outcome in done},
        "seconds_a_round": timings,
        "times_as_long_as_fedloom": ratios(timings),
        "problems": problems(done),
        "timings": lines,
    }


def names(text: str, choices: Sequence[str], option: str) -> list[str]:
    """The names in a list with commas."""
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    unknown = ", ".join(name for name in chosen if name not in choices)
    if unknown or not chosen:
        raise typer.BadParameter(f"{unknown or 'nothing'}: choose from {', '.join(choices)}", param_hint=option)
    return chosen


def compare(systems: list[str], workloads: list[str], repeat: int, settings: Settings, device: str, file: Path) -> None:
    """Time, tell as it goes, and keep what there is after every workload."""
    file.parent.mkdir(parents=True, exist_ok=True)
    done: list[Outcome] = []
    for workload in workloads:
        for outcome in outcomes(workload, systems, repeat, settings):
            done.append(outcome)
            said = f"{outcome.line['seconds_a_round']:.4f} s a round" if outcome.line else outcome.problem
            progress.print(f"{workload}  {outcome.system}  {said}", highlight=False, markup=False, soft_wrap=True)
        file.write_text(json.dumps(record(done, device, settings, repeat), indent=1) + "\n")
    console.print(table(done, systems, workloads, device))
    warn(done, settings)
    console.print(f"Results: {file}", soft_wrap=True)


def warn(done: Sequence[Outcome], settings: Settings) -> None:
    """Say what could not be timed and what to do about it."""
    for system, by in problems(done).items():
        remedies = {
            MISSING: f"no {interpreter(system, settings)}; make it: benchmarks/peers.sh {settings.peers}",
            CPU_ONLY: "timed on CPUs only",
        }
        for problem in sorted(set(by.values())):
            where = ", ".join(workload for workload, p in by.items() if p == problem)
            text = f"{system} ({where}): {remedies.get(problem, problem)}"
            console.print(text, style="red", soft_wrap=True, highlight=False, markup=False)


def main(
    systems: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help=f"which, with commas [dim]\\[default: {', '.join(SYSTEMS)}][/dim]", show_default=False),
    ] = None,
    workloads: Annotated[str, typer.Option(help="which, with commas")] = ",".join(list(WORKLOADS)[:-1]),
    peers: Annotated[Path, typer.Option(help="the folder that benchmarks/peers.sh made")] = Path(".peers"),
    device: Annotated[Device, typer.Option(help="what to compute on; few systems are timed on a GPU")] = "cpu",
    repeat: Annotated[int, typer.Option(min=1, help="repetitions: A B C A B C …; the median counts")] = 3,
    rounds: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="timed rounds [dim]\\[default: the workload's][/dim]", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="two rounds, once: does everything work?")] = False,
    seed: Annotated[int, typer.Option(min=0, help="of data, models and cohorts")] = 0,
    timeout: Annotated[float, typer.Option(help="seconds after which a process is ended")] = 1800,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="[dim]\\[default: results/benchmark-<device>.json][/dim]", show_default=False),
    ] = None,
) -> None:
    """Time fedloom and its peers on the same workloads, each in its own process and environment.

    Make the peers' environments first: benchmarks/peers.sh. One that is missing is shown as missing.
    """
    fit = [name for name, system in SYSTEMS.items() if device == "cpu" or system.gpu is not None]
    name = cpu() if device == "cpu" else gpu()
    if name is None:
        raise typer.BadParameter("nvidia-smi finds no GPU", param_hint="--device")
    file = output or RESULTS / f"benchmark-{slug(name)}{'-quick' if quick else ''}.json"
    compare(
        names(systems, list(SYSTEMS), "--systems") if systems is not None else fit,
        names(workloads, list(WORKLOADS), "--workloads"),
        1 if quick else repeat,
        Settings(peers, device, rounds or (QUICK if quick else None), seed, timeout),
        name,
        file,
    )


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    app.command()(main)
    app()
