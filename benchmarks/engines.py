"""Run every method on every engine, compare each run with the compiled engine's on one lane, and write
results/engines.json and the table in docs/engines.md.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import engine_tables
import typer
from hardware import cpu

import fedloom as fl
from fedloom.engines.devices import devices
from fedloom.errors import FedloomError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
LIBRARIES = ("jax", "jaxlib", "numpy", "ray", "mpi4py", "grpcio")


def outcome(engine: str, method: str) -> dict[str, Any]:
    """Return the differences of a method's run on an engine to the reference, or the sentence that refuses it."""
    from product.cases import ENGINES, NOT_COMPARED, case, reference
    from product.compare import difference

    wanted, start = reference(method), time.perf_counter()
    try:
        run = ENGINES[engine](case(method))
    except FedloomError as error:
        return {"refusal": str(error)}
    seconds = round(time.perf_counter() - start, 2)
    found = difference(run, wanted, NOT_COMPARED.get(engine, ()))
    return {"models": found.models, "history": found.history, "compared": found.compared, "seconds": seconds}


def main() -> None:
    """Run everything, record it, and draw the table."""
    fl.engines.compiled()  # shows every core to JAX
    if len(devices()) < 2:
        raise SystemExit("this needs two devices: two CPU cores, or two accelerators")
    from product import engines
    from product.cases import ENGINES, METHODS, ROUNDS, SEED, SIZES

    cells: dict[str, dict[str, Any]] = {}
    try:
        for engine in ENGINES:
            cells[engine] = {method: outcome(engine, method) for method in METHODS}
            print(engine, json.dumps(cells[engine]), flush=True)
    finally:
        engines.close()
    record = {
        "command": shlex.join(["python", "benchmarks/engines.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": cpu(),
        "seed": SEED,
        "versions": {"fedloom": fl.__version__, **{name: version(name) for name in LIBRARIES}},
        "rounds": ROUNDS,
        "clients": len(SIZES),
        "cells": cells,
    }
    engine_tables.RESULT.write_text(json.dumps(record, indent=1) + "\n")
    engine_tables.draw()
    print(f"wrote {engine_tables.RESULT.relative_to(ROOT)} and {engine_tables.PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    typer.run(main)
