"""Data of every kind, federated and in one place: each example's test accuracy beside that of the same model trained on
the union of all clients' data, for as many passes over it.

Runs `fedloom run examples/NAME.toml --central` and writes results/sources-NAME.json, and docs/figures/clients-NAME.png.
The tables and curves are then drawn by tables.py.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Optional

import jax
import numpy as np
import typer
from hardware import cpu, gpu

import fedloom as fl

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("mnist_writers", "wisdm", "hapt", "cats_dogs", "shakespeare", "cifar10")


def fedloom(*arguments: str) -> dict[str, Any]:
    """What a command of fedloom prints as JSON."""
    command = [sys.executable, "-m", "fedloom", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout)


def measure(name: str, out: Path, figures: Path) -> dict[str, Any]:
    """Run one example beside the union, and keep what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        result = fedloom("run", f"examples/{name}.toml", "--central", "--out", folder)
        seconds = time.perf_counter() - began
        about = fedloom("data", "describe", f"examples/{name}.toml", "--figure", f"{folder}/clients.png")
        figures.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(f"{folder}/clients.png", figures / f"clients-{name}.png")
        curves = {how: json.loads((Path(folder) / where / "history.json").read_text())["rows"]
                  for how, where in (("federated", "."), ("central", "central"))}  # fmt: skip
    record = {
        "command": f"fedloom run examples/{name}.toml --central",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": 0,
        "device": gpu() or cpu(),
        "versions": {"fedloom": fl.__version__, "jax": jax.__version__, "numpy": np.__version__},
        "experiment": (ROOT / "examples" / f"{name}.toml").read_text(),
        "seconds": seconds,
        "data": about,
        "federated": last(result),
        "central": last(result["central"]),
        "curves": {
            how: [{k: row[k] for k in ("round", "test_accuracy")} for row in rows] for how, rows in curves.items()
        },
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / f"sources-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def last(run: dict[str, Any]) -> dict[str, Any]:
    """What is compared: the last and the best test accuracy, and their cost."""
    return {name: run[name] for name in ("round", "steps", "seconds", "test_accuracy", "max_over_rounds_test_accuracy")}


def main(
    names: Annotated[Optional[list[str]], typer.Argument(help="examples; all of them by default")] = None,  # noqa: UP045
    out: Annotated[Path, typer.Option(help="folder for the results")] = ROOT / "results",
    figures: Annotated[Path, typer.Option(help="folder for the pictures of clients")] = ROOT / "docs" / "figures",
) -> None:
    """Run examples federated and centrally."""
    for name in names or NAMES:
        record = measure(name, out, figures)
        told = ", ".join(f"{how} {record[how]['test_accuracy']:.2%}" for how in ("federated", "central"))
        print(f"{name}: {told}, {record['seconds']:.0f} s in all", flush=True)


if __name__ == "__main__":
    typer.run(main)
