"""Timing rounds of a program, and recording what was found."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
from hardware import cpu, slug

import fedloom as fl
from fedloom.engines import Program

RESULTS = Path(__file__).resolve().parent.parent / "results"


def device() -> str:
    """What is computed on, in words."""
    first = fl.engines.devices.devices()[0]
    return cpu() if first.platform == "cpu" else first.device_kind


def seconds(program: Program, rounds: int, repeat: int) -> tuple[Any, list[float]]:
    """The state in the end, and seconds a round: of the first time, which compiles, and of some more."""
    state, times = program.init(), []
    for i in range(1 + repeat):
        start = time.perf_counter()
        state, did = program.advance(state, i * rounds, rounds)
        jax.block_until_ready((state, did))
        times.append((time.perf_counter() - start) / rounds)
    return state, times


def keep(name: str, **found: Any) -> None:
    """Record what a benchmark found, with how it was found."""
    record = {
        "command": shlex.join(["python", f"benchmarks/{name}.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": 0,
        "device": device(),
        "versions": {"fedloom": fl.__version__, "jax": jax.__version__, "numpy": np.__version__},
        **found,
    }
    file = Path(os.environ.get("OUT") or RESULTS) / f"{name}-{slug(device())}.json"
    file.write_text(json.dumps(record, indent=1) + "\n")
    print(file)
