"""Settings: how experiments are run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedloom.engines.clock import Clock
from fedloom.measures import parse
from fedloom.runs.stopping import Stop


@dataclass(frozen=True)
class Settings:
    """How experiments are run.

    Args:
        stop: when they stop.
        splits: the parts of the data on which models are to be evaluated.
        every: rounds between evaluations.
        save_seconds: seconds between checkpoints.
        users: whether each client of an evaluated round is measured before and after its work.
        clock: the simulated clock, if there is one.
        until: the time of ``time.perf_counter`` at which runs are interrupted.
    """

    stop: Stop
    splits: tuple[str, ...]
    every: int = 1
    save_seconds: float = 5.0
    users: bool = False
    clock: Clock | None = None
    until: float = float("inf")

    @property
    def evaluated(self) -> tuple[str, ...]:
        """The parts of the data on which models are evaluated: those asked for, and the part that is monitored."""
        monitored = parse(self.monitored)
        return tuple(dict.fromkeys([*self.splits, *([monitored.part] if monitored else [])]))

    @property
    def monitored(self) -> str:
        """The column of the history that is monitored; empty if none is."""
        return (self.stop.monitor or "") if self.stop.watches else ""

    def recorded(self) -> dict[str, Any]:
        """Return the settings that decide what a history holds: a run in a folder goes on with the same ones."""
        return {"every": self.every, "evaluate": list(self.splits), "users": self.users}
