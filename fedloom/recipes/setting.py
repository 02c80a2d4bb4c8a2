"""Setting: what tells the experiments of McMahan et al.'s Tables 1 and 2 from each other, and the cell of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fedloom.data import shakespeare
from fedloom.recipes.cell import Cell
from fedloom.recipes.layout import Entry
from fedloom.runs.experiment import Experiment

PUBLISHED = Path(__file__).parent / "published" / "mcmahan2017.json"
RATES = {("2nn", 10): 0.1, ("2nn", None): 0.464, ("cnn", 10): 0.1, ("cnn", 50): 0.215, ("cnn", None): 0.1,
         ("lstm", 10): 2.15, ("lstm", 50): 2.15, ("lstm", None): 2.15}  # fmt: skip
"""Model and batch size → a learning rate to begin with."""
LONGEST = {"2nn": 3000, "cnn": 800}  # rounds where the paper gives none
SHORTEST = 100  # rounds that any cell may take
PIXELS = {"2nn": "unit", "cnn": "standard", "lstm": "unit"}
"""Model → how pixels are scaled for the tables, where there are any."""
KINDS = {"iid": "IID", "shards": "shards", "natural": "by role"}


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
            missed = {"hartoyo": c["hartoyo_reached"]} if "hartoyo_reached" in c else {}
            yield setting, Entry(setting.name, about["target"], numbers, missed=missed)


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
