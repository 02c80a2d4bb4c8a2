"""The systems that are timed, and one run of one of them: in its own process and environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hardware import cores

OURS = "fedloom"
MISSING, CPU_ONLY = "MISSING", "CPU ONLY"

Device = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class System:
    """One system that is timed.

    Arguments:
        script: the script that times it, and its arguments on a CPU.
        environment: which of the peers' environments it runs in; nothing: the one that runs this.
        gpu: the script's further arguments on a GPU; nothing: it is timed on CPUs only.
    """

    script: tuple[str, ...]
    environment: str | None = None
    gpu: tuple[str, ...] | None = None


SYSTEMS = {
    OURS: System(("fedloom_run.py",), gpu=()),
    "fedloom-ray": System(("fedloom_run.py", "--ray")),
    "loop": System(("loop.py",), "torch", gpu=("--device", "cuda")),
    "loop-parallel": System(("loop.py", "--processes", str(cores())), "torch"),
    "flower": System(("flower.py",), "flower"),
    "pfl": System(("pfl_loop.py",), "pfl"),
    "pfl-parallel": System(("pfl_loop.py", "--processes", str(cores())), "pfl"),
    "fedjax": System(("fedjax_loop.py",), "fedjax"),
}


@dataclass(frozen=True)
class Settings:
    """What every process is started with."""

    peers: Path
    device: Device
    rounds: int | None
    seed: int
    timeout: float


@dataclass(frozen=True)
class Outcome:
    """What one process gave: the line it printed, or what went wrong."""

    system: str
    workload: str
    repetition: int
    line: dict[str, Any] | None
    problem: str | None = None


def interpreter(name: str, settings: Settings) -> Path:
    """The Python that a system runs in."""
    environment = SYSTEMS[name].environment
    return Path(sys.executable) if environment is None else settings.peers / environment / "bin" / "python"


def command(name: str, workload: str, settings: Settings) -> list[str]:
    """The command that times a system on a workload."""
    system = SYSTEMS[name]
    script, *options = system.script
    more = [*options, *((system.gpu or ()) if settings.device == "gpu" else ())]
    rounds = [] if settings.rounds is None else ["--rounds", str(settings.rounds)]
    python = str(interpreter(name, settings).absolute())
    return [python, str(Path(__file__).parent / script), workload, *more, *rounds, "--seed", str(settings.seed)]


def obstacle(name: str, settings: Settings) -> str | None:
    """Why a system cannot be timed at all, if so."""
    if settings.device == "gpu" and SYSTEMS[name].gpu is None:
        return CPU_ONLY
    return None if interpreter(name, settings).exists() else MISSING


def execute(arguments: Sequence[str], settings: Settings) -> tuple[str, str]:
    """What a command printed, and what went wrong; the processes that it started end with it."""
    hidden = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"} if settings.device == "cpu" else {}
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | hidden,
        start_new_session=True,
    )
    try:
        printed, said = process.communicate(timeout=settings.timeout)
    except subprocess.TimeoutExpired:
        return "", f"took longer than {settings.timeout:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode == 0:
        return printed, ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line] or lines or ["it said nothing"]
    return printed, f"exit code {process.returncode}: {errors[-1]}"


def attempt(name: str, workload: str, repetition: int, settings: Settings) -> Outcome:
    """Time a system on a workload once."""
    problem = obstacle(name, settings)
    if problem:
        return Outcome(name, workload, repetition, None, problem)
    printed, problem = execute(command(name, workload, settings), settings)
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    if problem or not lines:
        return Outcome(name, workload, repetition, None, problem or "printed no timing")
    return Outcome(name, workload, repetition, json.loads(lines[-1]))
