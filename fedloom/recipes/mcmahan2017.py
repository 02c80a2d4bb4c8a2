"""McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data".

Table 1: rounds to 97 % (2NN, E = 1) and 99 % (CNN, E = 5) for a share C of clients and batches of B, IID and shards.
Table 2: more and more local work, for the CNN on MNIST and the LSTM on Shakespeare.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from fedloom.data import shakespeare
from fedloom.recipes.cell import Cell
from fedloom.runs.experiment import Experiment

PUBLISHED = Path(__file__).parent / "published" / "mcmahan2017.json"
RATES = {("2nn", 10): 0.1, ("2nn", None): 0.464, ("cnn", 10): 0.1, ("cnn", 50): 0.215, ("cnn", None): 0.215,
         ("lstm", 10): 2.15, ("lstm", 50): 4.64, ("lstm", None): 10.0}  # fmt: skip
"""Model and batch size → a learning rate to begin with."""
LONGEST = {"2nn": 3000, "cnn": 1000}  # rounds where the paper gives none


@cache
def published() -> dict[str, Any]:
    """The published numbers."""
    content: dict[str, Any] = json.loads(PUBLISHED.read_text())
    return content


def mcmahan2017(part: str) -> list[Cell]:
    """The cells of a part: table1 or table2.

    >>> len(mcmahan2017("table1")), mcmahan2017("table1")[0].name
    (40, 'table1-2nn-iid-C0-Ball')
    """
    return {"table1": table1, "table2": table2}[part]()


def table1() -> list[Cell]:
    """All forty cells of Table 1, also those the paper leaves blank."""
    cells = []
    for model, about in published()["table1"].items():
        for c in about["cells"]:
            name = f"table1-{model}-{c['partition']}-C{c['C']:g}-B{c['B'] or 'all'}"
            numbers = {who: c[who] for who in ("paper", "hartoyo") if who in c}
            cells.append(cell(name, model, c["partition"], c["C"], about["E"], c["B"], about["target"], numbers))
    return cells


def table2() -> list[Cell]:
    """The rows of Table 2: the CNN on MNIST, IID and shards, and the LSTM on Shakespeare, IID and by role."""
    cells = []
    for model, kinds in (("cnn", ("iid", "shards")), ("lstm", ("iid", "by_role"))):
        about = published()["table2"][model]
        for row in about["rows"]:
            for kind in kinds:
                partition = "natural" if kind == "by_role" else kind
                name = f"table2-{model}-{partition}-E{row['E']}-B{row['B'] or 'all'}"
                numbers = {"paper": row[kind]}
                if f"hartoyo_{kind}" in row:
                    numbers["hartoyo"] = row[f"hartoyo_{kind}"]
                cells.append(cell(name, model, partition, about["C"], row["E"], row["B"], about["target"], numbers))
    return cells


def cell(
    name: str,
    model: str,
    partition: str,
    fraction: float,
    epochs: int,
    batch_size: int | None,
    target: float,
    numbers: dict[str, float | None],
) -> Cell:
    """A cell on MNIST with 100 clients, or on Shakespeare with as many as there are roles. It may take half as many
    rounds again as the paper's.
    """
    paper = numbers.get("paper")
    rounds = int(1.5 * paper) + 10 if paper else LONGEST[model]
    every = 1 if rounds <= 300 else 2 if rounds <= 1000 else 5
    roles = len(shakespeare().user_names) if partition == "iid" else 100  # by role, clients are who there is
    experiment = Experiment(
        data="shakespeare" if model == "lstm" else "mnist",
        partition=partition,
        clients=roles if model == "lstm" else 100,
        model=model,
        fraction=fraction,
        epochs=epochs,
        batch_size=batch_size,
        target=target,
        rounds=-(-rounds // every) * every,
        every=every,
        evaluate="test",
    )
    return Cell(name, experiment, RATES[model, batch_size], numbers)
