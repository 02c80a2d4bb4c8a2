"""What all runs come to: seconds a round, ratios to fedloom, and what went wrong."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.table import Table
from systems import CPU_ONLY, MISSING, OURS, Outcome


def seconds(done: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Workload → system → seconds a round: the median over repetitions of each one's median."""
    found: dict[str, dict[str, list[float]]] = {}
    for outcome in done:
        if outcome.line is not None:
            times = found.setdefault(outcome.workload, {}).setdefault(outcome.system, [])
            times.append(float(outcome.line["seconds_a_round"]))
    return {w: {s: statistics.median(times) for s, times in systems.items()} for w, systems in found.items()}


def ratios(timings: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Workload → system → how many times as long as fedloom it takes."""
    return {w: {s: t / by[OURS] for s, t in by.items()} for w, by in timings.items() if OURS in by}


def problems(done: Sequence[Outcome]) -> dict[str, dict[str, str]]:
    """System → workload → what went wrong."""
    found: dict[str, dict[str, str]] = {}
    for outcome in done:
        if outcome.problem:
            found.setdefault(outcome.system, {})[outcome.workload] = outcome.problem
    return found


def table(done: Sequence[Outcome], systems: Sequence[str], workloads: Sequence[str], device: str) -> Table:
    """Seconds a round and, below, how many times as long as fedloom."""
    timings, wrong = seconds(done), problems(done)
    against = ratios(timings)
    shown = Table(title=f"Seconds a round (× fedloom) on {device}", title_justify="left")
    shown.add_column("system", no_wrap=True)
    for workload in workloads:
        shown.add_column(workload, justify="right")

    def cell(system: str, workload: str) -> str:
        problem = wrong.get(system, {}).get(workload)
        if problem:
            return f"[bold red]{problem if problem in (MISSING, CPU_ONLY) else 'FAILED'}[/bold red]"
        ratio = against.get(workload, {}).get(system)
        return f"{timings[workload][system]:.4f}" + (f"\n({ratio:.2f} ×)" if ratio is not None else "")

    for system in systems:
        shown.add_row(system, *(cell(system, workload) for workload in workloads))
    return shown
