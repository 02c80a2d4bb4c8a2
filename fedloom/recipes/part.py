"""Part: a table or figure of a paper: what is run for it, and what it then shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from fedloom.recipes.cell import Cell, Outcome
from fedloom.recipes.layout import Grid
from fedloom.recipes.series import Kept, Series


@dataclass(frozen=True)
class Found:
    """What is recorded: outcomes of cells and kept series, by name; and of cells under way, what there is of them."""

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    series: Mapping[str, Kept] = field(default_factory=dict)
    unfinished: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is."""
        return not (self.outcomes or self.series or self.unfinished)


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file, and what it shows."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Part:
    """A table or figure of a paper.

    Arguments:
        name: by which it is asked for.
        title: of its section.
        cells: what is tuned for it.
        grids: its tables.
        series: what else is run for it, knowing what was found.
        pictures: its figures, as far as what they show is recorded.
        text: what is said of it.
    """

    name: str
    title: str
    cells: tuple[Cell, ...] = ()
    grids: tuple[Grid, ...] = ()
    series: Callable[[Found], Iterable[Series]] = lambda found: ()  # noqa: ARG005
    pictures: Callable[[Found], Iterable[Picture]] = lambda found: ()  # noqa: ARG005
    text: Callable[[Found], str] = lambda found: ""  # noqa: ARG005
