"""Panda and Marrero 2018: replies weighted by data, by validation accuracy, or by training accuracy.

Their fourteen runs, each with ten seeds; and a fair test whether accuracy beats data: the same seeds, that is the same
first weights, cohorts and batches, with each weighting, on data dealt in four ways.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fedloom.recipes.paper import Paper, effort, quick
from fedloom.recipes.part import Found, Part, Picture
from fedloom.recipes.repeated import Estimate, each, estimate, together
from fedloom.recipes.series import Series
from fedloom.runs.experiment import Experiment
from fedloom.style import STYLE

PUBLISHED = Path(__file__).parent / "published" / "panda2018.json"
SEEDS, PAIRS = 10, 20
HELD = 10_000  # images held out for validation before the rest is dealt
CALLED = {"data": "size", "validation_accuracy": "validation-accuracy", "training_accuracy": "training-accuracy"}
WEIGHTINGS = {"size": "data", "uniform": "all the same", "validation-accuracy": "validation accuracy",
              "training-accuracy": "training accuracy"}  # fmt: skip
DEALT = {"iid": "IID, equal sizes", "lognormal": "IID, unequal sizes (log-normal, σ = 1)",
         "shards": "two shards each", "dirichlet": "Dirichlet(0.3)"}  # fmt: skip
TAIL = 4  # evaluations at the end over which an accuracy is averaged
BASE = Experiment(partition="iid", batch_size=50, lr=0.1, decay=0.99, validation=HELD, rounds=100, target=None,
                  evaluate="validation,test")  # fmt: skip


@cache
def published() -> list[dict[str, Any]]:
    """The fourteen runs."""
    runs: list[dict[str, Any]] = json.loads(PUBLISHED.read_text())["runs"]
    return runs


def series1() -> list[Series]:
    """The fourteen runs, as they were published."""
    found = []
    for run in published():
        clients, weighting = run.get("clients", 100), CALLED[run["weighting"]]
        e = BASE.replace(model=run["model"], clients=clients, fraction=run["C"], epochs=run["E"], weighting=weighting)
        name = f"{run['model']}-K{clients}-C{run['C']:g}-E{run['E']}-{weighting}"
        quick = run["model"] == "2nn" and clients == 1
        found.append(Series(name, e, together(SEEDS), quick, together(2)))
    return found


def series2() -> list[Series]:
    """The fair test."""
    e = BASE.replace(fraction=0.2, epochs=5, every=5)
    ways: dict[str, dict[str, Any]] = {
        "iid": {},
        "lognormal": {"least": 5},
        "shards": {},
        "dirichlet": {"alpha": 0.3, "least": 5},
    }
    return [
        Series(f"fair-{dealt}-{weighting}", e.replace(partition=dealt, weighting=weighting, **options), together(PAIRS))
        for dealt, options in ways.items()
        for weighting in WEIGHTINGS
    ]


def runs() -> Part:
    """The fourteen runs: published, ours, and the spread over seeds."""
    every = series1()

    def text(found: Found) -> str:
        lines = ["| model | clients | C | E | weighted by | published (round) | fedloom, mean | range | round |",
                 "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
        higher = shown = 0
        for run, series in zip(published(), every, strict=True):
            ours = "– | – | –"
            if kept := found.series.get(series.name):
                best = each(kept, "validation_accuracy")
                top, at = best.max(axis=1), np.array(kept.columns["round"])[best.argmax(axis=1)]
                ours = f"{estimate(list(top))} | {top.min():.2%} – {top.max():.2%} | {at.mean():.0f}"
                shown, higher = shown + 1, higher + (top.min() > run["best"])
            lines.append(
                f"| {run['model']} | {run.get('clients', 100)} | {run['C']:g} | {run['E']} | "
                f"{run['weighting'].replace('_', ' ')} | {run['best']:.2%} ({run['round']}) | {ours} |"
            )
        if not shown:
            return ""
        told = (f"Best validation accuracy within 100 rounds, mean over seeds with its 95 % interval. In {higher} of "
                f"{shown} runs every seed is above the published number.")  # fmt: skip
        return "\n".join([told, "", *lines])

    return Part("runs", "The fourteen runs", series=lambda found: every, text=text)  # noqa: ARG005


def gained(found: Found, dealt: str, weighting: str) -> Estimate | None:
    """By how much a weighting beats data in the end, seed by seed, in test accuracy."""
    pair = [found.series.get(f"fair-{dealt}-{w}") for w in (weighting, "size")]
    if pair[0] is None or pair[1] is None:
        return None
    mine, theirs = (each(kept, "test_accuracy")[:, -TAIL:].mean(axis=1) for kept in pair if kept)
    return estimate(list(mine - theirs))


def meaning(found: Found) -> str:
    """What the fair test means, if it is whole."""
    gains = {(d, w): gained(found, d, w) for d in DEALT for w in WEIGHTINGS if w != "size"}
    if not all(gains.values()):
        return ""
    accuracy = [g for (_, w), g in gains.items() if w.endswith("accuracy") and g]
    better, worse = (sum(g.is_clear and (g.mean > 0) == up for g in accuracy) for up in (True, False))
    told = {key: f"{100 * g.mean:+.2f}" for key, g in gains.items() if g}
    return f"""What it means: of {len(accuracy)} comparisons of an accuracy with data, {better} are clearly better and
{worse} clearly worse. Accuracies of clients' models are much alike, so that weighting by them is close to letting all
count the same: nothing where all have as much data, and a loss of what weighting by data gains where they have not
({told["lognormal", "validation-accuracy"]} points by validation accuracy, {told["lognormal", "uniform"]} if all count
the same). On two shards each, where accuracies do differ, validation accuracy favours those whose two digits happen to
do better for all ten: {told["shards", "validation-accuracy"]} points. A single run of each, as published, cannot tell
such differences from luck."""


def fair() -> Part:
    """Whether accuracy is a better weight than data: paired by seed."""
    every = series2()
    others = [w for w in WEIGHTINGS if w != "size"]

    def text(found: Found) -> str:
        lines = ["| data dealt | by data | " + " | ".join(f"{WEIGHTINGS[w]}, difference" for w in others) + " |",
                 "|---" * (2 + len(others)) + "|"]  # fmt: skip
        told: list[str] = []
        for dealt, how in DEALT.items():
            if base := found.series.get(f"fair-{dealt}-size"):
                level = estimate(list(each(base, "test_accuracy")[:, -TAIL:].mean(axis=1)))
                gains = [gained(found, dealt, w) for w in others]
                lines.append(f"| {how} | {level} | " + " | ".join(g.points if g else "–" for g in gains) + " |")
                clear = [f"{WEIGHTINGS[w]} {g.points}" for w, g in zip(others, gains, strict=True) if g and g.is_clear]
                told.append(f"{how}: " + (", ".join(clear) if clear else "no clear difference"))
        if not told:
            return ""
        seeds = max(int(kept.about.get("runs", PAIRS)) for kept in found.series.values())
        about = (f"2NN, C = 0.2, E = 5, B = 50, {seeds} seeds. Test accuracy, mean of the last {TAIL} evaluations; "
                 "differences to weighting by data are paired by seed, in points, with 95 % intervals. Those "
                 "whose interval leaves out zero: ")  # fmt: skip
        return "\n".join([*lines, "", about + "; ".join(told) + ".", "", meaning(found)])

    def pictures(found: Found) -> Iterator[Picture]:
        gains = {(d, w): g for d in DEALT for w in others if (g := gained(found, d, w))}
        if gains:
            about = "By how much each weighting beats weighting by data, with 95 % intervals over paired seeds."
            yield Picture("gains", about, forest(gains))

    return Part(
        "fair",
        "Is accuracy a better weight than data?",
        series=lambda found: every,  # noqa: ARG005
        pictures=pictures,
        text=text,
    )


def forest(gains: dict[tuple[str, str], Estimate]) -> Figure:
    """Differences and their intervals, a row each."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 0.6 + 0.36 * len(gains)), layout="constrained")
        axes = figure.subplots()
        kinds = list(dict.fromkeys(w for _, w in gains))
        for row, ((_, weighting), gain) in enumerate(gains.items()):
            colour = f"C{kinds.index(weighting)}"
            axes.errorbar(100 * gain.mean, -row, xerr=100 * gain.half, fmt="o", color=colour, capsize=3)
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set_yticks([-row for row in range(len(gains))],
                        [f"{DEALT[d].split(' (')[0]}: {WEIGHTINGS[w]}" for d, w in gains])  # fmt: skip
        axes.set_xlabel("test accuracy against weighting by data, percentage points")
    return figure


def introduction(found: Found) -> str:
    """How the numbers came about."""
    return f"""# panda2018, reproduced

Panda and Marrero (2018) weigh replies by the accuracy of clients' models instead of their amount of data, on MNIST, one
run each. Here each of their runs has {SEEDS} seeds ({quick(found)}), and each of the fair test
{PAIRS}. {HELD:,} of the 60,000 training images, drawn at random before the rest is dealt to clients, are the validation
set; a client's validation accuracy is that of its model on it, its training accuracy that on its own examples. Pixels
are between 0 and 1. Recorded: {effort(found)}.
Drawn by `fedloom reproduce panda2018 --from-results --page docs/panda2018.md`; what is not recorded is shown as –."""


PANDA2018 = Paper("panda2018", {"runs": runs, "fair": fair}, introduction)
