"""Page: what a paper's parts show, as Markdown with figures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import fedloom.recipes.layout as layout
from fedloom.recipes.comparison import summary
from fedloom.recipes.details import details
from fedloom.recipes.paper import Paper, spent
from fedloom.recipes.part import Found, Part
from fedloom.runs.checkpoint import write_text
from fedloom.style import save


def page(paper: Paper, parts: Sequence[Part], found: Found, file: Path) -> list[Path]:
    """Write the page and its figures, which go into a folder beside it; returns the figures' files. Every part tells
    what was computed for it, and for none before it.
    """
    texts, figures, shown, rest = [paper.introduction(found), ""], [], set[str](), found
    folder, known = file.parent / "figures" / paper.name, {*found.outcomes, *found.unfinished}
    for part in parts:
        texts += [f"## {part.title}", ""]
        begun = len(texts)
        for grid in part.grids:
            if grid.title not in shown and any(entry.cell in known for entry in grid.entries):
                texts += [f"**{grid.title}.** {summary([grid], found.outcomes)}", ""]
                texts += [layout.markdown(grid, layout.filled(grid, found.outcomes, found.unfinished)), ""]
                shown.add(grid.title)
        if said := part.text(found):
            texts += [said, ""]
        for picture in part.pictures(found):
            figures.append(folder / f"{picture.name}.png")
            save(picture.figure, figures[-1])
            texts += [f"![{picture.caption}](figures/{paper.name}/{picture.name}.png)", "", picture.caption, ""]
        names = {cell.name for cell in part.cells} | {series.name for series in part.series(found)}
        own, rest = divided(rest, names)
        if not own.is_empty:
            texts += [f"Computed for this: {spent(own)}.", ""]
        if tried := details(part.cells, own.outcomes):
            texts += [tried, ""]
        if len(texts) == begun:
            texts += ["Not recorded yet.", ""]
    write_text(file, "\n".join(texts).rstrip() + "\n")
    return figures


def divided(found: Found, names: Collection[str]) -> tuple[Found, Found]:
    """What was found of some names, and of others."""
    mine, others = (
        Found(
            {name: outcome for name, outcome in found.outcomes.items() if (name in names) == own},
            {name: kept for name, kept in found.series.items() if (name in names) == own},
            {name: outcome for name, outcome in found.unfinished.items() if (name in names) == own},
        )
        for own in (True, False)
    )
    return mine, others
