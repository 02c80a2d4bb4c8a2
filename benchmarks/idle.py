"""How much of what an accelerator computes is useful, where clients are very unequal: Shakespeare's roles, in the
settings of Table 2 of McMahan et al. (2017).

Clients side by side are laid out as on an accelerator; what is idle depends on who has how much, not on the model, so
a tiny one is trained here. Writes results/idle.json.
"""

from __future__ import annotations

import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from hardware import cpu
from measure import release

import fedloom as fl
from fedloom.engines.plan import useful_lanes
from fedloom.local.batches import ACCELERATOR_PIECE

RECORD = Path(__file__).resolve().parent.parent / "results" / "idle.json"
SETTINGS = [(1, None), (1, 50), (5, None), (1, 10), (5, 50), (5, 10)]


def measured(data: fl.data.FederatedData, epochs: int, batch_size: int | None, rounds: int) -> dict[str, Any]:
    """What some rounds compute, and how much of it is useful."""
    how = fl.fedavg(fraction=0.1, epochs=epochs, batch_size=batch_size, lr=0.1, microbatch=ACCELERATOR_PIECE)
    sizes = np.asarray(data.clients["train"].size)
    steps = np.asarray(how.local.batches.steps(sizes, how.local.batches.rows(sizes)))
    lanes = useful_lanes(steps, how.cohort(len(sizes)))
    task = fl.tasks.char_lstm(data.classes, embedding=1, hidden=1)
    program = fl.engines.compiled(devices=1, lanes=lanes).program(data, task, [how], [0])
    _, did = program.advance(program.init(), 0, rounds)
    cohorts = program.cohorts(0, rounds)
    computed = float(did.computed.sum())
    return {
        "epochs": epochs,
        "batch_size": batch_size,
        "lanes": 1 if program.plan.union else lanes,
        "rows": program.plan.union or program.plan.rows,
        "steps": float(program.steps(cohorts).sum()) / computed,
        "examples": float(epochs * sizes[cohorts].sum()) / (computed * program.plan.rows),
    }


def main(rounds: Annotated[int, typer.Option(help="rounds of each setting")] = 10) -> None:
    """Count, and record."""
    fl.engines.compiled()  # before anything else asks JAX for devices
    data = fl.data.shakespeare().partition(fl.partition.natural())
    rows = []
    for setting in SETTINGS:
        rows.append(measured(data, *setting, rounds))
        print(rows[-1], flush=True)
    sizes = np.asarray(data.clients["train"].size)
    record = {
        "command": shlex.join(["python", "benchmarks/idle.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": 0,
        "device": cpu(),
        "versions": {name: release(name) for name in ("fedloom", "jax", "numpy")},
        "rounds": rounds,
        "clients": len(sizes),
        "sizes": {"median": float(np.median(sizes)), "mean": float(sizes.mean()), "largest": int(sizes.max())},
        "rows": rows,
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(RECORD)


if __name__ == "__main__":
    typer.run(main)
