"""Identifiers: find columns that say which row or which person it is, from which a model learns nothing general."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.texts import Texts

if TYPE_CHECKING:
    from jaxtyping import Float

NAMELESS = re.compile(r"column \d+|Unnamed: \d+(_level_\d+)?")
"""What a column is called whose header is empty, here and by pandas."""
ENTITIES = {
    "user", "client", "patient", "subject", "participant", "person", "individual", "customer", "respondent",
    "volunteer", "student", "member",
}  # fmt: skip
IDS = {"id", "ids", "uuid", "guid", "identifier"}
FILLERS = IDS | {"no", "nr", "num", "number", "code", "name", "key", "index", "hash"}
ROWS = 20  # with fewer rows, different whole numbers show nothing
DIFFERENT = 10  # texts from which a column of few rows each is suspect
FEW = 5  # rows on average for which one text stands
RUN = 10  # rows on average that stand together for one whole number
EXACT = 2.0**53  # whole numbers beyond which float64 skips some


def is_nameless(name: str) -> bool:
    """Return whether a column has no name of its own.

    >>> is_nameless("Unnamed: 0"), is_nameless("age")
    (True, False)
    """
    return NAMELESS.fullmatch(name) is not None


def names_an_owner(name: str) -> bool:
    """Return whether a column's name says that it identifies a person, a client or a row.

    >>> [name for name in ("user", "Patient_ID", "subjectId", "id", "client type", "valid") if names_an_owner(name)]
    ['user', 'Patient_ID', 'subjectId', 'id']
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    parts = [part for part in re.split(r"[\W_]+", words.lower()) if part and not part.isdigit()]
    if not parts:
        return False
    if parts[-1] in IDS:
        return True
    joined = {entity + ending for entity in ENTITIES for ending in ("s", "id", "ids", "no", "name")} | ENTITIES
    return any(part in joined for part in parts) and all(part in joined | FILLERS for part in parts)


def reason(name: str, column: Float[np.ndarray, " rows"] | Texts) -> str:
    """Return why a column looks like an identifier, in words that follow its name; nothing if it does not.

    >>> reason("no", np.arange(1.0, 31.0))
    'counts the rows (1, 2, 3, …)'
    """
    found = _of_texts(column) if isinstance(column, Texts) else _of_numbers(column)
    return found or ("has the name of an identifier" if names_an_owner(name) else "")


def counts_rows(values: Float[np.ndarray, " rows"]) -> bool:
    """Return whether values go up by one from row to row, apart from a tenth of the rows."""
    return len(values) > 1 and bool((np.diff(values) == 1).mean() >= 0.9)


def are_row_names(values: Float[np.ndarray, " rows"]) -> bool:
    """Return whether values are whole numbers, no two of them alike."""
    whole = bool((np.isfinite(values) & (values == np.floor(values))).all())
    return whole and len(np.unique(values)) == len(values)


def _of_texts(column: Texts) -> str:
    used = column.codes[column.codes >= 0]
    texts = len(np.unique(used))
    if len(used) < ROWS or texts < DIFFERENT or texts * FEW < len(used):
        return ""
    return f"holds {texts:,} different texts in {len(used):,} rows (such as {column.names[int(used[0])]!r})"


def _of_numbers(column: Float[np.ndarray, " rows"]) -> str:
    values = column[~np.isnan(column)]
    if len(values) < ROWS // 2 or not (values == np.floor(values)).all():
        return ""
    if counts_rows(values):
        shown = ", ".join(f"{value:.0f}" for value in values[:3])
        return f"counts the rows ({shown}, …)"
    if len(values) < ROWS:
        return ""
    if np.abs(values).max() >= EXACT:
        return f"holds whole numbers of more than 15 digits (such as {values[0]:.0f}), which are not told apart exactly"
    different = len(np.unique(values))
    if different == len(values):
        return f"holds a different whole number in each of {len(values):,} rows (such as {values[0]:.0f})"
    runs = 1 + int(np.count_nonzero(np.diff(values)))
    if runs == different >= DIFFERENT and different * RUN >= len(values):
        return f"holds {different:,} whole numbers, each in a few neighbouring rows (such as {values[0]:.0f})"
    return ""


def advice(name: str, has_user: bool) -> str:
    """Return what to type about a column that looks like an identifier."""
    user = "" if has_user else f"--user {name} if it says whose a row is, "
    return f"{user}--drop {name} to leave it out, or --numeric {name} or --categorical {name} if it is a feature"
