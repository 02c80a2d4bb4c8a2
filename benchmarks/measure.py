"""What the scripts of all systems share: their arguments, and the one line of JSON that each prints."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any

from workloads import WORKLOADS, Workload

WARMUP = 2  # rounds before the timed ones, in which workers start and programs compile


def arguments(about: str | None) -> argparse.ArgumentParser:
    """The arguments that every script takes; a script may add its own."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("workload", choices=WORKLOADS, help="what to time, see workloads.py")
    parser.add_argument("--rounds", type=int, help="timed rounds [default: the workload's]")
    parser.add_argument("--seed", type=int, default=0, help="of the data, the models and the cohorts [default: 0]")
    return parser


def chosen(options: argparse.Namespace) -> tuple[Workload, int]:
    """The workload that was asked for, and how many rounds to time."""
    workload = WORKLOADS[options.workload]
    return workload, options.rounds or workload.rounds


def spent(times: list[float], rounds: int) -> dict[str, Any]:
    """Seconds a round and how much they vary, from timings of so many rounds each."""
    median = statistics.median(times)
    return {
        "rounds": rounds * len(times),
        "rounds_a_timing": rounds,
        "median": median,
        "min": min(times),
        "max": max(times),
        "seconds_a_round": median,
        "times": times,
    }


def release(package: str) -> str:
    """A package's version, also where it runs from its source without being installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return str(import_module(package).__version__)


def tell(
    system: str,
    workload: Workload,
    stamps: Sequence[float],
    steps: Sequence[float],
    *,
    packages: Sequence[str],
    processes: int,
    device: str,
    warmup: int = WARMUP,
    rounds: int = 1,
    experiments: int = 1,
    **more: float,
) -> None:
    """Print the one line of JSON.

    Arguments:
        stamps: the clock before the first round, and after every so many ``rounds``.
        steps: how many steps of SGD each of those took.
        packages: the system's own package, then what it computes with.
        warmup: how many intervals between stamps are not timed.
        rounds: how many rounds lie between two stamps.
        experiments: how many of the workload's experiments were computed; the rest are taken to cost the same.
    """
    factor = workload.experiments / experiments
    times = [factor * (b - a) / rounds for a, b in pairwise(stamps)][warmup:]
    line = {
        "system": system,
        "version": release(packages[0]),
        "packages": {name: release(name) for name in packages},
        "workload": workload.name,
        "device": device,
        "threads_or_processes": processes,
        **spent(times, rounds),
        "experiments_computed": experiments,
        "experiments": workload.experiments,
        "steps_a_round": factor * statistics.mean(steps[warmup:]) / rounds,
        "warmup_seconds": stamps[warmup] - stamps[0],
    }
    print(json.dumps(line | more), flush=True)
