"""Unsaid: what McMahan et al. do not say of their experiments, and what it does: pixels, weights, precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import jax
import numpy as np

from fedloom.data.vocabulary import SIZE
from fedloom.recipes.cell import Cell, Outcome
from fedloom.recipes.layout import Entry, Grid, crossings, took
from fedloom.recipes.part import Found, Part
from fedloom.recipes.setting import KINDS, Setting, cell, published, settings1, settings2
from fedloom.tasks import char_lstm
from fedloom.trees import count

SCALES = {"unit": "0 to 1", "centred": "-1 to 1", "standard": "mean 0, deviation 1"}
WHERE = {"iid": "on IID data", "shards": "on shards", "natural": "by role"}

THEIRS = 258  # symbols with which an LSTM with peepholes has as many parameters as the paper's
LAYERS, UNITS = 2, 256
RUN_TWICE = "cnn", "iid", 0.5, None
ABOUT_PIXELS = {
    "2nn": "A likely reason why the 2NN is faster here: how pixels are scaled, which the paper does not say and which "
    "alone moves the rounds several times over. At C = 0.1 and B = 10 the same model, tuned on the same grid, takes on "
    "IID data and on shards",
    "cnn": "The CNN depends on that less (of how its weights are drawn, Table 2 tells): it takes",
}
PLAINLY = {
    "cnn": "a CNN's as in the tutorial that its layers are from, and that tutorial's pixels from 0 to 1",
    "lstm": "an LSTM's as libraries usually draw them",
}

Way = Callable[[Setting], Setting]


def compared(
    entries: Mapping[Setting, Entry], chosen: Sequence[Setting], ways: Mapping[str, Way]
) -> tuple[tuple[tuple[str, tuple[Entry, ...]], ...], tuple[Cell, ...]]:
    """Some settings of the tables, each in several ways: the rows of a table, and its cells."""
    rows, cells = [], dict[str, Cell]()
    for title, way in ways.items():
        pairs = [(way(s), s, entries[s]) for s in chosen]
        cells |= {changed.name: cell(changed, entry.target) for changed, _, entry in pairs}
        row = tuple(Entry(c.name, e.target, e.published if c == s else {}) for c, s, e in pairs)
        rows.append((title, row))
    return tuple(rows), tuple(cells.values())


def inputs() -> Part:
    """How pixels are scaled, which the paper does not say: settings of Table 1 with each scaling."""
    entries = dict(scaled())
    chosen = list(entries)
    ways = {f"pixels as {about}": partial(replace, inputs=scaling) for scaling, about in SCALES.items()}
    rows, cells = compared(entries, chosen, ways)
    heads = tuple(f"{s.model.upper()}, {KINDS[s.partition]}" for s in chosen)
    grid = Grid("Pixels scaled in three ways; C = 0.1, B = 10", heads, rows)
    return Part("inputs", "What the paper does not say: how pixels are scaled", cells, (grid,))


def scaled() -> Iterator[tuple[Setting, Entry]]:
    """The settings that are run with each scaling."""
    return ((s, entry) for s, entry in settings1() if s.batch_size == 10 and s.fraction == 0.1)


def weights() -> Part:
    """How weights are drawn, which the paper does not say: settings of Table 2 with an LSTM as libraries draw it, and
    with a CNN as in the tutorial that its layers are from, which had pixels from 0 to 1.
    """
    entries = dict(settings2())
    chosen = changed_weights(entries)
    ways: dict[str, Way] = {
        "as in the tables": replace,
        "plain: an LSTM as libraries draw it, a CNN as TensorFlow's tutorial": plain,
    }
    rows, cells = compared(entries, chosen, ways)
    heads = tuple(f"{s.model.upper()}, {KINDS[s.partition]}, E = {s.epochs}" for s in chosen)
    grid = Grid("Weights drawn in two ways; C = 0.1, B = 10", heads, rows)
    return Part("weights", "What the paper does not say: how weights are drawn", cells, (grid,))


def changed_weights(settings: Iterable[Setting]) -> list[Setting]:
    """The settings that are run with plain weights too: among them the one that is furthest above the paper's."""
    kinds = [("cnn", "iid", 1), ("cnn", "shards", 1), ("lstm", "natural", 1), ("lstm", "natural", 5)]
    return [s for s in settings if s.batch_size == 10 and (s.model, s.partition, s.epochs) in kinds]


def plain(setting: Setting) -> Setting:
    """The same with weights, and for a CNN pixels too, as was usual."""
    return replace(setting, model=f"{setting.model}-plain", inputs="unit")


def precision() -> Part:
    """Whether it matters that some cells were computed in bfloat16: settings of the tables computed so too."""
    entries = dict(settings2()) | dict(settings1())  # Table 1's numbers, where both have one
    kinds = [("cnn", "iid", 0.1, 5, 10), ("cnn", "shards", 0.1, 5, 10), ("cnn", "iid", 0.5, 5, None),
             ("lstm", "natural", 0.1, 1, 10)]  # fmt: skip
    chosen = [s for s in entries if (s.model, s.partition, s.fraction, s.epochs, s.batch_size) in kinds]
    ways: dict[str, Way] = {"as in the tables": replace, "trained in bfloat16": partial(replace, precision="bfloat16")}
    rows, cells = compared(entries, chosen, ways)
    heads = tuple(f"{s.model.upper()}, {KINDS[s.partition]}, C = {s.fraction:g}, E = {s.epochs}, "
                  f"B = {s.batch_size or '∞'}" for s in chosen)  # fmt: skip
    grid = Grid("Trained in bfloat16, and as in the tables", heads, rows)
    return Part("precision", "Does it matter what it is computed in?", cells, (grid,), text=twice)


def twice(found: Found) -> str:
    """That one cell was computed anew in float32 because it missed."""
    kinds = {(s.model, s.partition, s.fraction, s.batch_size): (s, entry) for s, entry in settings1()}
    setting, entry = kinds[RUN_TWICE]
    usual, rounded = (found.outcomes.get(s.name) for s in (setting, replace(setting, precision="bfloat16")))
    if not usual or not rounded:
        return ""
    return (
        f"`{setting.name}` was at first in the table as computed in bfloat16, with finer steps of rates: "
        f"{took(entry, rounded)} rounds, where the paper has {entry.published['paper']}. It was run again in "
        f"float32 because of that, and {took(entry, usual)} is what the table counts; others with a star "
        "were not run again in float32."
    )


def why_pixels(found: Found) -> str:
    """What the scaling of pixels does to both models, as far as the experiments that show it are recorded."""
    told = [text for model, about in ABOUT_PIXELS.items() if (text := _pixels(model, about, found))]
    return " ".join(told)


def _pixels(model: str, about: str, found: Found) -> str:
    shown = list[str]()
    for scaling, pixels in SCALES.items():
        cells = [(replace(s, inputs=scaling), entry) for s, entry in scaled() if s.model == model]
        if any(setting.name not in found.outcomes for setting, _ in cells):
            return ""
        ours = [took(entry, found.outcomes[setting.name]) for setting, entry in cells]
        shown.append(f"{' and '.join(ours)} with pixels as {pixels}")
    paper = " and ".join(f"{entry.published['paper']:.0f}" for s, entry in scaled() if s.model == model)
    return f"{about} {', '.join(shown)} (the paper: {paper})."


def why_weights(found: Found) -> str:
    """What weights that are drawn in another way do, as far as that is recorded, and whether that is enough."""
    entries, told, drawn = dict(settings2()), list[str](), dict[str, str]()
    within, beyond = list[str](), list[str]()
    for setting in changed_weights(entries):
        usual, other = (found.outcomes.get(s.name) for s in (setting, plain(setting)))
        if usual and other:
            entry = entries[setting]
            who = f"the {setting.model.upper()} {WHERE[setting.partition]}, E = {setting.epochs}"
            theirs = f"as in the tables {took(entry, usual)}, the paper {entry.published['paper']:,}"
            told.append(f"{who}: {took(entry, other)} ({theirs})")
            (within if is_between(entry, usual, other) else beyond).append(who)
            drawn[setting.model] = PLAINLY[setting.model]
    if not told:
        return ""
    enough = "The paper's number is between the two for {}: there, that may be all that is between its number and ours."
    short = "It is not between the two for {}, which neither way explains."
    return (
        "Nor does the paper say how weights are drawn. At C = 0.1 and B = 10, with "
        f"{' and '.join(drawn.values())}, rounds are, for {'; '.join(told)}."
        + f" {enough.format('; '.join(within))}" * bool(within)
        + f" {short.format('; '.join(beyond))}" * bool(beyond)
    )


def is_between(entry: Entry, usual: Outcome, other: Outcome) -> bool:
    """Whether the published number is between those of two ways; who did not get there takes longer than anybody."""
    ours = [np.mean(there) if (there := crossings(entry, outcome)) else np.inf for outcome in (usual, other)]
    return bool(min(ours) <= (entry.published["paper"] or np.inf) <= max(ours))


def how_large(found: Found) -> str:
    """How many parameters the LSTM has, and what would make it the paper's, if anything of it is recorded."""
    if not any(name.startswith("lstm-") for name in found.outcomes):
        return ""
    more, paper = 3 * LAYERS * UNITS, published()["models"]["lstm"]
    return (
        f"The LSTM has {size(SIZE):,} parameters with the {SIZE} symbols of this text (padding and unknown are two). "
        f"The paper's has {paper:,}, which is what ours would have with {THEIRS} symbols ({size(THEIRS):,}) and three "
        f"peepholes for each unit of both layers ({more:,} more); ours has no peepholes."
    )


def size(symbols: int) -> int:
    """How many parameters the LSTM has with so many symbols."""
    return count(jax.eval_shape(char_lstm(symbols, hidden=UNITS).init, jax.random.key(0)).params)
