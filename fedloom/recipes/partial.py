"""Partial: the trials of a cell that is not finished, so that whoever stops it loses little."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Point, Trial, as_json, from_json


class Partial:
    """Trials as they come in, one line of a file each, after a line that says of what.

    A line that was cut off, by a crash while it was written, is dropped. A trial that raced against others may have
    stopped because it lost; one that did not race ran until it was there or failed: they are told apart. How long it
    all took is kept too.

    Arguments:
        file: where they are kept; nowhere if ``None``.
        of: what they are trials of, and on which device: those of anything else are not mixed in.
    """

    def __init__(self, file: Path | None = None, of: Mapping[str, Any] | None = None) -> None:
        self.file, self.of = file, json.dumps(dict(of or {}), sort_keys=True)
        self.trials: dict[tuple[Point, bool], Trial] = {}
        self._seconds, self._since = 0.0, time.perf_counter()
        text = file.read_text() if file and file.is_file() else ""
        first, *lines = text.splitlines() or [self.of]
        if first != self.of:
            raise CheckpointError(f"{file} has trials of another experiment or device ({first}), not of {self.of}: "
                                  "delete it, and they are computed again")  # fmt: skip
        for line in lines:
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
        if self.file and trials:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            before = self.file.read_bytes() if self.file.is_file() else b""
            with self.file.open("a") as file:
                file.write("" if before else self.of + "\n")
                file.write("" if before[-1:] in (b"", b"\n") else "\n")  # after a line that was cut off
                file.writelines(json.dumps([raced, as_json(trial), took / len(trials)]) + "\n" for trial in trials)
