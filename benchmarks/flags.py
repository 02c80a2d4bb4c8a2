"""Which of XLA's flags make steps of the LSTM faster on this accelerator: each in a process of its own, which alone
heeds them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Annotated

import jax
import numpy as np
import typer
from stepping import seconds

import fedloom as fl
from fedloom.tasks.mixed import mixed

COMMANDS = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN"
FLAGS = {
    "none": "",
    "no command buffers": "--xla_gpu_enable_command_buffer=",
    "loops as command buffers": f"--xla_gpu_enable_command_buffer={COMMANDS},WHILE,CONDITIONAL,DYNAMIC_SLICE_FUSION",
    "no Triton": "--xla_gpu_enable_triton_gemm=false",
    "cuBLASLt": "--xla_gpu_enable_triton_gemm=false --xla_gpu_enable_cublaslt=true",
    "every Triton tile": "--xla_gpu_exhaustive_tiling_search=true",
}
SIZES = [(122, 68), (122, 50), (51, 64), (36, 10)]
VOCABULARY, LENGTH = 86, 80


def timed(sizes: list[tuple[int, int]], steps: int) -> list[float]:
    """Milliseconds of a step for so many models and lines."""
    rng, task = np.random.default_rng(0), mixed(fl.tasks.char_lstm(VOCABULARY))
    found = []
    for models, lines in sizes:
        x = rng.integers(0, VOCABULARY, (models, lines, LENGTH))
        found.append(round(1e3 * seconds(task, {"x": x, "y": x}, steps), 3))
    return found


def main(
    only: Annotated[str | None, typer.Option(help="one of the sets of flags; all by default")] = None,
    steps: Annotated[int, typer.Option(help="steps of each size")] = 10,
    here: Annotated[bool, typer.Option("--here", help="time in this process, with the flags that it has")] = False,
) -> None:
    """Time them, and print milliseconds a step."""
    if here:
        if jax.default_backend() == "cpu":
            raise typer.BadParameter("an accelerator is needed: these are its flags")
        print(json.dumps(timed(SIZES, steps)))
        return
    if only not in (None, *FLAGS):
        raise typer.BadParameter(f"only must be one of {', '.join(FLAGS)}, but is {only!r}")
    print("models × lines:", ", ".join(f"{models} × {lines}" for models, lines in SIZES))
    for name, flags in FLAGS.items():
        if only in (None, name):
            environment = {**os.environ, "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()}
            command = [sys.executable, __file__, "--here", "--steps", str(steps)]
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            said = ran.stdout if ran.returncode == 0 else f"failed: {ran.stderr[-400:]}"
            print(f"{name}: {said.strip()}", flush=True)


if __name__ == "__main__":
    typer.run(main)
