"""Features: what the numbers of an example are called, and by what they were shifted and scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.partition.partition import Columns, counted
from fedloom.errors import DataError, require, warn

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

SHOWN = 6  # names that a message lists


@dataclass(frozen=True)
class Features:
    """The features of a table, along the last axis of ``x``: x = (value in the table - mean) / scale.

    Arguments:
        names: a column of numbers by its name, one text of a categorical column as ``column=text``.
        numbers: which are numbers; the others are 1 where the text stands, else 0.
        mean, scale: 0 and 1 for texts.
        columns: the column of the table that each feature is made of; empty: its name.
    """

    names: Sequence[str]
    numbers: Bool[np.ndarray, " features"]
    mean: Float[np.ndarray, " features"]
    scale: Float[np.ndarray, " features"]
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", list(self.columns or self.names))

    def __len__(self) -> int:
        return len(self.names)

    def to_json(self) -> dict[str, list[Any]]:
        """Return what another needs to have the same features."""
        arrays = {name: getattr(self, name).tolist() for name in ("numbers", "mean", "scale")}
        return {"names": list(self.names), "columns": list(self.columns), **arrays}

    def moved(self, x: Float[np.ndarray, "… mine"], to: Features, name: str) -> Float[np.ndarray, "… theirs"]:
        """Return examples with these features as another has them: in its order, by its mean and scale.

        A text that the other does not know becomes a missing one (0 in all features of its column), with a warning. A
        text that only the other knows is 0.

        Arguments:
            x: the examples.
            to: the features of the other, such as a server.
            name: what the data is called in errors.

        Raises:
            DataError: one of the two has a column that the other lacks, or reads it in another way.

        >>> mine, theirs = (of_json({"names": n, "columns": n, "numbers": [True, True], "mean": m, "scale": [1, 2]})
        ...                 for n, m in ((["a", "b"], [0, 10]), (["b", "a"], [0, 0])))
        >>> mine.moved(np.array([[3.0, 1.0]]), theirs, "toy").tolist()
        [[12.0, 1.5]]
        """
        self._check_columns(to, name)
        places = {feature: i for i, feature in enumerate(self.names)}
        unknown = [i for i, feature in enumerate(self.names) if feature not in set(to.names)]
        if unknown:
            told = _counted(self, x.reshape(-1, len(self)), unknown)
            warn(f"{name} has texts that the server does not know, {told}: they are read as missing")
        found = np.zeros((*x.shape[:-1], len(to)), np.float32)
        for j, feature in enumerate(to.names):
            if (i := places.get(feature)) is not None:
                found[..., j] = (x[..., i] * self.scale[i] + self.mean[i] - to.mean[j]) / to.scale[j]
        return found

    def _check_columns(self, to: Features, name: str) -> None:
        """Raise a :class:`DataError` unless both have the same columns, read in the same way."""
        mine, theirs = self._kinds(), to._kinds()
        for what, columns in (("lacks", theirs.keys() - mine.keys()), ("has", mine.keys() - theirs.keys())):
            if columns:
                others = ", ".join(f"`{column}`" for column in sorted(columns)[:SHOWN])
                more = ", …" if len(columns) > SHOWN else ""
                end = "which the server requires" if what == "lacks" else "which the server does not have (--drop)"
                raise DataError(f"{name} {what} the column {others}{more}, {end}")
        for column, kind in mine.items():
            if kind != theirs[column]:
                raise DataError(
                    f"the column `{column}` of {name} is read as {_told(kind)}, but by the server as "
                    f"{_told(theirs[column])}: say --categorical, --numeric or --dates alike"
                )

    def _kinds(self) -> dict[str, tuple[str, ...]]:
        """Return for each column the names of its features that are numbers, which depend on how it is read."""
        kinds: dict[str, tuple[str, ...]] = dict.fromkeys(self.columns, ())
        for column, name, is_number in zip(self.columns, self.names, self.numbers, strict=True):
            if is_number:
                kinds[column] = (*kinds[column], name.removeprefix(column).strip(" ()") or "a number")
        return kinds


def _told(kind: tuple[str, ...]) -> str:
    return ", ".join(kind) or "texts"


def without_unseen(
    name: str, columns: Columns, features: Features, train: Int[np.ndarray, " train"], *, is_shared: bool
) -> Columns:
    """Return the columns with texts that no training example has read as missing, after a warning that counts them.

    A weight that was never trained would otherwise decide about such an example.

    Arguments:
        name: what the data is called.
        columns: the examples, after their numbers were shifted and scaled.
        features: what the last axis of ``x`` holds.
        train: the examples of all clients that are trained on.
        is_shared: whether these are all clients of a run. The data of a single client stays as it is, because other
            clients of a run over the network may train on its texts.
    """
    x = columns["x"]
    texts = np.flatnonzero(~np.asarray(features.numbers))
    unseen = [int(i) for i in texts if not x[train, ..., i].any() and x[..., i].any()]
    if not unseen:
        return columns
    told = _counted(features, x.reshape(-1, x.shape[-1]), unseen)
    end = "they are read as missing" if is_shared else "a model trained on this data alone knows nothing of them"
    warn(f"{name} has texts that no training example has, {told}: {end}")
    if not is_shared:
        return columns
    known = x.copy()
    known[..., unseen] = 0
    return {**columns, "x": known}


def _counted(features: Features, x: Float[np.ndarray, "rows features"], places: Sequence[int]) -> str:
    """Return which texts these are, and how many rows have each."""
    shown = ", ".join(
        f"{features.names[i]} ({counted(int((x[:, i] != 0).sum()), 'row', 'rows')})" for i in places[:SHOWN]
    )
    return shown + (f" and {len(places) - SHOWN:,} more" if len(places) > SHOWN else "")


def of_json(told: Mapping[str, Any]) -> Features:
    """Return the features that another tells of, if they can be used."""
    names, columns = told["names"], told["columns"]
    numbers = np.asarray(told["numbers"], bool)
    mean, scale = (np.asarray(told[name], float) for name in ("mean", "scale"))
    alike = isinstance(names, list) and all(a.shape == (len(names),) for a in (numbers, mean, scale))
    alike = alike and isinstance(columns, list) and len(columns) == len(names)
    good = alike and bool(np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all())
    require(good, "the server's features", "names, and as many means and scales above 0", str(told)[:200])
    return Features(names, numbers, mean, scale, columns)
