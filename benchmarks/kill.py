"""Kill a run with `kill -9` at random moments, resume it each time, and compare its end with the run left alone."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from hardware import cpu
from rich.console import Console

from fedloom.runs import checkpoint

RESULTS = Path(__file__).resolve().parent.parent / "results"
EXPERIMENT = ["--model", "2nn", "--rounds", "150", "--target", "none", "--server", "momentum", "--server-lr", "0.5"]
console = Console()


def fedloom(*arguments: str) -> subprocess.Popen[bytes]:
    """The command line, started."""
    return subprocess.Popen([sys.executable, "-m", "fedloom", *arguments, "--quiet"])


def round_of(folder: Path) -> int:
    """The round of the newest checkpoint; 0 before the first."""
    stored, _ = checkpoint.read(folder)
    return int(stored.about["rows"][-1]["round"]) if stored else 0


def killed(folder: Path, moments: list[float]) -> list[dict[str, Any]]:
    """Start or resume the run, kill it after so many seconds, and note how far it had come."""
    kills = []
    for moment in moments:
        process = fedloom("run", *EXPERIMENT, "--out", str(folder))
        time.sleep(moment)
        alive = process.poll() is None
        process.kill()
        process.wait()
        kills.append({"after_seconds": moment, "was_running": alive, "checkpoint_round": round_of(folder)})
        console.print(kills[-1])
    return kills


def main(
    kills: Annotated[int, typer.Option(min=1, help="how often")] = 10,
    seed: Annotated[int, typer.Option(help="of the moments")] = 0,
) -> None:
    """Kill a run at random moments, resume it, and compare every parameter with those of the run left alone."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as temporary:
        alone, broken = Path(temporary) / "alone", Path(temporary) / "broken"
        fedloom("run", *EXPERIMENT, "--out", str(alone)).wait()
        happened = killed(broken, [round(draw.uniform(0.5, 9.0), 3) for _ in range(kills)])
        fedloom("resume", str(broken)).wait()
        ends = [checkpoint.read(folder)[0] for folder in (alone, broken)]
    wanted, got = ((end.arrays, end.about["rows"]) for end in ends if end)
    identical = wanted[0].keys() == got[0].keys() and all(np.array_equal(wanted[0][k], got[0][k]) for k in wanted[0])
    timeless = [[{k: v for k, v in row.items() if k != "seconds"} for row in rows] for _, rows in (wanted, got)]
    result = {
        "command": shlex.join(["python", "benchmarks/kill.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "device": cpu(),
        "experiment": EXPERIMENT,
        "kills": happened,
        "arrays_compared": len(wanted[0]),
        "numbers_compared": int(sum(array.size for array in wanted[0].values())),
        "identical_parameters": identical,
        "identical_history": timeless[0] == timeless[1],
    }
    (RESULTS / "kill.json").write_text(json.dumps(result, indent=1) + "\n")
    console.print({k: v for k, v in result.items() if k not in ("kills", "experiment")})


if __name__ == "__main__":
    typer.run(main)
