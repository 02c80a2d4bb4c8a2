"""Conduct: how a recipe's runs are carried out: with a progress line, kept so that they can go on, and until when."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.engines import Compiled, compiled
from fedloom.runs.ongoing import Race, Watch
from fedloom.runs.result import Run
from fedloom.runs.runner import train
from fedloom.runs.settings import Settings
from fedloom.tasks import Task

SAVED = 60.0  # seconds after which runs under way are saved again

Begin = Callable[[Sequence[str]], Watch]


@dataclass(frozen=True)
class Conduct:
    """How runs are carried out.

    Arguments:
        begin: makes a progress line for some runs.
        folder: where those under way are kept, to go on if they are stopped; nowhere if ``None``.
        until: when they are stopped, by ``time.perf_counter``.
    """

    begin: Begin | None = None
    folder: Path | None = None
    until: float = float("inf")

    def place(self, label: str) -> Path | None:
        """Where a run is kept."""
        return self.folder / re.sub(r"[^\w.,=+-]+", "-", label) if self.folder else None

    def train(
        self,
        data: FederatedData,
        task: Task,
        algorithms: Sequence[Method],
        seeds: Sequence[int],
        settings: Settings,
        labels: Sequence[str],
        engine: Compiled | None = None,
        race: Race | None = None,
    ) -> list[Run]:
        """Run experiments side by side, from where they were stopped; a TimeoutError if it is too late to begin."""
        if time.perf_counter() >= self.until:
            raise TimeoutError
        settings = replace(settings, save_seconds=SAVED, until=self.until)
        folders, watch = [self.place(label) for label in labels], self.begin(labels) if self.begin else None
        return train(engine or compiled(), data, task, algorithms, seeds, settings, folders, labels, watch, race)

    def whole(self, runs: Sequence[Run]) -> Sequence[Run]:
        """The same, if none was stopped on its way: else a TimeoutError, or a KeyboardInterrupt if one was asked to."""
        if any(run.interrupted for run in runs):
            raise TimeoutError if time.perf_counter() >= self.until else KeyboardInterrupt
        return runs
