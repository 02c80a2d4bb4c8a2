"""Settings: how experiments are run."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.engines.clock import Clock
from fedloom.runs.stopping import Stop


@dataclass(frozen=True)
class Settings:
    """How experiments are run: when they stop, what is evaluated, how often, how often they are saved; whether each
    client of an evaluated round is measured before and after its work; by which clock, if any; and when they are
    interrupted, by ``time.perf_counter``.
    """

    stop: Stop
    splits: tuple[str, ...]
    every: int = 1
    save_seconds: float = 5.0
    users: bool = False
    clock: Clock | None = None
    until: float = float("inf")
