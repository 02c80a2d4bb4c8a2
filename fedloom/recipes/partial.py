"""Partial: what there is of a cell that is not finished, so that whoever stops it loses little."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

from fedloom.errors import CheckpointError
from fedloom.recipes.cell import Outcome, Point, Trial, as_json, from_json, recorded
from fedloom.runs.checkpoint import write_text

TRIALS, OF = "trials.jsonl", "of.json"


def place(folder: Path, name: str, precision: str, device: str) -> Path:
    """Where a cell or series is kept while it is under way: devices, and what they compute in, have a place each.

    >>> place(Path("results"), "cell", "float32", "NVIDIA H200").as_posix()
    'results/cell.partial/float32-nvidia-h200'
    """
    return folder / f"{name}.partial" / re.sub(r"[^a-z0-9]+", "-", f"{precision} {device}".lower())


def clear(folder: Path) -> None:
    """Remove such a place, and what it is in if nothing else is under way there."""
    rmtree(folder, ignore_errors=True)
    if folder.parent.suffix == ".partial" and not any(folder.parent.iterdir()):
        folder.parent.rmdir()


def unfinished(name: str, folder: Path) -> Outcome | None:
    """What there is of a cell that is under way: where it is furthest, if on several devices; ``None`` if nothing."""
    found = list[Outcome]()
    for file in sorted((folder / f"{name}.partial").glob(f"*/{TRIALS}")):
        lines = sorted(lines_of(file), key=lambda line: not line[0])  # who did not race ran to the end: that one counts
        trials = {trial.point: trial for _, trial, _ in lines}
        of: dict[str, Any] = recorded(file.parent / OF, dict) or {}
        about = {**of, "seconds": sum(seconds for *_, seconds in lines)}
        found += [Outcome(name, tuple(trials.values()), about)] if trials else []
    return max(found, key=lambda outcome: len(outcome.trials), default=None)


def lines_of(file: Path) -> Iterator[tuple[bool, Trial, float]]:
    """The lines of a file of trials: whether it raced, the trial, its seconds. One that was cut off is dropped."""
    try:
        for line in file.read_text().splitlines():
            try:
                raced, trial, seconds = json.loads(line)
            except json.JSONDecodeError:
                continue
            yield bool(raced), from_json(trial), float(seconds)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is damaged ({error}): delete it, and it is computed again") from error


def claim(folder: Path, of: Mapping[str, Any]) -> None:
    """Note in a folder what is under way there; a :class:`CheckpointError` if it is something else."""
    text, file = json.dumps(dict(of), sort_keys=True) + "\n", folder / OF
    if file.is_file() and file.read_text() != text:
        raise CheckpointError(f"{folder} is of another experiment or device ({file.read_text().strip()}), not of "
                              f"{text.strip()}: delete it, and it is computed again")  # fmt: skip
    write_text(file, text)


class Partial:
    """Trials as they come in, one line of a file each. Beside it are the folders of the runs under way.

    A line that was cut off, by a crash while it was written, is dropped. A trial that raced against others may have
    stopped because it lost; one that did not race ran until it was there or failed: they are told apart. How long it
    all took is kept too.

    Arguments:
        folder: where they are kept; nowhere if ``None``.
        of: what they are trials of, and on which device: those of anything else are not mixed in.
    """

    def __init__(self, folder: Path | None = None, of: Mapping[str, Any] | None = None) -> None:
        if folder:
            claim(folder, of or {})
        self.folder, self.seconds = folder, 0.0
        self.trials: dict[tuple[Point, bool], Trial] = {}
        self.file = file = folder / TRIALS if folder else None
        for raced, trial, seconds in lines_of(file) if file and file.is_file() else ():
            self._put(trial, raced, seconds)

    def _put(self, trial: Trial, raced: bool, seconds: float) -> None:
        self.trials[trial.point, raced] = trial
        self.seconds += seconds

    def find(self, point: Point, raced: bool) -> Trial | None:
        """The trial of that learning rate, decay and seed, if there is one."""
        return self.trials.get((point, raced))

    def add(self, trials: Sequence[Trial], raced: bool, seconds: float) -> None:
        """Keep some more, which took so long together."""
        for trial in trials:
            self._put(trial, raced, seconds / len(trials))
        if self.file and trials:
            before = self.file.read_bytes() if self.file.is_file() else b""
            with self.file.open("a") as file:
                file.write("" if before[-1:] in (b"", b"\n") else "\n")  # after a line that was cut off
                file.writelines(json.dumps([raced, as_json(t), seconds / len(trials)]) + "\n" for t in trials)

    def remove(self) -> None:
        """Forget it: the cell is finished."""
        if self.folder:
            clear(self.folder)
