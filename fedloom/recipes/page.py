"""Page: what a paper's parts show, as Markdown with figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import fedloom.recipes.layout as layout
from fedloom.recipes.part import Found, Part
from fedloom.runs.checkpoint import write_text
from fedloom.style import save


def page(paper: str, parts: Sequence[Part], found: Found, file: Path, quick: bool = False) -> list[Path]:
    """Write the page and its figures, which go into a folder beside it; returns the figures' files."""
    texts, figures, shown = [introduction(paper, found, quick), ""], [], set[str]()
    folder = file.parent / "figures" / paper
    for part in parts:
        texts += [f"## {part.title}", ""]
        begun = len(texts)
        for grid in part.grids:
            if grid.title not in shown and any(entry.cell in found.outcomes for entry in grid.entries):
                apart = layout.differences([grid], found.outcomes)
                texts += [f"**{grid.title}.** {layout.standing([grid], found.outcomes)}. {apart}".rstrip(), ""]
                texts += [layout.markdown(grid, layout.filled(grid, found.outcomes)), ""]
                shown.add(grid.title)
        if said := part.text(found):
            texts += [said, ""]
        for picture in part.pictures(found):
            figures.append(folder / f"{picture.name}.png")
            save(picture.figure, figures[-1])
            texts += [f"![{picture.caption}](figures/{paper}/{picture.name}.png)", "", picture.caption, ""]
        if len(texts) == begun:
            texts += ["Not recorded yet.", ""]
    write_text(file, "\n".join(texts).rstrip() + "\n")
    return figures


def introduction(paper: str, found: Found, quick: bool = False) -> str:
    """How the numbers came about."""
    abouts = [o.about for o in found.outcomes.values()] + [kept.about for kept in found.series.values()]
    seconds: dict[str, float] = {}
    for about in abouts:
        device = str(about.get("device"))
        seconds[device] = seconds.get(device, 0) + float(about.get("seconds", 0))
    took = " and ".join(f"{s / 60:.1f} minutes on {device}" for device, s in sorted(seconds.items()))
    runs = sum(len(outcome.trials) for outcome in found.outcomes.values()) + len(found.series)
    seeds = "one seed" if quick else "three seeds"
    return f"""# {paper}, reproduced

Rounds of communication until the best test accuracy so far crosses the target, interpolated between evaluations. The
learning rate of every cell is tuned on a grid with the ratio 10^(1/3), widened while the best is at its edge; the
number is the mean over {seeds} at the best rate; where it is above the paper's, a grid twice as fine about
the best rate was tried too. In brackets, how many times fewer than in the first row.
{len(found.outcomes)} cells and {len(found.series)} curves are recorded: {runs} runs in {took}.
Drawn by `fedloom reproduce {paper}{" --quick" * quick} --from-results --page docs/{paper}.md`; what is not recorded is
shown as –."""
