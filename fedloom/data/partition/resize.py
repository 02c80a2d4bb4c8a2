"""Resize: move examples between clients so that all have the sizes they should."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.order import grouped, raised, shuffled, within
from fedloom.data.partition.partition import Deal, counted
from fedloom.errors import DataError

if TYPE_CHECKING:
    from jaxtyping import Int


def resized(deal: Deal, sizes: Int[np.ndarray, " clients"], rng: np.random.Generator) -> Deal:
    """Clients that have too many examples give random ones, and clients that have too few receive them.

    >>> deal = resized(Deal(np.arange(6), np.array([5, 1])), np.array([3, 3]), np.random.default_rng(0))
    >>> deal.rows.tolist(), deal.sizes.tolist()
    ([3, 2, 4, 5, 1, 0], [3, 3])
    """
    rows = deal.rows[shuffled(deal.sizes, rng)]
    kept = within(deal.sizes) < np.repeat(sizes, deal.sizes)
    given = rng.permutation(rows[~kept])
    clients = np.arange(len(sizes), dtype=np.int32)
    owner = np.concatenate([deal.owner[kept], np.repeat(clients, np.maximum(sizes - deal.sizes, 0))])
    rows = np.concatenate([rows[kept], given])
    return replace(deal, rows=rows[grouped(owner, len(sizes))], sizes=sizes)


def topped_up(deal: Deal, least: int, rng: np.random.Generator) -> Deal:
    """Clients that have fewer than ``least`` examples get random ones of those that have more, in proportion.

    >>> deal = topped_up(Deal(np.arange(6), np.array([6, 0])), 1, np.random.default_rng(0))
    >>> deal.sizes.tolist(), deal.note
    ([5, 1], '1 client topped up to 1 example')
    """
    n, short = len(deal.rows), int((deal.sizes < least).sum())
    if least * len(deal.sizes) > n:
        raise DataError(
            f"{len(deal.sizes):,} clients of at least {least:,} examples need {least * len(deal.sizes):,}, but there "
            f"are {n:,}: use fewer clients or a smaller least"
        )
    if not short:
        return deal
    note = f"{counted(short, 'client', 'clients')} topped up to {counted(least, 'example', 'examples')}"
    return replace(resized(deal, raised(deal.sizes, least), rng), note=note)
