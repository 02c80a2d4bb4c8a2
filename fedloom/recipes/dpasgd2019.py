"""He et al. 2019: multi-task learning along a ring without a server, against federated averaging.

The paper reports that a ring takes about 20 % less time. This study adds delays, numbers of workers, topologies and
unequal machines. Every worker is a user and takes part in every round. Time is that of a simulated clock
(:mod:`fedloom.engines.clock`): the same runs are timed on several kinds of machines and links.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from fedloom.engines import clock, compiled
from fedloom.engines.clock import nothing
from fedloom.recipes.conduct import Conduct
from fedloom.recipes.coupling import effect
from fedloom.recipes.paper import Paper, effort
from fedloom.recipes.part import Found, Part, Picture
from fedloom.recipes.repeated import measured_accuracies, together
from fedloom.recipes.ring_balance import final, meaning, percent, reached, saved, whole
from fedloom.recipes.ring_limits import limits
from fedloom.recipes.ring_setting import (
    CLOCKS,
    METHODS,
    PERIOD,
    RATES,
    RING,
    SEEDS,
    SERVER,
    SETS,
    STEPS,
    TOPOLOGIES,
    WORKERS,
    experiment,
    named,
)
from fedloom.recipes.series import Columns, Kept, Series
from fedloom.runs.experiment import Experiment
from fedloom.runs.prepare import federated
from fedloom.style import STYLE

VALIDATED = ("own_validation_accuracy", "validation_accuracy")
"""The columns by which learning rates are chosen: of workers' own models, and of the shared model. Series that were
recorded before the two had different names hold both under the second."""


def timed(seeds: int) -> Callable[[Experiment, Conduct], Columns]:
    """Return a function that runs an experiment with several seeds and times it by every clock."""

    def make(e: Experiment, conduct: Conduct) -> Columns:
        columns = dict(together(seeds)(e, conduct))
        data = federated(e)
        for name, options in CLOCKS.items():
            mine = {k: v for k, v in options.items() if k != "server_bandwidth" or not e.along}
            work = data, e.build_task(data), [e.build_algorithm()], [0]
            program = compiled().program(*work, clock=clock(**mine))
            passed, done, times = nothing(len(data)), 0, []
            for r in columns["round"]:
                passed, done = program.passed(passed, done, int(r) - done, 0), int(r)
                times.append(passed.now)
            columns[f"clock {name}"] = times
        return columns

    return make


def compared(part: str) -> Callable[[], Part]:
    """Return a function that makes the part of a data set."""

    def make() -> Part:
        title, _, target = SETS[part]
        every = {m: Series(named(part, m), experiment(part, m), timed(SEEDS), False) for m in METHODS}

        def shown(found: Found) -> dict[str, Kept]:
            return {m: found.series[s.name] for m, s in every.items() if s.name in found.series}

        def text(found: Found) -> str:
            return table(shown(found), target)

        def pictures(found: Found) -> Iterator[Picture]:
            if there := shown(found):
                about = f"{title}: accuracy on workers' own test data against rounds, and against time by two clocks."
                yield Picture(f"{part}-time", about, against_time(there, target))

        return Part(part, title, series=lambda found: every.values(), text=text, pictures=pictures)  # noqa: ARG005

    return make


def table(there: Mapping[str, Kept], target: float) -> str:
    """Return a table of final accuracies, rounds and seconds to the target, and the time that the ring saves."""
    if not there:
        return ""
    heads = f"accuracy in the end | rounds to {target:.0%} | " + " | ".join(f"s, {c}" for c in CLOCKS)
    lines = [f"| | {heads} |", "|---" * (3 + len(CLOCKS)) + "|"]
    for method, kept in there.items():
        times = " | ".join(whole(reached(kept, target, c), 1) for c in CLOCKS)
        lines.append(f"| {method} | {final(kept)} | {whole(reached(kept, target))} | {times} |")
    return "\n".join([*lines, "", verdict(there, target)])


def verdict(there: Mapping[str, Kept], target: float) -> str:
    """Return the share of time that the ring saves by each clock; the paper reports 20 %."""
    lines = []
    for other in (SERVER, "FedAvg"):
        told = [f"{name}: {percent(a)} and {percent(b)}" for name in CLOCKS
                if (pair := saved(there, target, RING, other, name)) for a, b in [pair]]  # fmt: skip
        if told:
            lines.append(f"- against {other}: " + "; ".join(told) + ".")
    return "\n".join([f"Time that {RING} saves, a round and to {target:.0%} (paper: about 20 %):", "", *lines])


def against_time(there: Mapping[str, Kept], target: float) -> Figure:
    """Draw accuracy against rounds, and against seconds by two clocks."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(13.2, 4.0), layout="constrained")
        panels = {"round": "rounds", "clock no delay": "seconds, no delay", "clock 1 s": "seconds, delays of 1 s"}
        for axes, (column, title) in zip(figure.subplots(1, 3, sharey=True), panels.items(), strict=True):
            for i, (method, kept) in enumerate(there.items()):
                places, curves = kept.columns[column][1:], measured_accuracies(kept)[:, 1:]  # all begin as one
                band = curves.min(0), curves.max(0)
                axes.fill_between(places, *band, color=f"C{i}", alpha=0.2, linewidth=0)
                axes.plot(places, curves.mean(0), color=f"C{i}", label=method)
            axes.axhline(target, color="grey", linewidth=0.8, linestyle=":")
            axes.set(xlabel=title, ylabel="accuracy")
        tops = [float(measured_accuracies(kept).max()) for kept in there.values()]
        figure.axes[0].set_ylim(target - 0.1, max(tops) + 0.01)
        figure.axes[0].legend(fontsize="small", loc="lower right")
        for axes in figure.axes[1:]:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def workers() -> Part:
    """Return the part with 4 to 512 workers."""
    methods = (SERVER, RING)
    every = {(m, k): Series(named(f"workers-{k}", m), experiment("mnist", m, most=k, rounds=60), timed(SEEDS))
             for k in WORKERS for m in methods}  # fmt: skip

    def shown(found: Found) -> dict[tuple[str, int], Kept]:
        return {key: found.series[s.name] for key, s in every.items() if s.name in found.series}

    def text(found: Found) -> str:
        there = shown(found)
        heads = " | ".join(f"{m}, accuracy | s a round, no delay | 1 s | unequal machines" for m in methods)
        lines = [f"| workers | {heads} |", "|---" * 9 + "|"]
        for k in WORKERS:
            cells = []
            for m in methods:
                if kept := there.get((m, k)):
                    a_round = [kept.columns[f"clock {c}"][-1] / kept.columns["round"][-1]
                               for c in ("no delay", "1 s", "unequal machines")]  # fmt: skip
                    cells += [str(final(kept)), *(f"{s:.2f}" for s in a_round)]
                else:
                    cells += ["–"] * 4
            lines.append(f"| {k} | " + " | ".join(cells) + " |")
        return "\n".join(["After 60 rounds:", "", *lines]) if there else ""

    def pictures(found: Found) -> Iterator[Picture]:
        if there := shown(found):
            about = "Accuracy after 60 rounds, and seconds a round, against the number of workers."
            yield Picture("workers", about, against_workers(there))

    return Part("workers", "4 to 512 workers", series=lambda found: every.values(), text=text, pictures=pictures)  # noqa: ARG005


def against_workers(there: Mapping[tuple[str, int], Kept]) -> Figure:
    """Draw accuracy and seconds a round against the number of workers."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(12.4, 4.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        for i, method in enumerate(dict.fromkeys(m for m, _ in there)):
            mine = {k: kept for (m, k), kept in there.items() if m == method}
            ends = [final(kept) for kept in mine.values()]
            bars = [e.mean for e in ends], [e.half for e in ends]
            left.errorbar(list(mine), *bars, color=f"C{i}", capsize=3, label=method)
            for name, dash in (("no delay", "-"), ("1 s", "--"), ("unequal machines", ":")):
                times = [kept.columns[f"clock {name}"][-1] / kept.columns["round"][-1] for kept in mine.values()]
                right.plot(list(mine), times, color=f"C{i}", linestyle=dash, label=f"{method}, {name}")
        left.set(xlabel="workers", ylabel="accuracy after 60 rounds", xscale="log")
        right.set(xlabel="workers", ylabel="seconds a round", xscale="log", yscale="log")
        left.legend(fontsize="small")
        right.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        for axes in (left, right):
            axes.set_xticks(WORKERS, [str(k) for k in WORKERS])
            axes.minorticks_off()
    return figure


def topologies() -> Part:
    """Return the part with topologies from a ring to a complete graph."""
    every = {t: Series(f"topology-{t.replace(':', '-')}", experiment("mnist", RING, topology=t, most=64), timed(SEEDS))
             for t in TOPOLOGIES}  # fmt: skip
    target = SETS["mnist"][2]

    def shown(found: Found) -> dict[str, Kept]:
        return {t: found.series[s.name] for t, s in every.items() if s.name in found.series}

    def text(found: Found) -> str:
        there = shown(found)
        heads = f"accuracy in the end | rounds to {target:.0%} | s a round, no delay | s to it, no delay | s to it, 1 s"
        lines = [f"| topology | {heads} |", "|---" * 6 + "|"]
        for t, kept in there.items():
            a_round = kept.columns["clock no delay"][-1] / kept.columns["round"][-1]
            times = " | ".join(whole(reached(kept, target, c), 1) for c in ("no delay", "1 s"))
            lines.append(f"| {t} | {final(kept)} | {whole(reached(kept, target), 1)} | {a_round:.2f} | {times} |")
        return "\n".join(["DPA-SGD-MTL, 64 workers:", "", *lines]) if there else ""

    def pictures(found: Found) -> Iterator[Picture]:
        if there := shown(found):
            about = "Topologies of 64 workers: accuracy against rounds, and against time by two clocks."
            yield Picture("topologies", about, against_time(there, target))

    title = "Sparser and denser topologies"
    return Part("topologies", title, series=lambda found: every.values(), text=text, pictures=pictures)  # noqa: ARG005


def tried(rates: Sequence[float]) -> Callable[[Experiment, Conduct], Columns]:
    """Return a function that finds the best validation accuracy of each learning rate; NaN if a run diverges."""

    def make(e: Experiment, conduct: Conduct) -> Columns:
        data, found = federated(e), []
        column = VALIDATED[0] if e.build_algorithm().is_personal else VALIDATED[1]
        for lr in rates:
            mine = e.replace(lr=lr)
            work = mine.build_task(data), [mine.build_algorithm()], [SEEDS], mine.settings()
            [run] = conduct.whole(conduct.train(data, *work, [f"learning rate {lr:g}"]))
            found.append(float("nan") if run.diverged else run.history.best(column))
        return {"lr": list(rates), column: found}

    return make


def rates() -> Part:
    """Return the part that shows the learning rates that were tried for each method."""
    every = {}
    for part, method in itertools.product(SETS, METHODS):
        for i, some in enumerate(RATES[part]):
            e = experiment(part, method, evaluate="validation", lr=some[0])
            name = f"{named(part, method)}-rates{f'-{i + 1}' if i else ''}"
            every[part, method, i] = Series(name, e, tried(some))

    def text(found: Found) -> str:
        lines: list[str] = []
        edges = {}
        for part in SETS:
            tries: dict[str, dict[float, float]] = {m: {} for m in METHODS}
            for (p, m, _), series in every.items():
                if p == part and series.name in found.series:
                    columns = found.series[series.name].columns
                    found_rates = next(columns[name] for name in VALIDATED if name in columns)
                    tries[m] |= zip(columns["lr"], found_rates, strict=True)
            if some := sorted({lr for mine in tries.values() for lr in mine}):
                lines += ["", f"| {part} | {' | '.join(f'{lr:g}' for lr in some)} |", "|---" * (1 + len(some)) + "|"]
                lines += [f"| {m} | {' | '.join(reading(mine.get(lr)) for lr in some)} |" for m, mine in tries.items()]
                edges[part] = [m for m, mine in tries.items() if at_edge(mine)]
        told = (
            "Best validation accuracy with another seed. On MNIST, FedAvg uses 0.2 and the other methods 0.1, because "
            "FedAvg-MTL diverges with 0.2 for one of the three seeds. On Shakespeare every method uses 2.15."
        )
        for part, methods in edges.items():
            if methods:
                all_of = "every method" if len(methods) == len(METHODS) else ", ".join(methods)
                told += f" On {part}, the best rate of {all_of} is the smallest or the largest that was tried."
        return "\n".join([told, *lines]) if lines else ""

    return Part("rates", "The learning rate", series=lambda found: every.values(), text=text)  # noqa: ARG005


def at_edge(accuracies: Mapping[float, float]) -> bool:
    """Return True if the best learning rate is the smallest or the largest that was tried.

    >>> at_edge({0.1: 0.8, 0.2: 0.9, 0.4: 0.7}), at_edge({0.1: 0.8, 0.2: 0.9})
    (False, True)
    """
    known = {lr: a for lr, a in accuracies.items() if not np.isnan(a)}
    return bool(known) and max(known, key=lambda lr: known[lr]) in (min(accuracies), max(accuracies))


def reading(accuracy: float | None) -> str:
    """Return an accuracy as text, or the reason why there is none."""
    return "–" if accuracy is None else "diverged" if np.isnan(accuracy) else f"{accuracy:.2%}"


def introduction(found: Found) -> str:
    """Return the page's introduction: the claim, the limits of this study, and how the numbers were made."""
    (mean, largest), (lstm_mean, lstm_largest) = STEPS["mnist"], STEPS["shakespeare"]
    return f"""# dpasgd2019: rings against servers, in simulated time

**This study is being redone.** It is a simulation on one partition of the data, and its multi-task regulariser has
no measurable effect on the ring: see [What limits this study](#what-limits-this-study).

He et al. (2019) train personalised models along a ring, without a server. They report that this is about 20 % faster
than federated averaging at comparable accuracy, and announce experiments with delays, numbers of workers and
topologies that were not published. This page has these experiments.

Every worker is a user and takes part in every round. An accuracy is the mean over workers of each worker's own model on
its own test data, which is a fifth of the worker's data. With a server, a round is one pass over each worker's training
data, so the round lasts until the worker with the most data has finished. That is {mean} steps on average and {largest}
at most on MNIST, {lstm_mean} and {lstm_largest} on Shakespeare. On a ring every worker takes the same number of steps
in a round: {PERIOD["mnist"]} on MNIST and {PERIOD["shakespeare"]} on Shakespeare. By the clock *compute alone* this is
the whole difference between the two.

Time is simulated: 10 ms a step, links of 100 Mbit/s, a server link of 1 Gbit/s, and a delay for each message. Machines
are equal, or e times slower or faster for the whole run (*unequal*), or from round to round (*unsteady*); the last two
have delays of {CLOCKS["unequal machines"]["latency"]:g} s. {SEEDS} seeds draw the initial weights and the batches;
intervals are 95 %. Recorded: {effort(found)}.
Drawn by `fedloom reproduce dpasgd2019 --from-results --page docs/dpasgd2019.md`, which leaves out what is not recorded.
{meaning(found)}
{limits(found)}""".rstrip()


def coupling() -> Part:
    """Return the part that measures how strongly the regulariser acts on a ring and at a server."""
    every = {name: Series(f"coupling-{name}", experiment("mnist", method, every=100), effect)
             for name, method in (("ring", RING), ("server", SERVER))}  # fmt: skip

    def text(found: Found) -> str:
        lines = ["| | λ₁ | change | accuracy in the end |", "|---|---|---|---|"]
        for name, series in every.items():
            if kept := found.series.get(series.name):
                rows = zip(*(kept.columns[column] for column in ("lambda1", "change", "accuracy")), strict=True)
                lines += [f"| {name} | {strength:g} | {change:.2%} | {a:.2%} |" for strength, change, a in rows]
        about = (
            "Change of all output layers against λ₁ = 0, relative to their norm: MNIST by writer, 64 workers, 100 "
            "rounds, one seed. λ₂ is 0.0001. The weakest λ₁ shows how much training amplifies any difference."
        )
        return "\n".join([about, "", *lines]) if len(lines) > 2 else ""

    title = "How strongly output layers pull each other"
    return Part("coupling", title, series=lambda found: every.values(), text=text)  # noqa: ARG005


DPASGD2019 = Paper(
    "dpasgd2019",
    {
        **{part: compared(part) for part in SETS},
        "workers": workers,
        "topologies": topologies,
        "rates": rates,
        "coupling": coupling,
    },
    introduction,
)
