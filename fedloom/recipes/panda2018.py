"""Panda and Marrero 2018: weight updates by amount of data, by validation accuracy, or by training accuracy.

The module repeats their fourteen runs with ten seeds each. It also tests whether accuracy is a better weight than data:
every weighting runs with the same seeds (initial weights, cohorts and batches) on data partitioned in four ways.
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
from scipy import stats

from fedloom.recipes.paper import Paper, effort, quick
from fedloom.recipes.part import Found, Part, Picture
from fedloom.recipes.repeated import Estimate, each, estimate, together
from fedloom.recipes.series import Series
from fedloom.runs.experiment import Experiment
from fedloom.style import STYLE

PUBLISHED = Path(__file__).parent / "published" / "panda2018.json"
SEEDS, PAIRS = 10, 20
HELD = 10_000  # images held out for validation before the rest is partitioned
CALLED = {"data": "size", "validation_accuracy": "validation-accuracy", "training_accuracy": "training-accuracy"}
WEIGHTINGS = {"size": "data", "uniform": "all the same", "validation-accuracy": "validation accuracy",
              "training-accuracy": "training accuracy"}  # fmt: skip
PARTITIONS = {"iid": "IID, equal sizes", "lognormal": "IID, unequal sizes (log-normal, σ = 1)",
         "shards": "two shards each", "dirichlet": "Dirichlet(0.3)"}  # fmt: skip
TAIL = 4  # number of last evaluations whose mean is reported
SIGNIFICANCE = 0.05
BASE = Experiment(partition="iid", batch_size=50, lr=0.1, decay=0.99, validation=HELD, rounds=100, target=None,
                  evaluate="validation,test")  # fmt: skip


@cache
def published() -> list[dict[str, Any]]:
    """Return the fourteen published runs."""
    runs: list[dict[str, Any]] = json.loads(PUBLISHED.read_text())["runs"]
    return runs


def series1() -> list[Series]:
    """Return the series of the fourteen published runs."""
    found = []
    for run in published():
        clients, weighting = run.get("clients", 100), CALLED[run["weighting"]]
        e = BASE.replace(model=run["model"], clients=clients, fraction=run["C"], epochs=run["E"], weighting=weighting)
        name = f"{run['model']}-K{clients}-C{run['C']:g}-E{run['E']}-{weighting}"
        quick = run["model"] == "2nn" and clients == 1
        found.append(Series(name, e, together(SEEDS), quick, together(2)))
    return found


def series2() -> list[Series]:
    """Return the series that compare weightings with paired seeds."""
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
    """Return the part that sets the fourteen published runs beside ours and their spread over seeds."""
    every = series1()

    def text(found: Found) -> str:
        lines = ["| model | clients | C | E | weighted by | published (round) | fedloom in that round | range "
                 "| best of 100 rounds | range | round |", "|---" * 11 + "|"]  # fmt: skip
        seen = {"every": 0, "mean": 0, "late": 0, "shown": 0}
        for run, series in zip(published(), every, strict=True):
            ours = " | ".join("–" * 5)
            if kept := found.series.get(series.name):
                curves, rounds = each(kept, "validation_accuracy"), np.array(kept.columns["round"])
                then, top = curves[:, rounds == run["round"]].ravel(), curves.max(axis=1)
                at = rounds[curves.argmax(axis=1)].mean()
                ours = f"{spread(then)} | {spread(top)} | {at:.0f}"
                seen["shown"] += 1
                seen["every"] += bool(len(then) and then.min() > run["best"])
                seen["mean"] += bool(len(then) and then.mean() > run["best"])
                seen["late"] += bool(top.min() > run["best"])
            lines.append(
                f"| {run['model']} | {run.get('clients', 100)} | {run['C']:g} | {run['E']} | "
                f"{run['weighting'].replace('_', ' ')} | {run['best']:.2%} ({run['round']}) | {ours} |"
            )
        return "\n".join([summary(**seen), "", *lines]) if seen["shown"] else ""

    return Part("runs", "The fourteen runs", series=lambda found: every, text=text)  # noqa: ARG005


def spread(values: np.ndarray) -> str:
    """Return the mean of some accuracies with its interval, and their range, as two cells of a table."""
    if not len(values):
        return "– | –"
    return f"{estimate(list(values))} | {values.min():.2%} – {values.max():.2%}"


def summary(*, every: int, mean: int, late: int, shown: int) -> str:
    """Return the sentences that lead the table of the published runs.

    Args:
        every: number of runs in which every seed is above the published number in the published round.
        mean: number of runs in which the mean over seeds is above it in that round.
        late: number of runs in which every seed is above it in some round up to 100.
        shown: number of runs that are recorded.
    """
    return (
        f"Validation accuracy in the round in which the paper found its best, and the best within 100 rounds; means "
        f"over seeds with 95 % intervals. In the published round, every seed is above the published number in {every} "
        f"of {shown} runs, and the mean over seeds in {mean}. Within 100 rounds, every seed is above it in {late} "
        f"runs. The second comparison favours fedloom: the paper reports the best of a single run, and says that it "
        f"trained its CNNs for about 20 rounds."
    )


def gained(found: Found, dealt: str, weighting: str) -> Estimate | None:
    """Return by how much a weighting beats weighting by data, as the mean over seeds."""
    gains = differences(found, dealt, weighting)
    return None if gains is None else estimate(gains)


def differences(found: Found, dealt: str, weighting: str) -> list[float] | None:
    """Return the final test accuracy of a weighting minus that of weighting by data, for each seed."""
    pair = [found.series.get(f"fair-{dealt}-{w}") for w in (weighting, "size")]
    if pair[0] is None or pair[1] is None:
        return None
    one, other = (each(kept, "test_accuracy")[:, -TAIL:].mean(axis=1) for kept in pair if kept)
    return list(one - other)


def meaning(found: Found) -> str:
    """Return what the comparison of weightings shows, once it is fully recorded."""
    gains = {(d, w): differences(found, d, w) for d in PARTITIONS for w in WEIGHTINGS if w != "size"}
    every = {key: values for key, values in gains.items() if values is not None}
    if len(every) < len(gains):
        return ""
    accuracy = {key: values for key, values in every.items() if key[1].endswith("accuracy")}
    kept = holm([float(stats.ttest_1samp(values, 0).pvalue) if np.any(values) else 1.0 for values in accuracy.values()])
    means = [100 * float(np.mean(values)) for values in accuracy.values()]
    better = [mean for mean, p in zip(means, kept, strict=True) if p < SIGNIFICANCE and mean > 0]
    worse = [mean for mean, p in zip(means, kept, strict=True) if p < SIGNIFICANCE and mean < 0]
    least = f", one of them by {min(abs(m) for m in worse):.2f} points" if worse else ""
    points = {key: f"{-100 * np.mean(values):.2f}" for key, values in every.items()}
    return f"""Of the {len(accuracy)} comparisons of an accuracy with data, {len(better)} are better and {len(worse)}
are worse{least} (paired t-tests at level {SIGNIFICANCE:g} with Holm's correction for {len(accuracy)} comparisons). The
seeds share one partition of the data, so the intervals do not cover the luck of the partition.

The accuracies of clients' models are close to each other, so weighting by accuracy is close to giving every client the
same weight. With equal sizes that changes nothing. With unequal sizes it loses what weighting by data gains
({points["lognormal", "validation-accuracy"]} points by validation accuracy, {points["lognormal", "uniform"]} with equal
weights). With two shards each, where accuracies do differ, weighting by validation accuracy costs
{points["shards", "validation-accuracy"]} points. Single runs, as published, cannot distinguish differences of this size
from chance."""


def holm(p_values: list[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down procedure.

    >>> [round(p, 4) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order, adjusted, largest = np.argsort(p_values), [1.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def fair() -> Part:
    """Return the part that compares accuracy with data as a weight, paired by seed."""
    every = series2()
    others = [w for w in WEIGHTINGS if w != "size"]

    def text(found: Found) -> str:
        lines = ["| partition | by data | " + " | ".join(f"{WEIGHTINGS[w]}, difference" for w in others) + " |",
                 "|---" * (2 + len(others)) + "|"]  # fmt: skip
        told: list[str] = []
        for dealt, how in PARTITIONS.items():
            if base := found.series.get(f"fair-{dealt}-size"):
                level = estimate(list(each(base, "test_accuracy")[:, -TAIL:].mean(axis=1)))
                gains = [gained(found, dealt, w) for w in others]
                lines.append(f"| {how} | {level} | " + " | ".join(g.points if g else "–" for g in gains) + " |")
                clear = [f"{WEIGHTINGS[w]} {g.points}" for w, g in zip(others, gains, strict=True) if g and g.is_clear]
                told.append(f"{how}: " + (", ".join(clear) if clear else "none"))
        if not told:
            return ""
        seeds = max(int(kept.about.get("runs", PAIRS)) for kept in found.series.values())
        about = (f"2NN, C = 0.2, E = 5, B = 50, {seeds} seeds. Test accuracy, mean of the last {TAIL} evaluations. "
                 "Differences from weighting by data are paired by seed and given in points with 95 % intervals, which "
                 "are not corrected for the number of comparisons. Intervals without zero: ")  # fmt: skip
        return "\n".join([*lines, "", about + "; ".join(told) + ".", "", meaning(found)])

    def pictures(found: Found) -> Iterator[Picture]:
        gains = {(d, w): g for d in PARTITIONS for w in others if (g := gained(found, d, w))}
        if gains:
            about = "Test accuracy of each weighting minus that of weighting by data, 95 % intervals, paired seeds."
            yield Picture("gains", about, forest(gains))

    return Part(
        "fair",
        "Is accuracy a better weight than data?",
        series=lambda found: every,  # noqa: ARG005
        pictures=pictures,
        text=text,
    )


def forest(gains: dict[tuple[str, str], Estimate]) -> Figure:
    """Draw differences and their intervals, one row each."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 0.6 + 0.36 * len(gains)), layout="constrained")
        axes = figure.subplots()
        kinds = list(dict.fromkeys(w for _, w in gains))
        for row, ((_, weighting), gain) in enumerate(gains.items()):
            colour = f"C{kinds.index(weighting)}"
            axes.errorbar(100 * gain.mean, -row, xerr=100 * gain.half, fmt="o", color=colour, capsize=3)
        axes.axvline(0, color="grey", linewidth=0.8)
        axes.set_yticks([-row for row in range(len(gains))],
                        [f"{PARTITIONS[d].split(' (')[0]}: {WEIGHTINGS[w]}" for d, w in gains])  # fmt: skip
        axes.set_xlabel("test accuracy against weighting by data, percentage points")
    return figure


def introduction(found: Found) -> str:
    """Return the first paragraph of the page."""
    return f"""# panda2018: weighting by accuracy, repeated

Panda and Marrero (2018) weight updates by the accuracy of clients' models instead of their amount of data, on MNIST, in
one run each. This page repeats each of their runs with {SEEDS} seeds ({quick(found)}) and compares the weightings with
{PAIRS} paired seeds.

{HELD:,} of the 60,000 training images are the validation set; they are drawn at random before the rest is partitioned.
A client's validation accuracy is that of its model on this set, its training accuracy that on its own examples. Pixels
are between 0 and 1. The initial weights, the cohorts and the batches differ between seeds; the partition does not.
Recorded: {effort(found)}.
Drawn by `fedloom reproduce panda2018 --from-results --page docs/panda2018.md`. A – marks what is not recorded."""


PANDA2018 = Paper("panda2018", {"runs": runs, "fair": fair}, introduction)
