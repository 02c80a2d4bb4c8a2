"""Partial: the trials of a cell that is not finished, so that whoever stops it loses little."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Point, Trial, as_json, from_json


class Partial:
    """Trials as they come in, one line of a file each.

    A line that was cut off, by a crash while it was written, is dropped. A trial that raced against others may have
    stopped early; one that ran alone went to its end: they are told apart. How long it all took is kept too.

    Arguments:
        file: where they are kept; nowhere if ``None``.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.trials: dict[tuple[Point, bool], Trial] = {}
        self._seconds, self._since = 0.0, time.perf_counter()
        for line in file.read_text().splitlines() if file and file.is_file() else ():
            try:
                raced, trial, seconds = json.loads(line)
                self._put(from_json(trial), raced)
                self._seconds += seconds
            except json.JSONDecodeError:
                continue
            except (ValueError, KeyError, TypeError) as error:
                raise CheckpointError(f"{file} is damaged ({error}): delete it, and it is computed again") from error

    def _put(self, trial: Trial, raced: bool) -> None:
        self.trials[trial.point, raced] = trial

    @property
    def seconds(self) -> float:
        """How long the trials took, those that are kept and what ran since."""
        return self._seconds + time.perf_counter() - self._since

    def find(self, point: Point, raced: bool) -> Trial | None:
        """The trial of that learning rate, decay and seed, if there is one."""
        return self.trials.get((point, raced))

    def add(self, trials: Sequence[Trial], raced: bool) -> None:
        """Keep some more."""
        for trial in trials:
            self._put(trial, raced)
        now = time.perf_counter()
        took, self._since = now - self._since, now
        self._seconds += took
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            whole = not self.file.is_file() or self.file.read_bytes()[-1:] in (b"", b"\n")
            with self.file.open("a") as file:
                file.write("" if whole else "\n")  # after a line that was cut off
                file.writelines(json.dumps([raced, as_json(trial), took / len(trials)]) + "\n" for trial in trials)
