"""ReadAs on a terminal: a table of how each column of a file was read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from fedloom.data import FederatedData
from fedloom.data.read_as import ReadAs, lines


def tables(columns: Sequence[ReadAs]) -> list[Table]:
    """Return a table of columns, how each was read and an example; no table if the data has no named columns."""
    if not columns:
        return []
    shown = Table("column", "read as", "example", title="What was read", title_justify="left")
    for cells in lines(columns):
        shown.add_row(*map(Text, cells))
    return [shown]


def as_json(data: FederatedData) -> dict[str, list[dict[str, object]]]:
    """Return how each column was read, for ``--json``; nothing if the data has no named columns."""
    return {"read_as": [column.to_json() for column in data.read_as]} if data.read_as else {}
