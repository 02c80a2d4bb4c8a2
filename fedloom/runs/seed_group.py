"""Seed groups: runs that differ in their seed alone, which are drawn as one curve and listed as one row."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from fedloom.runs.history import History

UNREADABLE = ("model", "optimiser", "data", "task")
"""Parts of an identity that tell runs apart, but that a label cannot show."""


class LabelledRun(Protocol):
    """A run as figures and tables need it."""

    @property
    def label(self) -> str:
        """The name of the run in tables and figures."""
        ...

    @property
    def history(self) -> History:
        """The measurements of the run."""
        ...


@dataclass(frozen=True)
class SeedGroup:
    """Runs that differ in their seed alone.

    Arguments:
        label: a name that no other group has.
        indices: the places of the runs in the sequence that was grouped.
        identity: the settings that all runs of the group share; empty if they are not known.
        folder: the folder of the first run, if it has one.
    """

    label: str
    indices: tuple[int, ...]
    identity: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""


def group_seeds(runs: Sequence[LabelledRun]) -> list[SeedGroup]:
    """Group runs that have the same settings and the same label but for the seed, in the order of their first runs.

    A run whose settings are not known, such as a bare history, is a group of its own; and so is a run that was given
    twice. Groups that would have the same label are told apart by the settings in which they differ, or else by their
    folder or a number.
    """
    groups: list[SeedGroup] = []
    joined: dict[tuple[str, str, int], int] = {}
    repeats: Counter[tuple[str, str, Any]] = Counter()
    for index, run in enumerate(runs):
        identity = dict(getattr(run, "identity", None) or {})
        seed = identity.pop("seed", None)
        label, settings = without_seed(run.label), json.dumps(identity, sort_keys=True, default=str)
        repeats[label, settings, seed] += 1
        key = (label, settings, repeats[label, settings, seed])
        if seed is not None and key in joined:
            first = groups[joined[key]]
            groups[joined[key]] = replace(first, indices=(*first.indices, index))
            continue
        joined[key] = len(groups)
        folder: Path | None = getattr(run, "directory", None)
        groups.append(SeedGroup(label, (index,), identity, str(folder) if folder else ""))
    return distinct(groups)


def without_seed(label: str) -> str:
    """Return a label of a sweep without its seed, as people read it; other labels stay as they are.

    >>> without_seed("algorithm=fedprox,lr=0.1,seed=3"), without_seed("seed=0"), without_seed("2nn, mnist/iid")
    ('fedprox, lr=0.1', 'all', '2nn, mnist/iid')
    """
    if not re.search(r"(^|,)seed=\d+$", label):
        return label
    return re.sub(r"(^|,)seed=\d+$", "", label).removeprefix("algorithm=").replace(",", ", ") or "all"


def distinct(groups: Sequence[SeedGroup]) -> list[SeedGroup]:
    """Return the groups with labels that are all different."""
    labels = [group.label for group in groups]
    for label in {label for label in labels if labels.count(label) > 1}:
        alike = [i for i, group in enumerate(groups) if group.label == label]
        for i, added in zip(alike, differences([groups[i] for i in alike]), strict=True):
            labels[i] = f"{label} ({added})" if added else label
    numbers: Counter[str] = Counter()
    for i, label in enumerate(list(labels)):
        if labels.count(label) > 1 or label in numbers:
            numbers[label] += 1
            labels[i] = f"{label} ({numbers[label]})"
    return [replace(group, label=label) for group, label in zip(groups, labels, strict=True)]


def differences(groups: Sequence[SeedGroup]) -> list[str]:
    """Return for each of some groups of one label the settings in which it differs from others, or else its folder.

    >>> one, other = ({"server": "adam", "server_lr": 0.01}, {"server": "average", "server_lr": 0.01})
    >>> differences([SeedGroup("a", (0,), one), SeedGroup("a", (1,), other)])
    ['server=adam', 'server=average']
    """
    names = dict.fromkeys(name for group in groups for name in group.identity if name not in UNREADABLE)
    differing = [n for n in names if len({repr(group.identity.get(n)) for group in groups}) > 1]
    told = [", ".join(f"{n}={g.identity[n]}" for n in differing if n in g.identity) for g in groups]
    folders = [group.folder for group in groups]
    if len(set(told)) < len(groups) and len(set(folders)) == len(groups):
        return folders
    return told
