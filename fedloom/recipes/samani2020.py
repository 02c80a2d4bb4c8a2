"""Samani 2020: one model for all users or one for each, with plain, weighted and filtered averages.

The study describes methods and data sets and stops before its results. Every user takes part in every round. Weights
and filters use accuracy on validation data: with one shared model, each user's own model on its own data; with own
models, every user's model on the data of the user who averages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedloom.recipes.conduct import Conduct
from fedloom.recipes.paper import Paper, effort, quick
from fedloom.recipes.part import Found, Part, Picture
from fedloom.recipes.repeated import Estimate, apart, each, estimate, finished
from fedloom.recipes.series import Columns, Kept, Series
from fedloom.runs.experiment import Experiment
from fedloom.runs.portraits import mixing, violins
from fedloom.runs.prepare import federated
from fedloom.runs.users import MOMENTS, Users, worst
from fedloom.style import STYLE

SEEDS = 10
WEIGHTED, STD_DEV = {"weighting": "validation-accuracy"}, {"weighting": "uniform", "exclude": 1.0}
READS = ("before", "after", "global")
"""The moments that the page shows: on each user's own test data, and after fitting on everybody's."""
METHODS: dict[str, dict[str, Any]] = {
    "global user": {"algorithm": "central", "users": "no"},
    "federated": {},
    "central, plain": {"weighting": "uniform"},
    "central, weighted": WEIGHTED,
    "central, std-dev": STD_DEV,
    "personalised, plain": {"algorithm": "personalised", "weighting": "uniform"},
    "personalised, weighted": {"algorithm": "personalised", **WEIGHTED},
    "personalised, std-dev": {"algorithm": "personalised", **STD_DEV},
    "local only": {"algorithm": "local"},
}
"""Method → the options of its experiment."""
LINES = {
    method: {"color": colour, "linestyle": "--" if method.startswith("personalised") else "-"}
    for method, colour in zip(METHODS, ("C0", "C1", "C2", "C3", "C4", "C2", "C3", "C4", "C5"), strict=True)
}
"""Method → the style of its curve: one colour for each way of averaging, dashed for personalised methods."""
PAIRED = (
    ("before", "central, weighted", "central, plain"),
    ("before", "central, std-dev", "central, plain"),
    ("before", "personalised, weighted", "central, plain"),
    ("before", "personalised, std-dev", "central, plain"),
    ("before", "personalised, weighted", "global user"),
    ("before", "personalised, weighted", "local only"),
    ("after", "federated", "local only"),
)
"""Differences that the page lists: the moment, the method, and the method it is compared with."""
RATES = (0.01, 0.03, 0.1)
CONSTANT = "cats-dogs"
"""The data set on which models answer with one class, so that its numbers say nothing about averaging."""
FAVOURITE = 0.897
"""Share of a user's test images of cats and dogs that show its favourite; the mean over users and seeds."""
CENTRAL = {"algorithm": "central", "users": "no", "rounds": 30, "every": 1, "lr": 0.1, "evaluate": "validation"}
BASE = Experiment(
    split="stratified", validation_share=0.2, test_share=0.2, fraction=1.0, epochs=1, batch_size=10, lr=0.1, rounds=50,
    every=5, target=None, evaluate="test", users="yes",
)  # fmt: skip
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "postures": (
        "Hand postures: 3 users, 3 postures",
        {"data": "hand-postures/Postures_users0-2.csv.gz", "user": "User", "label": "Class"},
    ),
    "wisdm": (
        "WISDM: 36 users, 6 activities",
        {
            "data": "har-wisdm/WISDM_ar_v1.1_transformed.csv.gz",
            "user": "user",
            "label": "class",
            "drop": "UNIQUE_ID",
        },
    ),
    "hapt": (
        "HAPT: 30 users, 12 activities, windows of 2.56 seconds",
        {
            "data": "har-hapt/hapt_labelled.csv.gz",
            "user": "user",
            "label": "activity",
            "drop": "experiment",
            "window": 128,
            "step": 128,
        },
    ),
    "cats-dogs": (
        "Cats and dogs: 10 users, about 90 % of whose pictures show their favourite",
        {
            "data": "cats-dogs/thumbs96.tar",
            "partition": "affinity",
            "clients": 10,
            "model": "cnn",
            "lr": 0.03,
            "rounds": 30,
        },
    ),
}
"""Part → its title, and the options of its data."""


def series(part: str) -> dict[str, Series]:
    """Return the series of each method on a data set."""
    e = BASE.replace(**SETS[part][1])
    found = {}
    for method, changes in METHODS.items():
        name = f"{part}-{method.replace(', ', '-').replace(' ', '-')}"
        found[method] = Series(name, e.replace(**changes), apart(SEEDS), part == "wisdm", apart(2))
    return found


def data_set(part: str) -> Callable[[], Part]:
    """Return a function that makes the part of a data set."""

    def make() -> Part:
        title, _ = SETS[part]
        every = series(part)

        def shown(found: Found) -> dict[str, Kept]:
            return {method: found.series[s.name] for method, s in every.items() if s.name in found.series}

        def text(found: Found) -> str:
            return table(shown(found))

        def pictures(found: Found) -> Iterator[Picture]:
            there = shown(found)
            if there:
                about = f"{title}: accuracy against rounds, mean over users and seeds."
                yield Picture(f"{part}-rounds", about, against_rounds(there))
                about = f"{title}: every user's accuracy, all seeds."
                yield Picture(f"{part}-users", about, violins([(m, pooled(kept)) for m, kept in there.items()]))
            if kept := there.get("personalised, weighted"):
                about = f"{title}: the weights of each user's average in the last round (personalised, weighted)."
                yield Picture(f"{part}-mixing", about, mixed(kept))

        return Part(part, title, series=lambda found: every.values(), text=text, pictures=pictures)  # noqa: ARG005

    return make


def table(there: Mapping[str, Kept]) -> str:
    """Return a table of users' mean accuracies and the mean of the worst tenth, as means over seeds."""
    if not there:
        return ""
    lines = [
        f"| | {' | '.join(MOMENTS[read] for read in READS)} | worst tenth, before | worst tenth, after |",
        "|---|---|---|---|---|---|",
    ]
    for method, kept in there.items():
        means = [estimate(list(np.nanmean(each(kept, f"last {r}_accuracy"), axis=1))) for r in READS]
        worsts = [
            estimate([worst(values, "higher") for values in each(kept, f"last {r}_accuracy")])
            for r in ("before", "after")
        ]
        lines.append(f"| {method} | " + " | ".join(str(e) for e in (*means, *worsts)) + " |")
    return "\n".join([*lines, "", differences(there)])


def differences(there: Mapping[str, Kept]) -> str:
    """Return the differences between methods, paired by seed: a seed fixes the split and the initial weights."""
    told = []
    for moment, method, other in PAIRED:
        if found := gap(there, moment, method, other):
            told.append(f"- {method} against {other}, {MOMENTS[moment]}: {found.points}")
    return "\n".join(["Differences in points, paired by seed, with 95 % intervals:", "", *told]) if told else ""


def against_rounds(there: Mapping[str, Kept]) -> Figure:
    """Draw users' mean accuracy against rounds, before and after fitting."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12.4, 4.0), layout="constrained")
        for axes, moment in zip(figure.subplots(1, 2, sharey=True), ("before", "after"), strict=True):
            for method, kept in there.items():
                curve, style = each(kept, f"users_{moment}_accuracy"), LINES[method]
                if len(curve):
                    axes.plot(kept.columns["round"], curve.mean(axis=0), label=method, **style)
                else:
                    axes.axhline(
                        np.nanmean(each(kept, f"last {moment}_accuracy")), label=f"{method}, at the end", **style
                    )
            axes.set(xlabel="rounds of communication", ylabel="accuracy", title=MOMENTS[moment])
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(*axes.get_legend_handles_labels(), fontsize="small", loc="outside right center")
    return figure


def pooled(kept: Kept) -> Users:
    """Return the users of all seeds in the last round as one collection."""
    return Users({f"{m}_accuracy": (each(kept, f"last {m}_accuracy").ravel(),) for m in ("before", "after")})


def mixed(kept: Kept) -> Figure:
    """Draw the mixing matrix of the first seed in the last round."""
    flat = np.array(kept.columns["0 last mixing"])
    size = round(len(flat) ** 0.5)
    return mixing(Users() + {"round": kept.columns["round"][-1], "mixing": flat.reshape(size, size)})


def introduction(found: Found) -> str:
    """Return the page's introduction: the methods, how accuracies were measured, and what they show."""
    return f"""# samani2020: one average or one for each user

Samani (2020) asks how much each user's model should count in an average, and whether each user should have an average
of its own. The results section of the study was never written; this page has results. Every user takes part in every
round (E = 1, B = 10). Users' data is split 60:20:20, differently for each of {SEEDS} seeds ({quick(found)}).

- *federated*: one average, weighted by amount of data; *plain*: equal weights; *weighted*: by validation accuracy.
- *std-dev*: equal weights, without models more than one standard deviation below the mean validation accuracy.
- *personalised*: each user has its own average; *central*: one average for all.
- *global user*: one model trained on all data in one place and then sent to each user; *local only*: no averaging.

Accuracies are means over users, each measured on its own test data: before and after the user trains the received
model for one round, and after that on everybody's test data. Tables show means over seeds with 95 % intervals.
Personalised plain averaging equals central plain averaging up to rounding, which training amplifies.
Recorded: {effort(found)}.
Drawn by `fedloom reproduce samani2020 --from-results --page docs/samani2020.md`.{meaning(found)}"""


def gap(there: Mapping[str, Kept], moment: str, method: str, other: str) -> Estimate | None:
    """Return by how much users' mean accuracy differs between two methods, paired by seed."""
    if method not in there or other not in there:
        return None
    mine, theirs = (np.nanmean(each(there[m], f"last {moment}_accuracy"), axis=1) for m in (method, other))
    return estimate(list(mine - theirs))


def meaning(found: Found) -> str:
    """Return what the numbers show and what limits them, once every kind of comparison is recorded."""
    every = {p: {m: found.series[s.name] for m, s in series(p).items() if s.name in found.series} for p in SETS}

    def gaps(moment: str, method: str, other: str) -> str:
        known = {p: g for p, there in every.items() if p != CONSTANT and (g := gap(there, moment, method, other))}
        clear = ", ".join(f"{100 * g.mean:+.1f} ({p})" for p, g in known.items() if g.is_clear)
        unclear = ", ".join(p for p, g in known.items() if not g.is_clear)
        return " and ".join([*([clear] if clear else []), *([f"nothing clear ({unclear})"] if unclear else [])])

    def elsewhere(method: str) -> str:
        shown = {p: np.nanmean(each(there[method], "last global_accuracy")) for p, there in every.items()
                 if p != CONSTANT and method in there}  # fmt: skip
        return ", ".join(f"{a:.1%} ({p})" for p, a in shown.items())

    if not gaps("after", "federated", "local only") or not gaps("before", "personalised, weighted", "central, plain"):
        return ""
    return f"""

What the numbers show, in points; *nothing clear* means that the 95 % interval contains zero. Cats and dogs are left
out, for the reason below.

- One average, weighted by accuracy instead of equally, before fitting:
  {gaps("before", "central, weighted", "central, plain")}.
- One average without models far below the mean, before fitting: {gaps("before", "central, std-dev", "central, plain")}.
- Own weighted averages instead of one plain average, before fitting:
  {gaps("before", "personalised, weighted", "central, plain")}; after fitting:
  {gaps("after", "personalised, weighted", "central, plain")}.
- The same own weighted averages against no averaging, before fitting:
  {gaps("before", "personalised, weighted", "local only")}. A gain over the plain average is not a gain over training
  alone.
- Federation (by data, after fitting) against no averaging: {gaps("after", "federated", "local only")}.
- A model trained on one user's data alone is right on {elsewhere("local only")} of everybody's test examples.

What limits them:

- **Learning rates.** One rate for each data set, the best of {", ".join(f"{lr:g}" for lr in RATES)} for the global user
  with one seed. No other method was tuned.{edges(found)}
- **Cats and dogs.** On average {FAVOURITE:.1%} of a user's test images show its favourite, so a model that always gives
  that answer is right on as many. After fitting, every average has about this accuracy, and about 50 % on everybody's
  data: the models give constant answers. Differences between methods on this data set say nothing about averaging."""


def edges(found: Found) -> str:
    """Return the sentence on data sets whose best learning rate is the largest that was tried."""
    kept = {part: found.series.get(f"{part}-rates") for part in SETS}
    known = {part: k.columns["validation_accuracy"] for part, k in kept.items() if k}
    last = len(RATES) - 1
    names = [SETS[part][0].split(":")[0] for part, accuracies in known.items() if np.argmax(accuracies) == last]
    if not names:
        return ""
    return f"""
  The best rate is the largest that was tried on {len(names)} of {len(known)} data sets ({", ".join(names)})."""


def tried(e: Experiment, conduct: Conduct) -> Columns:
    """Return the best validation accuracy of the global user for each learning rate."""
    data, found = federated(e), []
    for lr in RATES:
        mine = e.replace(lr=lr)
        work = mine.build_task(data), [mine.build_algorithm()], [mine.seed], mine.settings()
        [run] = finished(conduct.whole(conduct.train(data, *work, [f"learning rate {lr:g}"])))
        found.append(run.history.best("validation_accuracy"))
    return {"lr": list(RATES), "validation_accuracy": found}


def rates() -> Part:
    """Return the part that shows the learning rates that were tried."""
    every = {part: Series(f"{part}-rates", BASE.replace(**{**about, **CENTRAL}), tried, part == "wisdm")
             for part, (_, about) in SETS.items()}  # fmt: skip

    def text(found: Found) -> str:
        there = {part: found.series[s.name] for part, s in every.items() if s.name in found.series}
        lines = [f"| | {' | '.join(f'{lr:g}' for lr in RATES)} |", "|---" * (1 + len(RATES)) + "|"]
        for part, kept in there.items():
            shown = " | ".join(f"{a:.2%}" for a in kept.columns["validation_accuracy"])
            lines.append(f"| {SETS[part][0].split(':')[0]} | {shown} |")
        return "\n".join(["Best validation accuracy of the global user, one seed:", "", *lines]) if there else ""

    return Part("rates", "The learning rate", series=lambda found: every.values(), text=text)  # noqa: ARG005


SAMANI2020 = Paper("samani2020", {**{part: data_set(part) for part in SETS}, "rates": rates}, introduction)
