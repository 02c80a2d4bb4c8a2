"""McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data".

Table 1: rounds to 97 % (2NN, E = 1) and 99 % (CNN, E = 5) for a share C of clients and batches of B, IID and shards.
Table 2: more and more local work, for the CNN on MNIST and the LSTM on Shakespeare.
Table 3: CIFAR-10 to 80, 82 and 85 %, by SGD, FedSGD and federated averaging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fedloom.recipes.above import above
from fedloom.recipes.again import again, doubts
from fedloom.recipes.cell import Cell, Outcome
from fedloom.recipes.comparison import total
from fedloom.recipes.figures import accuracies, between, depths, epochs, rates
from fedloom.recipes.hartoyo import hartoyo
from fedloom.recipes.interpolation import interpolated
from fedloom.recipes.layout import Entry, Grid
from fedloom.recipes.paper import Paper, effort
from fedloom.recipes.part import Found, Part, Picture
from fedloom.recipes.series import Series
from fedloom.recipes.setting import KINDS, PIXELS, SHORTEST, cell, published, settings1, settings2
from fedloom.recipes.tuning import wider
from fedloom.recipes.unsaid import how_large, inputs, precision, weights, why_pixels, why_weights
from fedloom.runs.experiment import Experiment

SGD_BATCH, IMAGES = 100, 50_000


def table1() -> Part:
    """Table 1: a half for each model."""
    entries = dict(settings1())
    grids = []
    for model, title in (("2nn", "2NN, E = 1, rounds to 97 %"), ("cnn", "CNN, E = 5, rounds to 99 %")):
        columns = [(partition, b) for partition in ("iid", "shards") for b in (None, 10)]
        rows = [
            (f"C = {c:g}", tuple(e for p, b in columns for s, e in entries.items()
                                 if (s.model, s.partition, s.fraction, s.batch_size) == (model, p, c, b)))
            for c in (0.0, 0.1, 0.2, 0.5, 1.0)
        ]  # fmt: skip
        grids.append(Grid(f"Table 1, {title}", tuple(f"{KINDS[p]}, B = {b or '∞'}" for p, b in columns), tuple(rows)))
    cells = tuple(cell(setting, entry.target) for setting, entry in entries.items())
    said = lambda found: paragraphs(above(grids, found), doubts(grids, found), why_pixels(found))  # noqa: E731
    return Part("table1", "Table 1: more clients in parallel", cells, tuple(grids), text=said)


def table2() -> Part:
    """Table 2: a half for each model."""
    entries = dict(settings2())
    grids = []
    for model, title in (
        ("cnn", "CNN, C = 0.1, rounds to 99 %"),
        ("lstm", "LSTM on Shakespeare, C = 0.1, rounds to 54 %"),
    ):
        mine = [(s, e) for s, e in entries.items() if s.model == model]
        rows = []
        for (s, first), (_, second) in zip(mine[::2], mine[1::2], strict=True):
            how = "FedSGD" if (s.epochs, s.batch_size) == (1, None) else "FedAvg"
            rows.append((f"{how}, E = {s.epochs}, B = {s.batch_size or '∞'}", (first, second)))
        heads = tuple(KINDS[s.partition] for s, _ in mine[:2])
        grids.append(Grid(f"Table 2, {title}", heads, tuple(rows)))
    cells = tuple(cell(setting, entry.target) for setting, entry in entries.items())

    def said(found: Found) -> str:
        told = above(grids, found), doubts(grids, found), why_weights(found), how_large(found)
        return paragraphs(*told)

    return Part("table2", "Table 2: more computation per client", cells, tuple(grids), text=said)


def table3() -> Part:
    """Table 3: CIFAR-10. A round of SGD is an epoch here, which the table counts as its 500 minibatch updates."""
    central = Experiment(data="cifar10", model="cifar-cnn", algorithm="central", batch_size=SGD_BATCH, evaluate="test")
    federated = central.replace(algorithm="fedavg", partition="iid", clients=100, fraction=0.1)
    ways = {
        "sgd": ("SGD, minibatch updates", IMAGES // SGD_BATCH, central, 0.1, (0.99, 0.98), 1),
        "fedsgd": ("FedSGD", 1, federated.replace(batch_size=None, every=20), 0.464, (0.9998, 0.9995), 1),
        "fedavg": (
            "FedAvg, E = 5, B = 50",
            1,
            federated.replace(epochs=5, batch_size=50),
            0.316,
            (0.9985, 0.999),
            0.5,
        ),
    }
    cells, rows = [], []
    for row in published()["table3"]["rows"]:
        title, unit, experiment, rate, decays, step = ways[row["algorithm"]]
        numbers = {target: row[f"{target:.2f}"] for target in (0.80, 0.82, 0.85)}
        reached = tuple(target for target, number in numbers.items() if number)
        until = experiment.replace(rounds=int(1.5 * numbers[reached[-1]] / unit), target=reached[-1])
        name = f"cifar-{row['algorithm']}"
        cells.append(Cell(name, until, rate, decays, reached, step=step))
        rows.append((title, tuple(Entry(name, target, {"paper": n}, unit) for target, n in numbers.items())))
    heads = tuple(f"{target:.0%}" for target in numbers)
    updates = f"A round of SGD is an epoch: {IMAGES // SGD_BATCH} of the updates that the table counts."
    said = lambda found: paragraphs(how_far(found), updates * ("cifar-sgd" in found.outcomes))  # noqa: E731
    grid = Grid("Table 3, CIFAR-10, rounds to an accuracy", heads, tuple(rows))
    return Part("table3", "Table 3: CIFAR-10", tuple(cells), (grid,), text=said)


def how_far(found: Found) -> str:
    """How near all settings of CIFAR-10's FedAvg come to the last target in the paper's rounds."""
    outcome = found.outcomes.get("cifar-fedavg")
    rounds = next(row["0.85"] for row in published()["table3"]["rows"] if row["algorithm"] == "fedavg")
    long = [t for t in outcome.trials if t.curve[-1][0] >= rounds] if outcome else []
    if not long:
        return ""
    best = [max(accuracy for round, accuracy in t.curve if round <= rounds) for t in long]
    return (
        f"FedAvg comes near its last target with every rate, and hardly further: the {len(long)} runs that were not "
        f"stopped before round {rounds:,}, of {len({t.setting for t in long})} pairs of a rate and a decay, have come "
        f"to {min(best):.2%} to {max(best):.2%} by then."
    )


def figure1() -> Part:
    """Figure 1: the loss between two models trained on different small sets."""
    e = Experiment(model="2nn", epochs=20, batch_size=50, lr=0.1, fraction=1.0, rounds=1, target=0.97)
    series = Series("figure1", e, interpolated, quick=True)

    def pictures(found: Found) -> Iterator[Picture]:
        if kept := found.series.get("figure1"):
            about = ("Figure 1. Two 2NNs, each trained on 600 images of its own (240 updates, B = 50, learning rate "
                     "0.1), averaged: the loss on all 60,000.")  # fmt: skip
            yield Picture("figure1", about, between(kept))

    return Part("figure1", "Figure 1: averaging two models", series=lambda found: (series,), pictures=pictures)  # noqa: ARG005


def figure2() -> Part:
    """Figure 2: test accuracy against rounds for the settings of Table 2."""
    part = table2()

    def pictures(found: Found) -> Iterator[Picture]:
        if figure := accuracies(part.cells, found.outcomes):
            about = (
                "Figure 2. Test accuracy against rounds, at the best learning rate of each setting, up to the target; "
                "the first of the three seeds of which the tables have the mean."
            )
            missing = lacking([c.name for c in part.cells if c.name not in found.outcomes])
            yield Picture("figure2", about + missing, figure)

    return Part("figure2", "Figure 2: accuracy against rounds", part.cells, pictures=pictures)


def figure3() -> Part:
    """Figure 3: training loss with more and more local epochs, at a fixed learning rate."""
    cnn = Experiment(model="cnn", inputs=PIXELS["cnn"], batch_size=10, fraction=0.1, target=None)
    lstm = cnn.replace(data="shakespeare", partition="natural", model="lstm", inputs="unit", lr=1.47)
    kinds = {"IID, η = 0.1": ("iid", 0.1), "shards, η = 0.0464": ("shards", 0.0464)}
    panels = {f"MNIST CNN, {about}": [(e, cnn.replace(partition=kind, lr=lr, epochs=e, rounds=min(60, 3000 // e)))
                                      for e in (1, 5, 20, 100)] for about, (kind, lr) in kinds.items()}  # fmt: skip
    panels["Shakespeare LSTM, by role, η = 1.47"] = [
        (e, lstm.replace(epochs=e, rounds=min(40, 300 // e))) for e in (1, 5, 20)
    ]
    named = {title: [(e, Series(f"figure3-{x.model}-{x.partition}-E{e}", x)) for e, x in lines]
             for title, lines in panels.items()}  # fmt: skip

    def text(found: Found) -> str:
        whole = {title: lines for title, lines in named.items() if all(s.name in found.series for _, s in lines)}
        return depths({title: [(e, found.series[s.name], s.experiment.rounds) for e, s in lines]
                       for title, lines in whole.items()})  # fmt: skip

    def pictures(found: Found) -> Iterator[Picture]:
        shown = {title: [(e, found.series[s.name]) for e, s in lines if s.name in found.series]
                 for title, lines in named.items()}  # fmt: skip
        shown = {title: lines for title, lines in shown.items() if lines}
        if shown:
            about = "Figure 3. Training loss with E local epochs a round; C = 0.1, B = 10."
            missing = lacking([s.name for s in every if s.name not in found.series])
            yield Picture("figure3", about + missing, epochs(shown))

    every = [s for lines in named.values() for _, s in lines]
    return Part("figure3", "Figure 3: many local epochs", series=lambda found: every, pictures=pictures, text=text)  # noqa: ARG005


def figure4() -> Part:
    """Figure 4: CIFAR-10, FedSGD against FedAvg."""
    part = table3()

    def pictures(found: Found) -> Iterator[Picture]:
        names = {"FedAvg": "cifar-fedavg", "FedSGD": "cifar-fedsgd"}
        known = {**found.unfinished, **found.outcomes}
        shown = {called: known[name] for called, name in names.items() if name in known}
        if shown:
            about = "Figure 4. CIFAR-10 at several learning rates; C = 0.1, for FedAvg E = 5 and B = 50."
            yield Picture("figure4", about, rates(shown, part.cells[0].targets))

    return Part("figure4", "Figure 4: CIFAR-10 against rounds", part.cells, pictures=pictures)


def lacking(names: Sequence[str]) -> str:
    """That a figure lacks something, if it does."""
    return f" Not recorded yet: {', '.join(f'`{name}`' for name in names)}." if names else ""


def paragraphs(*texts: str) -> str:
    """Those that say something."""
    return "\n\n".join(text for text in texts if text)


def at_edges(found: Found) -> str:
    """The cells whose best rate is at the edge of those that were tried, and for which of their targets."""
    parts = table1(), table2(), table3(), inputs(), weights(), precision()
    cells = {c.name: c for part in parts for c in part.cells if c.name in found.outcomes}
    edges = {name: [t for t in c.targets if is_at_edge(found.outcomes[name], t)] for name, c in cells.items()}
    names = [f"`{name}` for {' and '.join(f'{t:.0%}' for t in targets)}" for name, targets in edges.items() if targets]
    return f" (except for {', '.join(names)})" if names else ""


def is_at_edge(outcome: Outcome, target: float) -> bool:
    """Whether the best rate is the smallest or the largest of those that were tried."""
    return bool(wider([lr for lr, _ in outcome.settings], outcome.winner(target)[0]))


def introduction(found: Found) -> str:
    """Return the page's introduction: how numbers were made, how many agree, and what favours fedloom."""
    so_far = " So far, some cells have fewer seeds." if found.unfinished else ""
    grids = [grid for table in (table1(), table2(), table3()) for grid in table.grids]
    return f"""# mcmahan2017, reproduced

{total(grids, found.outcomes)}

A number is the rounds of communication until the best test accuracy so far crosses the target, interpolated between
evaluations. A run stops when it reaches its target, or after 1.5 times the paper's rounds (and at least {SHORTEST}
rounds for Tables 1 and 2), so no number can be far above 1.5 times the paper's.{so_far}

The learning rate of every cell is tuned on a grid with the ratio 10^(1/3), and 10^(1/6) for CIFAR-10's FedAvg. The grid
is widened while the best rate for the last target is at its edge{at_edges(found)}.
For CIFAR-10 the decay is tuned too. A number is the mean over three seeds at the best rate, ± its standard error (one
seed with `--quick`). Seeds draw weights, clients and batches; the data is partitioned once. A star marks training in
bfloat16. Brackets show how many times fewer rounds a cell takes than the first row.

What favours fedloom: the rate is chosen by the rounds that are reported, as in the paper. Where our number is above the
paper's (the smaller one, where both of its tables have the cell), more rates are tried, except for CIFAR-10: first a
finer grid around the best rate, and then, if the first seed takes up to 1.25 times the paper's rounds, every seed with
every rate near it. Numbers just below the paper's are therefore run again with new seeds ("Do numbers near the paper's
hold?", below). Where the paper is silent, the faster of the variants that were tried is used for the CNN and the LSTM:
the CNN sees pixels with mean 0 and deviation 1 (`--inputs standard`), and the LSTM's input weights and embedding are
drawn larger than libraries draw them. The 2NN sees pixels from 0 to 1, and CIFAR-10's network the inputs of its
tutorial. Other weights are drawn as by Glorot and Bengio (2010), CIFAR-10's as in its tutorial. The effect of other
choices is shown below as far as it is recorded.

{len(found.outcomes)} cells and {len(found.series)} curves are recorded: {effort(found)}. Runs side by side in one
program are counted once, programs that shared a device each with its whole time. Drawn by
`fedloom reproduce mcmahan2017 --from-results --page docs/mcmahan2017.md`. A – in a table marks what is not published or
not recorded."""


PARTS: dict[str, Callable[[], Part]] = {
    "table1": table1, "table2": table2, "table3": table3, "figure1": figure1, "figure2": figure2, "figure3": figure3,
    "figure4": figure4, "inputs": inputs, "weights": weights, "precision": precision,
    "again": lambda: again([table1(), table2()]),
    "hartoyo": lambda: hartoyo(table1(), table2(), published()),
}  # fmt: skip
"""Every table and figure."""
MCMAHAN2017 = Paper("mcmahan2017", PARTS, introduction)
