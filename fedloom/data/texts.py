"""Texts: a column of texts, with each text written in one way."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.cells import MISSING, MISSING_TEXT
from fedloom.data.name_order import name_order
from fedloom.data.partition.partition import counted
from fedloom.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Int

WHOLE = re.compile(r"[+-]?\d+([.]0*)?", re.ASCII)
CASES = ("ask", "same", "different")


@dataclass(frozen=True)
class Texts:
    """A column of texts: for each row the number of its text, or -1 where the cell is missing."""

    codes: Int[np.ndarray, " rows"]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def missing(self) -> int:
        """How many cells are missing."""
        return int((self.codes < 0).sum())

    def sorted(self) -> Texts:
        """Return the same with its texts in order: by number if all are numbers, else by letter.

        >>> Texts(np.array([0, 1]), ["10", "9"]).sorted()
        Texts(codes=array([1, 0]), names=['9', '10'])
        """
        order = name_order(self.names)
        place = np.empty(len(order) + 1, self.codes.dtype)
        place[order], place[-1] = np.arange(len(order)), -1
        return Texts(place[self.codes], [self.names[i] for i in order])

    def normalised(self, where: str, case: str = "ask", *, exact: bool = False, decimal: str = ".") -> Texts:
        """Return the same with each text written in one way.

        Spaces around a text go, ``1.0`` becomes ``1``, and the two Unicode forms of é become one (NFC). Cells such as
        ``NA`` are missing. Texts that are not used go.

        Arguments:
            where: what to call the column in an error.
            case: texts that differ in capitals only are the ``same``, ``different``, or refused (``ask``).
            exact: whether ``NA`` and ``null`` are texts like others.
            decimal: the character before decimals.

        Raises:
            DataError: two texts differ in capitals only, and ``case`` is ``ask``.

        >>> Texts(np.array([0, 1, 2]), ["1.0", " 1", "NA"]).normalised("toy")
        Texts(codes=array([ 0,  0, -1]), names=['1'])
        """
        names = [_spelled(name, decimal) for name in self.names]
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(names)).tolist()
        absent = MISSING_TEXT if exact else MISSING
        used = [n if c and n.lower() not in absent else None for n, c in zip(names, counts, strict=True)]
        if case != "different":
            used = self._merged(used, counts, where, case)
        kept = list(dict.fromkeys(name for name in used if name is not None))
        number: dict[str | None, int] = {name: i for i, name in enumerate(kept)}
        place = np.array([*(number.get(name, -1) for name in used), -1], self.codes.dtype)
        return Texts(place[self.codes], kept)

    def _merged(self, names: list[str | None], counts: list[int], where: str, case: str) -> list[str | None]:
        """Give texts that differ in capitals only the spelling that most rows have."""
        alike: dict[str, dict[str, int]] = {}
        for name, count in zip(names, counts, strict=True):
            if name is not None:
                spelled = alike.setdefault(name.casefold(), {})
                spelled[name] = spelled.get(name, 0) + count
        several = [spelled for spelled in alike.values() if len(spelled) > 1]
        if several and case == "ask":
            shown = " and ".join(f"{name!r} ({counted(count, 'row', 'rows')})" for name, count in several[0].items())
            raise DataError(
                f"{where} has texts that differ in capitals only, {shown}: say --case same if they mean the same, or "
                "--case different"
            )
        best = {key: max(spelled, key=lambda name: spelled[name]) for key, spelled in alike.items()}
        return [None if name is None else best[name.casefold()] for name in names]


def alike_but_for_capitals(names: Sequence[str]) -> list[str]:
    """Return the first texts that differ in capitals only; nothing if there are none.

    >>> alike_but_for_capitals(["no", "Yes", "yes"])
    ['Yes', 'yes']
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.casefold(), []).append(name)
    return next((several for several in alike.values() if len(several) > 1), [])


def _spelled(text: str, decimal: str) -> str:
    """Return a text in its one spelling."""
    name = unicodedata.normalize("NFC", text.strip())
    pointed = name.replace(decimal, ".")
    if not WHOLE.fullmatch(pointed):
        return name
    whole = pointed.split(".")[0].removeprefix("+")
    return "0" if whole == "-0" else whole
