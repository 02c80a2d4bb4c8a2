"""Users: the metrics of each client of a round, before and after its work.

| measure | model | test examples | measured where |
|---|---|---|---|
| ``before_accuracy`` | as the client was sent it | the client's own | clients have test examples |
| ``after_accuracy`` | after the client's work | the client's own | clients have test examples |
| ``global_before_accuracy`` | as the client was sent it | everybody's | all test examples belong to no client |
| ``global_accuracy`` | after the client's work | everybody's | always |

In a history the names begin with ``users_``. Numbers under different names are not comparable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedloom.direction import BUILT_IN, Better, Directions, direction_of
from fedloom.errors import UnknownName

WORST = 0.1  # the share of users that do worst
QUANTILES = (0.1, 0.5, 0.9)
MATRICES = ("mixing", "related")
NOTED = ("round", "client", "all_clients", *MATRICES)  # what is no measure
MOMENTS = {
    "before": "before fitting",
    "after": "after fitting",
    "global_before": "before fitting, on everybody's data",
    "global": "after fitting, on everybody's data",
}
"""What the name of a measure begins with → what was measured, for people."""


@dataclass(frozen=True)
class Users:
    """How each client did in the rounds that were evaluated, one entry a round.

    Arguments:
        columns: ``round``; ``all_clients``, how many there are; ``client``, the clients that took part in the round and
            were measured, and no others (-1 where fewer did, without a measure); each measure of them, such as
            ``before_accuracy`` and ``after_loss`` on their own test data, ``global_before_accuracy`` and
            ``global_accuracy`` on everybody's; where every user has its own model and they are not too many,
            ``mixing``, the matrix M, and ``related``, who was found to be like whom, between -1 and 1, with multi-task
            learning.

    >>> users = Users() + {"round": 1, "client": np.array([4, 2]), "after_accuracy": np.array([0.5, 1.0])}
    >>> users.last("after_accuracy").tolist()
    [0.5, 1.0]
    """

    columns: Mapping[str, tuple[np.ndarray, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns["round"]) if self.columns else 0

    def __add__(self, row: Mapping[str, Any]) -> Users:
        return Users({name: (*self.columns.get(name, ()), np.asarray(value)) for name, value in row.items()})

    @property
    def measures(self) -> tuple[str, ...]:
        """What was measured of each."""
        return tuple(name for name in self.columns if name not in NOTED)

    def column(self, name: str) -> tuple[np.ndarray, ...]:
        """A measure of each client, an array a round."""
        if name not in self.columns:
            raise UnknownName("what was measured of users", name, self.measures)
        return self.columns[name]

    def last(self, name: str) -> np.ndarray:
        """A measure of each client in the last round."""
        return self.column(name)[-1]

    def by_client(self, name: str, clients: int) -> np.ndarray:
        """A measure of every client in every round, (rounds, clients); NaN of those that did not take part."""
        table = np.full((len(self), clients), np.nan)
        for row, who, values in zip(table, self.column("client"), self.column(name), strict=True):
            row[who[who >= 0]] = values[who >= 0]
        return table

    def before(self, round: int) -> Users:
        """What was measured before a round."""
        many = sum(int(r) < round for r in self.columns.get("round", ()))
        return Users({name: values[:many] for name, values in self.columns.items()} if many else {})

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything as arrays, rounds along the first axis."""
        return {name: np.stack(values) for name, values in self.columns.items()}


def from_arrays(arrays: Mapping[str, np.ndarray]) -> Users:
    """Users from what :meth:`Users.arrays` gave."""
    return Users({name: tuple(values) for name, values in arrays.items()})


def moment_of(measure: str) -> str:
    """Return what the name of a measure begins with, of :data:`MOMENTS`; nothing if it begins with none of them.

    >>> moment_of("global_before_accuracy"), moment_of("global_loss"), moment_of("mixing")
    ('global_before', 'global', '')
    """
    return max((moment for moment in MOMENTS if measure.startswith(f"{moment}_")), key=len, default="")


def summary(row: Mapping[str, np.ndarray], directions: Directions = BUILT_IN) -> dict[str, float]:
    """Return statistics of each metric over a round's clients: the mean, quantiles and, where the metric has a
    direction, the mean over the tenth that does worst. A client without a finite value does not count;
    ``users_measured`` is how many clients do.

    >>> row = {"client": np.arange(10), "after_accuracy": np.arange(10) / 10}
    >>> found = summary(row)
    >>> found["users_after_accuracy"], found["users_after_accuracy_worst"], found["users_after_accuracy_q50"]
    (0.45, 0.0, 0.45)
    """
    told: dict[str, float] = {}
    for name, values in row.items():
        real = values[np.isfinite(values)] if name not in NOTED else np.array([])
        if len(real):
            told["users_measured"] = max(told.get("users_measured", 0), len(real))
            told[f"users_{name}"] = float(real.mean())
            told |= {f"users_{name}_q{round(100 * q)}": float(np.quantile(real, q)) for q in QUANTILES}
            if better := direction_of(name, directions):
                told[f"users_{name}_worst"] = worst(real, better)
    return told


def worst(values: np.ndarray, better: Better) -> float:
    """Return the mean of a metric over the tenth of users that does worst, at least one.

    >>> worst(np.array([0.9, 0.2, np.nan, 0.5]), better="higher")
    0.2
    """
    real = np.sort(values[np.isfinite(values)])
    many = max(1, round(WORST * len(real)))
    return float((real[-many:] if better == "lower" else real[:many]).mean())


def measured_among(users: Users) -> str:
    """Return how many clients were measured in the last round, of how many.

    >>> measured_among(Users() + {"client": np.array([4, 2, -1]), "all_clients": np.int64(100)})
    '2 of 100 clients'
    """
    many = int((users.column("client")[-1] >= 0).sum())
    among = users.columns.get("all_clients")
    return f"{many:,} of {int(among[-1]):,} clients" if among else f"{many:,} clients"


def present(row: Mapping[str, np.ndarray], many: int) -> dict[str, np.ndarray]:
    """A round's entry in the order of clients, so many of them; if fewer took part, nobody is -1 and has no measures.

    >>> found = present({"client": np.array([-1, 4, 2]), "after_loss": np.array([9.0, 1.0, 3.0])}, 3)
    >>> found["client"].tolist(), found["after_loss"].tolist()
    ([2, 4, -1], [3.0, 1.0, nan])
    """
    client = row["client"]
    order = np.argsort(np.where(client >= 0, client, np.iinfo(np.int32).max), kind="stable")[:many]
    there = client[order] >= 0
    entry = {
        name: values if name in MATRICES else np.where(there, values[order], np.nan) for name, values in row.items()
    }
    return {**entry, "client": client[order]}
