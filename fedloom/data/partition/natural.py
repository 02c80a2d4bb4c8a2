"""Natural: whoever made an example has it: a user, a writer, a role."""

from __future__ import annotations

import numpy as np

from fedloom.data.order import grouped
from fedloom.data.partition.partition import Deal, Examples, Partition, between, counted
from fedloom.errors import DataError, whole


def natural(*, least: int = 1, most: int | None = None) -> Partition:
    """Every user is a client and has what it made, in the order in which it was made.

    Arguments:
        least: users with fewer examples than this are left out.
        most: how many users are taken, at random, if there are more.

    >>> examples = Examples(np.array([0, 1, 0, 1]), 2, users=np.array([1, 0, 1, 1]), names=["ann", "bob"])
    >>> deal = natural().deal(examples, np.random.default_rng(0))
    >>> deal.rows.tolist(), deal.sizes.tolist()
    ([1, 0, 2, 3], [1, 3])
    """
    whole("least", least, 1)
    if most is not None:
        whole("most", most, 1)

    def assign(examples: Examples, rng: np.random.Generator) -> Deal:
        if examples.users is None:
            raise DataError("nobody knows whose these examples are: name the user column, or use another partition")
        counts = np.bincount(examples.users, minlength=len(examples.names))
        kept = np.flatnonzero(counts >= least)
        if not len(kept):
            raise DataError(f"no user has {least:,} examples: the most any has is {int(counts.max(initial=0)):,}")
        gone = int(((counts > 0) & (counts < least)).sum())
        if most is not None and most < len(kept):
            kept = np.sort(rng.choice(kept, most, replace=False))
        order = grouped(examples.users, len(counts))
        if len(kept) < len(counts):
            order = order[np.isin(examples.users[order], kept)]
        note = f"{counted(len(kept), 'user', 'users')} with {between(counts[kept])} examples"
        left = f"; {counted(gone, 'user', 'users')} with fewer than {least:,} left out" if gone else ""
        return Deal(order, counts[kept], note + left, users=kept)

    return Partition("natural", None, assign)
