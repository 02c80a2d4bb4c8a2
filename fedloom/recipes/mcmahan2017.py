"""McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data".

Table 1: rounds to 97 % (2NN, E = 1) and 99 % (CNN, E = 5) for a share C of clients and batches of B, IID and shards.
Table 2: more and more local work, for the CNN on MNIST and the LSTM on Shakespeare.
Table 3: CIFAR-10 to 80, 82 and 85 %, by SGD, FedSGD and federated averaging.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from fedloom.data import shakespeare
from fedloom.recipes.again import again
from fedloom.recipes.cell import Cell, Trial
from fedloom.recipes.figures import between, epochs, rates, work
from fedloom.recipes.hartoyo import hartoyo
from fedloom.recipes.interpolation import interpolated
from fedloom.recipes.layout import Entry, Grid
from fedloom.recipes.paper import Paper, effort
from fedloom.recipes.part import Found, Part, Picture
from fedloom.recipes.series import Series
from fedloom.runs.experiment import Experiment

PUBLISHED = Path(__file__).parent / "published" / "mcmahan2017.json"
RATES = {("2nn", 10): 0.1, ("2nn", None): 0.464, ("cnn", 10): 0.1, ("cnn", 50): 0.215, ("cnn", None): 0.1,
         ("lstm", 10): 2.15, ("lstm", 50): 4.64, ("lstm", None): 4.64}  # fmt: skip
"""Model and batch size → a learning rate to begin with."""
LONGEST = {"2nn": 3000, "cnn": 400}  # rounds where the paper gives none
SHORTEST = 100  # rounds that any cell may take
PIXELS = {"2nn": "unit", "cnn": "standard", "lstm": "unit"}
"""Model → how pixels are scaled for the tables, where there are any."""
SCALES = {"unit": "0 to 1", "centred": "-1 to 1", "standard": "mean 0, deviation 1"}
KINDS = {"iid": "IID", "shards": "shards", "natural": "by role"}
SGD_BATCH, IMAGES = 100, 50_000


@dataclass(frozen=True)
class Setting:
    """What tells a cell of Tables 1 and 2 from the others."""

    model: str
    partition: str
    fraction: float
    epochs: int
    batch_size: int | None
    inputs: str
    precision: str = "float32"

    @property
    def name(self) -> str:
        """Of its record: the same experiment in two tables is run once."""
        name = f"{self.model}-{self.partition}-C{self.fraction:g}-E{self.epochs}-B{self.batch_size or 'all'}"
        name += f"-{self.inputs}" * (self.inputs != self.usual.inputs)
        return name + f"-{self.precision}" * (self.precision != "float32")

    @property
    def usual(self) -> Setting:
        """The setting of the tables that this is a variant of."""
        model = self.model.removesuffix("-plain")
        return replace(self, model=model, inputs=PIXELS[model], precision="float32")


Way = Callable[[Setting], Setting]


@cache
def published() -> dict[str, Any]:
    """The published numbers."""
    content: dict[str, Any] = json.loads(PUBLISHED.read_text())
    return content


def settings1() -> Iterator[tuple[Setting, Entry]]:
    """The forty settings of Table 1, also those the paper leaves blank."""
    for model, about in published()["table1"].items():
        for c in about["cells"]:
            setting = Setting(model, c["partition"], c["C"], about["E"], c["B"], PIXELS[model])
            numbers = {who: c[who] for who in ("paper", "hartoyo") if who in c}
            yield setting, Entry(setting.name, about["target"], numbers)


def settings2() -> Iterator[tuple[Setting, Entry]]:
    """The rows of Table 2: the CNN on MNIST, IID and shards, and the LSTM on Shakespeare, IID and by role."""
    for model, kinds in (("cnn", ("iid", "shards")), ("lstm", ("iid", "by_role"))):
        about = published()["table2"][model]
        for row in about["rows"]:
            for kind in kinds:
                partition = "natural" if kind == "by_role" else kind
                setting = Setting(model, partition, about["C"], row["E"], row["B"], PIXELS[model])
                numbers = {"paper": row[kind], "hartoyo": row.get(f"hartoyo_{kind}")}
                yield setting, Entry(setting.name, about["target"], numbers)


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
    return Part("table1", "Table 1: more clients in parallel", cells, tuple(grids), text=why_2nn)


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
    return Part("table2", "Table 2: more computation per client", cells, tuple(grids))


def table3() -> Part:
    """Table 3: CIFAR-10. A round of SGD is an epoch here, which the table counts as its 500 minibatch updates."""
    central = Experiment(data="cifar10", model="cifar-cnn", algorithm="central", batch_size=SGD_BATCH, evaluate="test")
    federated = central.replace(algorithm="fedavg", partition="iid", clients=100, fraction=0.1)
    ways = {
        "sgd": ("SGD, minibatch updates", IMAGES // SGD_BATCH, central, 0.1, (0.99, 0.98)),
        "fedsgd": ("FedSGD", 1, federated.replace(batch_size=None, every=20), 0.464, (0.9998, 0.9995)),
        "fedavg": (
            "FedAvg, E = 5, B = 50",
            1,
            federated.replace(epochs=5, batch_size=50),
            0.215,
            (0.9985, 0.999),
        ),
    }
    cells, rows = [], []
    for row in published()["table3"]["rows"]:
        title, unit, experiment, rate, decays = ways[row["algorithm"]]
        numbers = {target: row[f"{target:.2f}"] for target in (0.80, 0.82, 0.85)}
        reached = tuple(target for target, number in numbers.items() if number)
        until = experiment.replace(rounds=int(1.5 * numbers[reached[-1]] / unit), target=reached[-1])
        name = f"cifar-{row['algorithm']}"
        cells.append(Cell(name, until, rate, decays, reached, numbers[reached[-1]] / unit))
        rows.append((title, tuple(Entry(name, target, {"paper": n}, unit) for target, n in numbers.items())))
    heads = tuple(f"{target:.0%}" for target in numbers)
    grid = Grid("Table 3, CIFAR-10, rounds to an accuracy", heads, tuple(rows))
    return Part("table3", "Table 3: CIFAR-10", tuple(cells), (grid,))


def figure1() -> Part:
    """Figure 1: the loss between two models trained on different small sets."""
    e = Experiment(model="2nn", epochs=20, batch_size=50, lr=0.1, fraction=1.0, rounds=1)
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
    titles = {("cnn", "iid"): "MNIST CNN, IID", ("cnn", "shards"): "MNIST CNN, shards",
              ("lstm", "iid"): "Shakespeare LSTM, IID", ("lstm", "natural"): "Shakespeare LSTM, by role"}  # fmt: skip

    def pictures(found: Found) -> Iterator[Picture]:
        panels: dict[str, dict[tuple[int, str], Trial]] = {}
        targets = {}
        for c in part.cells:
            if outcome := found.outcomes.get(c.name):
                e, title = c.experiment, titles[c.experiment.model, c.experiment.partition]
                panels.setdefault(title, {})[e.epochs, str(e.batch_size or "all")] = outcome.chosen(c.targets[-1])[0]
                targets[title] = c.targets[-1]
        if panels:
            about = (
                "Figure 2. Test accuracy against rounds, at the best learning rate of each setting, up to the target."
            )
            yield Picture("figure2", about, work({t: panels[t] for t in titles.values() if t in panels}, targets))

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

    def pictures(found: Found) -> Iterator[Picture]:
        shown = {title: [(e, found.series[s.name]) for e, s in lines if s.name in found.series]
                 for title, lines in named.items()}  # fmt: skip
        shown = {title: lines for title, lines in shown.items() if lines}
        if shown:
            yield Picture(
                "figure3", "Figure 3. Training loss with E local epochs a round; C = 0.1, B = 10.", epochs(shown)
            )

    every = [s for lines in named.values() for _, s in lines]
    return Part("figure3", "Figure 3: many local epochs", series=lambda found: every, pictures=pictures)  # noqa: ARG005


def figure4() -> Part:
    """Figure 4: CIFAR-10, FedSGD against FedAvg."""
    part = table3()

    def pictures(found: Found) -> Iterator[Picture]:
        names = {"FedAvg": "cifar-fedavg", "FedSGD": "cifar-fedsgd"}
        shown = {called: found.outcomes[name] for called, name in names.items() if name in found.outcomes}
        if shown:
            about = "Figure 4. CIFAR-10 at several learning rates; C = 0.1, for FedAvg E = 5 and B = 50."
            yield Picture("figure4", about, rates(shown, part.cells[0].targets))

    return Part("figure4", "Figure 4: CIFAR-10 against rounds", part.cells, pictures=pictures)


def why_2nn(found: Found) -> str:
    """Why the 2NN takes fewer rounds than the paper's, if the experiment that shows it is recorded."""
    shown = {}
    for kind, paper in (("iid", 87), ("shards", 664)):
        for scaling in ("unit", "centred", "standard"):
            outcome = found.outcomes.get(Setting("2nn", kind, 0.1, 1, 10, scaling).name)
            rounds = outcome.rounds(0.97) if outcome else None
            if rounds is None:
                return ""
            shown[kind, scaling] = f"{rounds:.0f}"
        shown[kind, "paper"] = str(paper)
    iid, shards = ({s: shown[kind, s] for s in (*SCALES, "paper")} for kind in ("iid", "shards"))
    return (
        "A likely reason why the 2NN is faster here: how pixels are scaled, which the paper does not say and which "
        "alone moves the rounds several times over. At C = 0.1 and B = 10, with pixels "
        f"from -1 to 1 the same model, tuned on the same grid, takes {iid['centred']} rounds on IID data and "
        f"{shards['centred']} on shards (the paper: {iid['paper']} and {shards['paper']}); with pixels from 0 to 1, as "
        f"in the tables here, {iid['unit']} and {shards['unit']}; with mean 0 and deviation 1, {iid['standard']} and "
        f"{shards['standard']}."
    )


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
    entries = dict(settings1())
    chosen = [s for s in entries if s.batch_size == 10 and s.fraction == 0.1]
    ways = {f"pixels as {about}": partial(replace, inputs=scaling) for scaling, about in SCALES.items()}
    rows, cells = compared(entries, chosen, ways)
    heads = tuple(f"{s.model.upper()}, {KINDS[s.partition]}" for s in chosen)
    grid = Grid("Pixels scaled in three ways; C = 0.1, B = 10", heads, rows)
    return Part("inputs", "What the paper does not say: how pixels are scaled", cells, (grid,))


def weights() -> Part:
    """How weights are drawn, which the paper does not say: settings of Table 2 with an LSTM as libraries draw it, and
    with a CNN as in the tutorial that its layers are from, which had pixels from 0 to 1.
    """
    entries = dict(settings2())
    kinds = [("cnn", "iid"), ("cnn", "shards"), ("lstm", "natural")]
    chosen = [s for s in entries if (s.epochs, s.batch_size) == (1, 10) and (s.model, s.partition) in kinds]
    ways: dict[str, Way] = {
        "as in the tables": replace,
        "plain: an LSTM as libraries draw it, a CNN as TensorFlow's tutorial": plain,
    }
    rows, cells = compared(entries, chosen, ways)
    heads = tuple(f"{s.model.upper()}, {KINDS[s.partition]}" for s in chosen)
    grid = Grid("Weights drawn in two ways; C = 0.1, E = 1, B = 10", heads, rows)
    return Part("weights", "What the paper does not say: how weights are drawn", cells, (grid,))


def plain(setting: Setting) -> Setting:
    """The same with weights, and for a CNN pixels too, as was usual."""
    return replace(setting, model=f"{setting.model}-plain", inputs="unit")


def precision() -> Part:
    """Whether it matters that some cells were computed in bfloat16: settings of the tables computed so too."""
    entries = dict(settings1()) | dict(settings2())
    kinds = [("cnn", "iid", 0.1, 5, 10), ("cnn", "shards", 0.1, 5, 10), ("cnn", "iid", 0.5, 5, None),
             ("lstm", "natural", 0.1, 1, 10)]  # fmt: skip
    chosen = [s for s in entries if (s.model, s.partition, s.fraction, s.epochs, s.batch_size) in kinds]
    ways: dict[str, Way] = {"as in the tables": replace, "trained in bfloat16": partial(replace, precision="bfloat16")}
    rows, cells = compared(entries, chosen, ways)
    heads = tuple(f"{s.model.upper()}, {KINDS[s.partition]}, C = {s.fraction:g}, E = {s.epochs}, "
                  f"B = {s.batch_size or '∞'}" for s in chosen)  # fmt: skip
    grid = Grid("Trained in bfloat16, and as in the tables", heads, rows)
    return Part("precision", "Does it matter what it is computed in?", cells, (grid,))


def introduction(found: Found) -> str:
    """How the numbers came about."""
    return f"""# mcmahan2017, reproduced

Rounds of communication until the best test accuracy so far crosses the target, interpolated between evaluations. The
learning rate of every cell is tuned on a grid with the ratio 10^(1/3), widened while the best is at its edge, for
CIFAR-10 its decay too; the number is the mean over three seeds at the best rate (one, where it was to be quick). Seeds
draw weights, clients and batches; the data are dealt to the clients once. Where the number is above the paper's (the
smaller, where its tables have two), the search goes on, with a finer grid about the best rate and then with every seed
at every rate that got there, and ends when it is not. The rate is chosen by the rounds that are reported, as the paper
chose its own, so a number just below the paper's may owe that to the choice: such are run again with other seeds. A
star: trained in bfloat16. In brackets, how many times fewer than in the first row.

{len(found.outcomes)} cells and {len(found.series)} curves are recorded, what ran beside others counted in full:
{effort(found)}. Drawn by `fedloom reproduce mcmahan2017 --from-results --page docs/mcmahan2017.md`; what is not
recorded is shown as –."""


PARTS: dict[str, Callable[[], Part]] = {
    "table1": table1, "table2": table2, "table3": table3, "figure1": figure1, "figure2": figure2, "figure3": figure3,
    "figure4": figure4, "inputs": inputs, "weights": weights, "precision": precision,
    "again": lambda: again([table1(), table2()]),
    "hartoyo": lambda: hartoyo(table1(), table2(), published()),
}  # fmt: skip
"""Every table and figure."""
MCMAHAN2017 = Paper("mcmahan2017", PARTS, introduction)


@cache
def told(name: str) -> list[int]:
    """The rounds that the paper gives for a setting: Tables 1 and 2 have some in common, and differ there."""
    given = [e.published.get("paper") for source in (settings1, settings2) for _, e in source() if e.cell == name]
    return [int(n) for n in given if n]


def cell(setting: Setting, target: float) -> Cell:
    """A cell on MNIST with 100 clients, or on Shakespeare with as many as there are roles. It may take half as many
    rounds again as the paper's, and a hundred in any case; a variant of it twice as many as that.
    """
    paper, model = told(setting.usual.name), setting.usual.model
    rounds = max(int(1.5 * max(paper)) + 10, SHORTEST) if paper else LONGEST[model]
    rounds *= 1 if setting == setting.usual else 2
    # An LSTM's curves are smooth, and its test takes as long as a round.
    every = max(1, rounds // 50) if model == "lstm" else 1
    roles = len(shakespeare().user_names) if setting.partition == "iid" and model == "lstm" else 100
    experiment = Experiment(
        data="shakespeare" if model == "lstm" else "mnist",
        partition=setting.partition,
        clients=roles,  # by role, clients are who there is
        model=setting.model,
        fraction=setting.fraction,
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        inputs=setting.inputs,
        precision=setting.precision,
        target=target,
        rounds=-(-rounds // every) * every,
        every=every,
        evaluate="test",
    )
    goal = min(paper) if paper and setting == setting.usual else None
    return Cell(setting.name, experiment, RATES[model, setting.batch_size], targets=(target,), goal=goal)
