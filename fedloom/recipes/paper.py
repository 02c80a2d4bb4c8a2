"""Paper: its parts by name, and what is said of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedloom.errors import choose
from fedloom.recipes.cell import star
from fedloom.recipes.part import Found, Part


@dataclass(frozen=True)
class Paper:
    """A paper that is reproduced.

    Arguments:
        name: by which it is asked for.
        parts: the name of a table or figure → what makes it.
        introduction: what is said first, of what was found.
    """

    name: str
    parts: dict[str, Callable[[], Part]]
    introduction: Callable[[Found], str]

    def part(self, name: str) -> Part:
        """A part by its name."""
        return choose("part", name, self.parts)()

    def chosen(self, names: list[str]) -> list[Part]:
        """The parts of some names, in their order; ``all`` is every one."""
        meant = {"all": tuple(self.parts), **{name: (name,) for name in self.parts}}
        wanted = [part for name in names for part in choose("part", name, meant)]
        return [self.part(name) for name in dict.fromkeys(wanted)]


def effort(found: Found) -> str:
    """How many runs are recorded, how long they took on which device, and in what they were computed."""
    abouts = [one.about for kind in (found.outcomes, found.series) for one in kind.values()]
    rounded = sum(bool(star(about)) for about in abouts)
    told = f"; {rounded} of {len(abouts)} recordings were trained in bfloat16, the others in float32" if rounded else ""
    return f"{spent(found)}{told}"


def quick(found: Found) -> str:
    """How many seeds a quick recording has, two, and how many of those that are shown were quick."""
    many = sum(kept.runs == 2 for kept in found.series.values())
    return f"two with `--quick`; {many or 'none'} on this page"


def spent(found: Found) -> str:
    """How many runs are recorded, and how long they took on which device."""
    seconds: dict[str, float] = {}
    for about in abouts_of(found):
        device = str(about.get("device"))
        seconds[device] = seconds.get(device, 0) + float(about.get("seconds", 0))
    took = " and ".join(f"{s / 60:.1f} minutes on {device}" for device, s in sorted(seconds.items()))
    runs = sum(len(outcome.trials) for kind in (found.outcomes, found.unfinished) for outcome in kind.values())
    runs += sum(kept.runs for kept in found.series.values())
    return f"{runs} {'run' if runs == 1 else 'runs'} in {took}"


def abouts_of(found: Found) -> list[Mapping[str, Any]]:
    """How each was made."""
    return [one.about for kind in (found.outcomes, found.unfinished, found.series) for one in kind.values()]
