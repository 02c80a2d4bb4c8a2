"""Ten thousand seeded schedules of delays, losses, doubles, breaks, crashes and full disks: the real server and its
participants in one deterministic process, where time passes at once. After each, all that must hold is checked.
"""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import timing
import typer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def batch(first: int, last: int) -> dict[str, Any]:
    """Some seeds: how many crashes and void rounds they had, and which broke a promise."""
    import numpy as np
    from weather import World, expected, forecast, tiny

    logging.disable(logging.CRITICAL)
    found: dict[str, Any] = {"schedules": 0, "crashes": 0, "void": 0, "seconds": 0.0, "broken": []}
    for seed in range(first, last):
        weather, manner = forecast(seed)
        world = World(seed, weather, **manner)
        try:
            final = world.run()
            assert manner or np.array_equal(final, expected(tiny(1.0), [[0, 1, 2]] * 4, 3)), "another model"
            found["void"] += world.coordinator.journal.voided()
        except Exception as error:
            found["broken"].append({"seed": seed, "why": f"{type(error).__name__}: {error}"})
        found["schedules"] += 1
        found["crashes"] += world.crashed
        found["seconds"] += world.ended_at
    return found


def main(
    schedules: Annotated[int, typer.Option(help="how many")] = 10_000,
    processes: Annotated[int, typer.Option(help="side by side")] = 2,
    first: Annotated[int, typer.Option(help="the first seed")] = 0,
) -> None:
    """Run schedules, and record what came of them."""
    began, total = time.perf_counter(), dict[str, Any]()
    starts = list(range(first, first + schedules, 100))
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        each = [pool.submit(batch, start, min(start + 100, first + schedules)) for start in starts]
        for done in each:
            found = done.result()
            total = {name: value + total[name] if name in total else value for name, value in found.items()}
            passed = time.perf_counter() - began
            print(f"{total['schedules']:>6} schedules, {total['crashes']:,} crashes of servers, {total['void']:,} void "
                  f"rounds, {len(total['broken'])} broken; {passed:.0f} s", flush=True)  # fmt: skip
    for broken in total["broken"]:
        print(broken)
    simulated = total.pop("seconds")
    took = time.perf_counter() - began
    timing.keep("weather", processes=processes, first=first, took=took, simulated_seconds=simulated, **total)
    raise typer.Exit(bool(total["broken"]))


if __name__ == "__main__":
    typer.run(main)
