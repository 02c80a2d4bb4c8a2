"""Samani 2020: one model for all or one for each, averaged plainly, weighted, or without those that do badly.

His study describes the methods and the data, and stops before its results; here they are. Every user takes part in
every round. What weighs and excludes is the accuracy on validation data: centrally each user's own, of its own model;
peer to peer, of everybody's model on the data of the user that averages.
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
"""Method → how its experiment differs; local only is the same centrally and peer to peer."""
LINES = {
    method: {"color": colour, "linestyle": "--" if method.startswith("personalised") else "-"}
    for method, colour in zip(METHODS, ("C0", "C1", "C2", "C3", "C4", "C2", "C3", "C4", "C5"), strict=True)
}
"""Method → how its curve looks: plain, weighted and std-dev have a colour each, personalised ones are dashed."""
PAIRED = (
    ("before", "central, weighted", "central, plain"),
    ("before", "central, std-dev", "central, plain"),
    ("before", "personalised, weighted", "central, plain"),
    ("before", "personalised, std-dev", "central, plain"),
    ("before", "personalised, weighted", "global user"),
    ("after", "federated", "local only"),
)
"""Which differences are told: when, of which method, against which other."""
RATES = (0.01, 0.03, 0.1)
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
        "Cats and dogs: 10 users, 80 % of each one's pictures of its favourite",
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
"""Part → its title, and its data."""


def series(part: str) -> dict[str, Series]:
    """Method → what is run for it."""
    e = BASE.replace(**SETS[part][1])
    found = {}
    for method, changes in METHODS.items():
        name = f"{part}-{method.replace(', ', '-').replace(' ', '-')}"
        found[method] = Series(name, e.replace(**changes), apart(SEEDS), part == "wisdm", apart(2))
    return found


def data_set(part: str) -> Callable[[], Part]:
    """What makes the part of a data set."""

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
                about = f"{title}: what each user's model is made of in the last round, weighted."
                yield Picture(f"{part}-mixing", about, mixed(kept))

        return Part(part, title, series=lambda found: every.values(), text=text, pictures=pictures)  # noqa: ARG005

    return make


def table(there: Mapping[str, Kept]) -> str:
    """Of each method: users' mean accuracies, and that of the tenth that fares worst; means over seeds."""
    if not there:
        return ""
    lines = [
        f"| | {' | '.join(MOMENTS.values())} | worst tenth, before | worst tenth, after |",
        "|---|---|---|---|---|---|",
    ]
    for method, kept in there.items():
        means = [estimate(list(np.nanmean(each(kept, f"last {r}_accuracy"), axis=1))) for r in MOMENTS]
        worsts = [
            estimate([worst(values, "higher") for values in each(kept, f"last {r}_accuracy")])
            for r in ("before", "after")
        ]
        lines.append(f"| {method} | " + " | ".join(str(e) for e in (*means, *worsts)) + " |")
    return "\n".join([*lines, "", differences(there)])


def differences(there: Mapping[str, Kept]) -> str:
    """What differs from what, paired by seed, which have the same split and the same first weights."""
    told = []
    for moment, method, other in PAIRED:
        if found := gap(there, moment, method, other):
            told.append(f"- {method} against {other}, {MOMENTS[moment]}: {found.points}")
    return "\n".join(["Differences in points, paired by seed, with 95 % intervals:", "", *told]) if told else ""


def against_rounds(there: Mapping[str, Kept]) -> Figure:
    """Users' mean accuracy against rounds, before fitting and after."""
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
    """Every seed's users in the last round, as if of one."""
    return Users({f"{m}_accuracy": (each(kept, f"last {m}_accuracy").ravel(),) for m in ("before", "after")})


def mixed(kept: Kept) -> Figure:
    """The mixing matrix of the last round, of the first seed."""
    flat = np.array(kept.columns["0 last mixing"])
    size = round(len(flat) ** 0.5)
    return mixing(Users() + {"round": kept.columns["round"][-1], "mixing": flat.reshape(size, size)})


def introduction(found: Found) -> str:
    """How the numbers came about."""
    return f"""# samani2020, finished

Samani's study of 2020 asks who should count how much, and whether everybody wants the same average; its results
section was never written. Here every user takes part in every round (E = 1, B = 10, for every method the learning rate
that is the best of 0.01, 0.03 and 0.1 for the global user, see the end); users' data is split 60:20:20, anew for each
of {SEEDS} seeds ({quick(found)}). *Federated* weighs by data; *plain* lets all count alike;
*weighted* by validation accuracy; *std-dev* leaves out models more than one standard deviation below the mean of
validation accuracies, the rest count the same; the *global user* is one model trained in one place on all data, then
handed to each user. Accuracies are means over users of each one's accuracy on its own test data, before and after it
trains the model that it was sent for a round, and of its model after that on everybody's test data; then means over
seeds, with 95 % intervals. Personalised plain averaging is central plain averaging by construction; their rows differ
a little because models are added up instead of updates, which rounds differently, and training amplifies that.
Recorded: {effort(found)}.
Drawn by `fedloom reproduce samani2020 --from-results --page docs/samani2020.md`.{meaning(found)}"""


def gap(there: Mapping[str, Kept], moment: str, method: str, other: str) -> Estimate | None:
    """By how much users do better with a method than with another, paired by seed."""
    if method not in there or other not in there:
        return None
    mine, theirs = (np.nanmean(each(there[m], f"last {moment}_accuracy"), axis=1) for m in (method, other))
    return estimate(list(mine - theirs))


def meaning(found: Found) -> str:
    """What the numbers mean, where there are some of every kind."""
    every = {p: {m: found.series[s.name] for m, s in series(p).items() if s.name in found.series} for p in SETS}

    def told(moment: str, method: str, other: str) -> str:
        gaps = {p: g for p, there in every.items() if (g := gap(there, moment, method, other))}
        clear = ", ".join(f"{100 * g.mean:+.1f} ({p})" for p, g in gaps.items() if g.is_clear)
        unclear = ", ".join(p for p, g in gaps.items() if not g.is_clear)
        return " and ".join([*([clear] if clear else []), *([f"nothing clear ({unclear})"] if unclear else [])])

    def elsewhere(method: str) -> str:
        shown = {
            p: np.nanmean(each(there[method], "last global_accuracy")) for p, there in every.items() if method in there
        }
        return ", ".join(f"{a:.1%} ({p})" for p, a in shown.items())

    if not told("after", "federated", "local only") or not told("before", "personalised, weighted", "central, plain"):
        return ""
    return f"""

What it means, in points; *nothing clear*: the 95 % interval has zero in it. For one model for all it matters little who
counts how much: weighted by accuracy instead of plainly, users' accuracy before fitting changes by
{told("before", "central, weighted", "central, plain")}. Leaving out those who deviate changes it by
{told("before", "central, std-dev", "central, plain")}: who is left out may have what others lack. For whom one
averages can matter where users differ: with everybody's own weighted average instead of the plain one it changes by
{told("before", "personalised, weighted", "central, plain")} before fitting, and by
{told("after", "personalised, weighted", "central, plain")} after it, when a round of fitting has done the same for
everybody. Federation itself, against everybody alone, is worth {told("after", "federated", "local only")} after
fitting; and one who trained alone does badly on others' data: {elsewhere("local only")} of everybody's test examples
right. Of two classes, half is what one gets who always says the same: where a user's pictures are mostly of its
favourite (cats-dogs), its own model says just that, which is right for it and useless to others, and an average of such
models has not learned to tell the two apart before it is fitted."""


def tried(e: Experiment, conduct: Conduct) -> Columns:
    """The best validation accuracy of the global user with each learning rate."""
    data, found = federated(e), []
    for lr in RATES:
        mine = e.replace(lr=lr)
        work = mine.build_task(data), [mine.build_algorithm()], [mine.seed], mine.settings()
        [run] = finished(conduct.whole(conduct.train(data, *work, [f"learning rate {lr:g}"])))
        found.append(run.history.best("validation_accuracy"))
    return {"lr": list(RATES), "validation_accuracy": found}


def rates() -> Part:
    """Which learning rate is best for the global user."""
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
