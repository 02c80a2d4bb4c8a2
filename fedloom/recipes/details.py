"""Details: the rates that were tried for each cell, and what every seed came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fedloom.recipes.cell import Cell, Outcome, Trial, star

HEADS = ("cell", "target", "learning rates tried (in round r)", "rounds by seed, interpolated",
         "first evaluation there", "runs", "minutes", "device")  # fmt: skip
NOT_THERE = "not reached"


def details(cells: Sequence[Cell], outcomes: Mapping[str, Outcome]) -> str:
    """A table of the cells that are recorded, which a page folds away; nothing if none is."""
    lines = [line for cell in cells if cell.name in outcomes for line in rows(cell, outcomes[cell.name])]
    if not lines:
        return ""
    table = [HEADS, ("---",) * len(HEADS), *lines]
    text = "\n".join("| " + " | ".join(line) + " |" for line in table)
    about = "Every cell: the rates that were tried, the best in bold, and the rounds of each seed with it"
    return f"<details><summary>{about}</summary>\n\n{text}\n\n</details>"


def rows(cell: Cell, outcome: Outcome) -> Iterator[tuple[str, ...]]:
    """A line for each target; what they have in common is in the first."""
    about = outcome.about
    whole_cell = f"{len(outcome.trials)}", f"{float(about.get('seconds', 0)) / 60:.1f}", str(about.get("device", ""))
    for target in cell.targets:
        best = outcome.winner(target)
        rates = [f"**{shown(setting)}**" if setting == best else shown(setting) for setting in outcome.settings]
        chosen = outcome.chosen(target)
        yield (
            f"`{cell.name}`{star(about)}",
            f"{target:.0%}",
            "; ".join(rates),
            ", ".join(interpolated(trial, target) for trial in chosen),
            ", ".join(whole(trial, target) for trial in chosen),
            *(whole_cell if target == cell.targets[0] else ("", "", "")),
        )


def shown(setting: tuple[float, float]) -> str:
    """A learning rate, and its decay if it has one.

    >>> shown((0.1, 1.0)), shown((0.215, 0.999))
    ('0.1', '0.215 × 0.999ʳ')
    """
    lr, decay = setting
    return f"{lr:g}" + (f" × {decay:g}ʳ" if decay != 1 else "")


def interpolated(trial: Trial, target: float) -> str:
    """The rounds until a run crossed a target."""
    rounds = trial.crossing(target)
    return NOT_THERE if rounds is None else f"{rounds:,.1f}"


def whole(trial: Trial, target: float) -> str:
    """The first evaluation after which a run was there, as a round."""
    rounds = trial.reached(target)
    return NOT_THERE if rounds is None else f"{rounds:,}"
