"""Table: named columns of numbers and texts, and the examples they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.order import grouped, within
from fedloom.data.partition.partition import counted
from fedloom.errors import DataError, UnknownName, require, whole

if TYPE_CHECKING:
    from jaxtyping import Float, Int

MOST = 1000  # different texts that a column may have and still be a feature


@dataclass(frozen=True)
class Texts:
    """A column of texts: for each row the number of its text, or -1 where the cell is missing."""

    codes: Int[np.ndarray, " rows"]
    names: Sequence[str]

    def sorted(self) -> Texts:
        """The same with its texts in order: by number where all are numbers, else by letter.

        >>> Texts(np.array([0, 1]), ["10", "9"]).sorted()
        Texts(codes=array([1, 0]), names=['9', '10'])
        """
        try:
            order = sorted(range(len(self.names)), key=lambda i: float(self.names[i]))
        except ValueError:
            order = sorted(range(len(self.names)), key=lambda i: self.names[i])
        place = np.empty(len(order) + 1, self.codes.dtype)
        place[order], place[-1] = np.arange(len(order)), -1
        return Texts(place[self.codes], [self.names[i] for i in order])


@dataclass(frozen=True)
class Table:
    """Named columns, all of one length: numbers with NaN where a cell is missing, or texts."""

    name: str
    columns: dict[str, Float[np.ndarray, " rows"] | Texts]

    def dataset(
        self,
        label: str,
        user: str | None = None,
        window: int | None = None,
        step: int | None = None,
    ) -> Dataset:
        """The rows as examples.

        Arguments:
            label: the column that holds the class.
            user: the column that says whose a row is.
            window: so many consecutive rows of one user and one class are one example (sensor data).
            step: rows from one window to the next; by default they do not overlap, so that no row is both trained and
                tested on.

        >>> height = np.array([1.0, np.nan], np.float32)
        >>> table = Table("toy", {"height": height, "cat": Texts(np.array([0, 1]), ["yes", "no"])})
        >>> data = table.dataset(label="cat")
        >>> data.columns["y"].tolist(), data.class_names
        ([1, 0], ['no', 'yes'])
        """
        for argument, name in (("label", label), ("user", user)):
            if name is not None and name not in self.columns:
                raise UnknownName(f"{argument} (a column of {self.name})", name, self.columns)
        require(label != user, "user", f"another column than the label {label}", user)
        require(step is None or window is not None, "step", "given with a window only", step)
        y = self._texts("label", label)
        self._check_label(label, y)
        users = self._texts("user", user) if user is not None else None
        features = [name for name in self.columns if name not in (label, user)]
        if not features:
            raise DataError(f"{self.name} has no column left to learn from")
        x, standardise, named = self._features(features)
        labels, whose, note = y.codes, users.codes if users else None, self._kinds(features)
        if window is not None:
            x, labels, whose, cut = windows(x, labels, whose, window, window if step is None else step)
            note = f"{note}; {cut}"
        return Dataset(
            name=self.name,
            columns={"x": x, "y": labels.astype(np.int32)},
            classes=len(y.names),
            train=np.arange(len(labels)),
            users=whose,
            user_names=users.names if users else (),
            class_names=y.names,
            standardise=standardise,
            features=named,
            note=note,
        )

    def _check_label(self, label: str, y: Texts) -> None:
        """A label is one of a few classes."""
        rows, classes = len(y.codes), len(y.names)
        if rows >= 20 and 2 * classes > rows:
            raise DataError(f"column {label} of {self.name} is no label: {classes:,} different values in {rows:,} rows")

    def _kinds(self, features: Sequence[str]) -> str:
        """What the features are, in a few words."""
        texts = {name: len(c.names) for name in features if isinstance(c := self.columns[name], Texts)}
        named = ", ".join(f"{name} ({many:,} texts)" for name, many in list(texts.items())[:6])
        more = ", …" if len(texts) > 6 else ""
        numbers = len(features) - len(texts)
        told = counted(numbers, "column of numbers", "columns of numbers")
        return told + (f", {len(texts):,} of texts: {named}{more}" if texts else "") + self._gaps(features)

    def _gaps(self, features: Sequence[str]) -> str:
        """How many numbers are missing, and in which columns; one that has none at all is an error."""
        columns = {name: c for name in features if not isinstance(c := self.columns[name], Texts)}
        gaps = {name: int(np.isnan(c).sum()) for name, c in columns.items()}
        for name, many in gaps.items():
            if many and many == len(columns[name]):
                raise DataError(f"column {name} of {self.name} has no number at all: drop it")
        short = [name for name, many in gaps.items() if many]
        if not short:
            return ""
        named = ", ".join(short[:6]) + (", …" if len(short) > 6 else "")
        cells = counted(sum(gaps.values()), "missing cell", "missing cells")
        return f"; {cells}, in {named}, filled with the mean"

    def _texts(self, argument: str, name: str) -> Texts:
        """A column as texts, none of them missing."""
        column = self.columns[name]
        if not isinstance(column, Texts):
            values, codes = np.unique(column, return_inverse=True)
            column = Texts(np.where(np.isnan(column), -1, codes), [f"{value:.9g}" for value in values])
        if (column.codes < 0).any():
            row = int(np.argmax(column.codes < 0)) + 1
            raise DataError(f"row {row} of {self.name} has no {argument}: column {name} is empty there")
        return column.sorted()

    def _features(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """The features of every row, texts as one column a text (all 0 where missing), which are numbers, and what they
        are called.
        """
        parts, numbers, called = [], [], []
        for name in names:
            column = self.columns[name]
            if not isinstance(column, Texts):
                parts.append(column[:, None])
                numbers.append(True)
                called.append(name)
                continue
            if len(column.names) > MOST:
                raise DataError(
                    f"column {name} of {self.name} has {len(column.names):,} different texts, more than {MOST:,}: "
                    "drop it, or make it a number"
                )
            texts = column.sorted()
            parts.append((texts.codes[:, None] == np.arange(len(texts.names))).astype(np.float32))
            numbers += [False] * len(texts.names)
            called += [f"{name}={text}" for text in texts.names]
        return np.concatenate(parts, axis=1, dtype=np.float64), np.array(numbers), called


def windows(
    x: Float[np.ndarray, "rows features"],
    labels: Int[np.ndarray, " rows"],
    users: Int[np.ndarray, " rows"] | None,
    window: int,
    step: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, str]:
    """Windows of consecutive rows of one user with one label; what is left of a run at its end is left out.

    >>> labels = np.array([0, 0, 0, 0, 0, 1, 1])
    >>> cut, y, _, note = windows(np.arange(7.0)[:, None], labels, None, window=2, step=2)
    >>> cut[..., 0].tolist(), y.tolist(), note
    ([[0.0, 1.0], [2.0, 3.0], [5.0, 6.0]], [0, 0, 1], '3 windows of 2 rows; 1 of 7 rows in none')
    """
    whole("window", window, 1)
    whole("step", step, 1)
    if users is not None:
        order = grouped(users, int(users.max(initial=0)) + 1)
        x, labels, users = x[order], labels[order], users[order]
    breaks = labels[1:] != labels[:-1]
    if users is not None:
        breaks |= users[1:] != users[:-1]
    first = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    lengths = np.diff(first, append=len(labels))
    many = np.where(lengths >= window, (lengths - window) // step + 1, 0)
    if not many.any():
        raise DataError(f"no user has {window:,} rows of one class in a row: the most is {int(lengths.max()):,}")
    begin = np.repeat(first, many) + within(many) * step
    used = np.where(many > 0, (many - 1) * min(step, window) + window, 0).sum()
    note = f"{len(begin):,} windows of {window:,} rows; {len(labels) - int(used):,} of {len(labels):,} rows in none"
    if step < window:
        note += "; windows overlap: only a temporal split keeps most rows from being both trained and tested on"
    return x[begin[:, None] + np.arange(window)], labels[begin], users[begin] if users is not None else None, note
