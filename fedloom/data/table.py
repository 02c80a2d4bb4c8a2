"""Table: named columns of numbers, texts and dates, and the examples they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.dataset import Dataset
from fedloom.data.dates import Dates
from fedloom.data.identifiers import advice, are_row_names, is_nameless, reason
from fedloom.data.labels import TASKS, UNLABELLED, check_classes, targets
from fedloom.data.partition.partition import counted
from fedloom.data.precision import warn_of_rounding
from fedloom.data.read_as import ReadAs
from fedloom.data.texts import CASES, Texts
from fedloom.data.windows import windows
from fedloom.errors import DataError, UnknownName, choose, require, warn

if TYPE_CHECKING:
    from jaxtyping import Float

    Column = Float[np.ndarray, " rows"] | Texts | Dates

MAX_TEXTS = 1000  # different texts that a column may have and still be a feature


@dataclass(frozen=True)
class Table:
    """Named columns of one length: numbers with NaN where a cell is missing, texts, or dates.

    Arguments:
        name: what the table is called.
        columns: the columns that are not dropped.
        numeric, categorical: columns that the user calls features, even if they look like identifiers; in a
            categorical one ``NA`` is a text.
        sources: for every column, also the dropped ones, how its cells are written (``%``) and its first cell.
        decimal: the character before decimals in texts.
    """

    name: str
    columns: Mapping[str, Column]
    numeric: frozenset[str] = frozenset()
    categorical: frozenset[str] = frozenset()
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    decimal: str = "."

    def dataset(
        self,
        label: str,
        user: str | None = None,
        window: int | None = None,
        step: int | None = None,
        *,
        task: str = "auto",
        case: str = "ask",
        unlabelled: str = "error",
    ) -> Dataset:
        """Return the rows as examples.

        Arguments:
            label: the column that is predicted.
            user: the column that says whose a row is.
            window: so many consecutive rows of one user and one class are one example (sensor data).
            step: rows from one window to the next; by default they do not overlap, so that no row is both trained and
                tested on.
            task: labels are classes (``classification``) or numbers (``regression``); ``auto``: classes, but numbers
                that do not look like classes are refused.
            case: texts that differ in capitals only are the ``same``, ``different``, or refused (``ask``).
            unlabelled: rows without a label are an ``error``, or ``skip`` them.

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
        for argument, value, choices in (
            ("task", task, TASKS),
            ("case", case, CASES),
            ("unlabelled", unlabelled, UNLABELLED),
        ):
            choose(argument, value, dict.fromkeys(choices))
        need = "left alone with --task regression: the rows of a window share one class"
        require(window is None or task != "regression", "window", need, window)
        table = self._without_row_names(label, user)._normalised(case, user)
        return table._examples(label, user, window, step, task, unlabelled)

    def _examples(
        self, label: str, user: str | None, window: int | None, step: int | None, task: str, unlabelled: str
    ) -> Dataset:
        features = [name for name in self.columns if name not in (label, user)]
        y, class_names = self._labels(label, task)
        lacking = np.isnan(y) if task == "regression" else y < 0
        if unlabelled == "error":
            skip = "correct the file, or leave such rows out with --unlabelled skip"
            skip += "" if task == "regression" else f"; --categorical {label} makes NA a class"
            self._check_complete("label", label, lacking, skip)
        users = self._users(user)
        if not features:
            raise DataError(f"{self.name} has no column left to learn from")
        self._check_identifiers(features, user is not None)
        x, is_number, names, sources = self._features(features)
        whose, notes = (users.codes if users else None), [self._gaps(features)]
        if window is not None:
            x, y, whose, cut = windows(x, y, whose, window, window if step is None else step)
            lacking, notes = y < 0, [*notes, cut]
        elif lacking.any():
            notes.append(f"{int(lacking.sum()):,} of {len(y):,} rows have no label and are left out")
        if lacking.any():
            x, y, whose = x[~lacking], y[~lacking], whose[~lacking] if whose is not None else None
        if not len(y):
            raise DataError(f"no row of {self.name} has a label in the column {label}")
        if task == "regression":
            warn_of_rounding(self.name, label, y)
        return Dataset(
            name=self.name,
            columns={"x": x, "y": y.astype(np.float32 if task == "regression" else np.int32)},
            classes=max(1, len(class_names)),
            train=np.arange(len(y)),
            users=whose,
            user_names=users.names if users else (),
            class_names=class_names,
            standardise=is_number,
            features=names,
            feature_columns=sources,
            note="; ".join(note for note in notes if note),
            read_as=tuple(self._read_as(label, user, task)),
        )

    def _without_row_names(self, label: str, user: str | None) -> Table:
        """Return the table without a nameless column that numbers the rows, after a warning."""
        kept, sources = dict(self.columns), dict(self.sources)
        for name, column in self.columns.items():
            if not is_nameless(name) or name in (label, user) or name in self.numeric | self.categorical:
                continue
            if isinstance(column, np.ndarray) and (np.isnan(column).all() or are_row_names(column)):
                what = "is empty" if np.isnan(column).all() else "numbers the rows"
                keep = f" (--numeric {name!r} to keep it)" if what == "numbers the rows" else ""
                warn(f"{name} of {self.name} has no name and {what}: it is left out{keep}")
                del kept[name]
                sources[name] = f"dropped: {what}", sources.get(name, ("", ""))[1]
                continue
            raise DataError(f"{name} of {self.name} has no name: name it in the header, or --drop {name!r}")
        return replace(self, columns=kept, sources=sources)

    def _normalised(self, case: str, user: str | None) -> Table:
        """Return the table with each text written in one way."""
        found = {}
        for name, column in self.columns.items():
            if isinstance(column, np.ndarray) and name == user:
                column = _as_texts(column)
            if isinstance(column, Texts):
                column = column.normalised(
                    f"column {name} of {self.name}", case, exact=name in self.categorical, decimal=self.decimal
                )
            found[name] = column
        return replace(self, columns=found)

    def _labels(self, name: str, task: str) -> tuple[np.ndarray, Sequence[str]]:
        """Return the labels of all rows, and the names of classes: numbers with NaN, or class numbers with -1."""
        column, where = self.columns[name], f"column {name} of {self.name}"
        if task == "regression":
            return targets(where, column), ()
        if isinstance(column, Dates):
            raise DataError(f"{where} holds dates, which are no classes: call it categorical if each is one")
        texts = column if isinstance(column, Texts) else _as_texts(column)
        check_classes(where, texts, self.decimal, is_stated=task == "classification" or name in self.categorical)
        ordered = texts.sorted()
        return ordered.codes, ordered.names

    def _users(self, name: str | None) -> Texts | None:
        if name is None:
            return None
        column = self.columns[name]
        texts = (column if isinstance(column, Texts) else _as_texts(np.asarray(column))).sorted()
        self._check_complete("user", name, texts.codes < 0, "correct the file")
        return texts

    def _check_complete(self, argument: str, name: str, lacking: np.ndarray, advice: str) -> None:
        rows = np.flatnonzero(lacking)
        if len(rows):
            many = f"{len(rows):,} rows have none" if len(rows) > 1 else "one row has none"
            raise DataError(
                f"row {rows[0] + 1} of {self.name} has no {argument}: column {name} is empty there, or holds a word "
                f"such as NA; {many} ({advice})"
            )

    def _check_identifiers(self, features: Sequence[str], has_user: bool) -> None:
        """Raise a :class:`DataError` for a column that looks like an identifier and that the user calls no feature."""
        for name in features:
            column = self.columns[name]
            if name in self.numeric | self.categorical or isinstance(column, Dates):
                continue
            if why := reason(name, column):
                raise DataError(
                    f"column {name} of {self.name} {why}, so a model would learn rows by heart: say "
                    f"{advice(name, has_user)}"
                )

    def _features(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
        """Return the features of every row, which of them are numbers, what each is called and whose column it is."""
        parts, numbers, called, sources = [], [], [], []
        for column in names:
            for name, values, is_number in self._parts(column):
                parts.append(values.astype(np.float64, copy=False)[:, None])
                numbers.append(is_number)
                called.append(name)
                sources.append(column)
        return np.concatenate(parts, axis=1, dtype=np.float64), np.array(numbers), called, sources

    def _parts(self, name: str) -> Iterator[tuple[str, np.ndarray, bool]]:
        """Yield the features of a column: a text is one feature, 0 where it does not stand."""
        column = self.columns[name]
        if isinstance(column, Dates):
            yield from column.features(name)
        elif isinstance(column, Texts):
            if len(column.names) > MAX_TEXTS:
                raise DataError(
                    f"column {name} of {self.name} has {len(column.names):,} different texts, more than "
                    f"{MAX_TEXTS:,}: --drop {name}, or make it a number"
                )
            texts = column.sorted()
            for i, text in enumerate(texts.names):
                yield f"{name}={text}", (texts.codes == i).astype(np.float32), False
        else:
            yield name, column, True

    def _gaps(self, features: Sequence[str]) -> str:
        """Return how many numbers are missing, and where; a column without any number is an error."""
        missing = {name: _missing(self.columns[name]) for name in features if not isinstance(self.columns[name], Texts)}
        for name, many in missing.items():
            if many and many == len(self.columns[name]):
                raise DataError(f"column {name} of {self.name} has no number at all: drop it (--drop {name})")
        short = [name for name, many in missing.items() if many]
        if not short:
            return ""
        named = ", ".join(short[:6]) + (", …" if len(short) > 6 else "")
        cells = counted(sum(missing.values()), "missing cell", "missing cells")
        return f"{cells}, in {named}, filled with the mean"

    def _read_as(self, label: str, user: str | None, task: str) -> Iterator[ReadAs]:
        for name in dict.fromkeys([*self.sources, *self.columns]):
            how, example = self.sources.get(name, ("", ""))
            column = self.columns.get(name)
            if column is None:
                yield ReadAs(name, how or "dropped", example)
                continue
            role = {label: "label, ", user: "user, "}.get(name, "")
            several = "classes" if name == label else "users" if name == user else "texts"
            if isinstance(column, Texts):
                kind = "" if role else "category, "
                many = counted(len(column.names), several.removesuffix("es" if name == label else "s"), several)
                yield ReadAs(name, f"{role}{kind}{many}", example, column.missing)
            elif isinstance(column, Dates):
                yield ReadAs(name, role + column.read_as, example, column.missing)
            elif role and task != "regression":
                values = len(np.unique(column[~np.isnan(column)]))
                yield ReadAs(name, f"{role}{values:,} {several}", example, _missing(column))
            else:
                yield ReadAs(name, f"{role}number{f' ({how})' if how else ''}", example, _missing(column))


def _as_texts(column: Float[np.ndarray, " rows"]) -> Texts:
    """Return a column of numbers as texts."""
    values, codes = np.unique(column, return_inverse=True)
    return Texts(np.where(np.isnan(column), -1, codes), [f"{value:.9g}" for value in values])


def _missing(column: Column) -> int:
    return int(np.isnan(column).sum()) if isinstance(column, np.ndarray) else column.missing
