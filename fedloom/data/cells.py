"""Cells: what a cell of a table holds: nothing, a number or a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = frozenset({"", "?", "nan", "na", "n/a", "null", "#n/a", "<na>"})
"""Cells, in lower case, that mean a missing value."""
MISSING_NUMBER = MISSING | {"none"}
"""The same in a column of numbers or dates; in a column of texts, ``none`` may be a category."""
MISSING_TEXT = frozenset({"", "?", "nan"})
"""The same in a column that the user calls categorical, in which ``NA`` may be a category."""
SYMBOLS = "%$€£¥"
"""Characters before or after a number that say what it counts."""
PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?|nan", re.IGNORECASE | re.ASCII)
GROUPED = re.compile(r"[+-]?\d{1,3}(?P<sign>[,.' \u00a0\u202f])\d{3}((?P=sign)\d{3})*([.,]\d+)?", re.ASCII)
HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+|(?=.*[a-fA-F])(?=.*\d)[0-9a-fA-F]{6,}(-[0-9a-fA-F]{4,})*", re.ASCII)


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Arguments:
        decimal: the character before decimals.
        thousands: the character between groups of three digits; empty: none.
        symbol: the character before or after every number (``%``, ``$``, …); empty: none.

    >>> NumberFormat(decimal=",", thousands=".").parse("1.234,5")
    1234.5
    >>> NumberFormat(symbol="%").parse("12.5 %")
    12.5
    """

    decimal: str = "."
    thousands: str = ""
    symbol: str = ""

    def parse(self, cell: str) -> float:
        """Return the number in a cell.

        Raises:
            ValueError: the cell holds no number of this form.
        """
        text = cell.strip()
        if self.symbol:
            text = self._without_symbol(text)
        if self.thousands and self.thousands in text:
            whole = text.split(self.decimal)[0]
            match = GROUPED.fullmatch(whole)
            if not match or match["sign"] != self.thousands:
                raise ValueError(cell)
            text = text.replace(self.thousands, "")
        if self.decimal != ".":
            if "." in text:
                raise ValueError(cell)
            text = text.replace(self.decimal, ".")
        if not PLAIN.fullmatch(text):
            raise ValueError(cell)
        return float(text)

    def _without_symbol(self, text: str) -> str:
        """Remove the symbol, which may stand on one side and between a sign and the number."""
        sign, rest = (text[0], text[1:].strip()) if text[:1] in ("-", "+") else ("", text)
        if rest.startswith(self.symbol) == rest.endswith(self.symbol):
            raise ValueError(text)
        return sign + rest.removeprefix(self.symbol).removesuffix(self.symbol).strip()

    def fits(self, cell: str) -> bool:
        """Return whether a cell holds a number of this form."""
        try:
            self.parse(cell)
        except ValueError:
            return False
        return True


def is_missing(cell: str) -> bool:
    """Return whether a cell of a column of numbers or dates means a missing value."""
    return cell.strip().lower() in MISSING_NUMBER


def held(cells: Sequence[str]) -> list[str]:
    """Return the cells that hold something, without the spaces around them."""
    return [cell.strip() for cell in cells if not is_missing(cell)]


def are_mostly(fitting: int, cells: Sequence[str]) -> bool:
    """Return whether more than half of some cells fit."""
    return 2 * fitting > len(cells)
