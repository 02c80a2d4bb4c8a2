"""Windows: consecutive rows of a table as one example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.order import grouped, within
from fedloom.errors import DataError, whole

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def windows(
    x: Float[np.ndarray, "rows features"],
    labels: Int[np.ndarray, " rows"],
    users: Int[np.ndarray, " rows"] | None,
    window: int,
    step: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, str]:
    """Return windows of consecutive rows of one user with one label; rows at the end of a run that fill no window go.

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
