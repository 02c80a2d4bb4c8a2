"""Held: who has which examples, for training, validation and testing, and which are nobody's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.federated import Ranges
from fedloom.data.order import grouped, starts
from fedloom.data.partition.partition import Deal, counted
from fedloom.data.split.split import JUDGED, PARTS, TRAIN

if TYPE_CHECKING:
    from jaxtyping import Int


@dataclass(frozen=True)
class Held:
    """Who has what: the index and ranges of :class:`~fedloom.data.federated.FederatedData`, without the examples."""

    index: Int[np.ndarray, " owned"]
    clients: dict[str, Ranges]
    central: dict[str, Int[np.ndarray, " nobodys"]]
    names: Sequence[str] = ()
    note: str = ""

    def owners(self, n: int) -> Int[np.ndarray, " n"]:
        """The client of each of n examples, -1 for nobody."""
        owner = np.full(n, -1, np.int32)
        for ranges in self.clients.values():
            owner[ranges.rows(self.index)] = ranges.owner
        return owner


def held(
    rows: dict[str, Int[np.ndarray, " n"]],
    deal: Deal,
    part: Int[np.ndarray, " m"],
    users: Int[np.ndarray, " examples"] | None,
    user_names: Sequence[str],
) -> Held:
    """What clients hold of a data set, once it is dealt and split.

    Where clients are users, a user's validation and test examples are its own too. Clients left with nothing to train
    on are no clients: what they have is nobody's.

    Arguments:
        rows: the data set's own parts: ``train``, which was dealt, ``validation`` and ``test``.
        deal: who got which of the training examples.
        part: what each of those is for.
        users, user_names: who made each example.
    """
    index, owner, part, central = _owned(rows, deal, part, users, len(user_names))
    trained = np.bincount(owner[part == TRAIN], minlength=len(deal.sizes)) > 0
    note = ""
    if not trained.all():
        idle = ~trained[owner]
        for code, name in JUDGED:
            central[name] = np.concatenate([central[name], index[idle & (part == code)]])
        index, owner, part = index[~idle], (np.cumsum(trained) - 1)[owner[~idle]], part[~idle]
        gone = int((~trained).sum())
        note = f"{counted(gone, 'client has', 'clients have')} nothing to train on and only test the model"
    names = [user_names[user] for user in deal.users[trained]] if deal.users is not None else ()
    index, ranges = _indexed(index, owner, part, int(trained.sum()))
    return Held(index, ranges, {name: own.astype(np.int32) for name, own in central.items()}, names, note)


def _owned(
    rows: dict[str, np.ndarray], deal: Deal, part: np.ndarray, users: np.ndarray | None, many: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Rows with their owners and parts, and the examples that nobody owns."""
    found, owners, parts = [rows["train"][deal.rows]], [deal.owner], [part]
    central = {name: rows[name] for _, name in JUDGED}
    if deal.users is not None and users is not None:
        client = np.full(many, -1, np.int32)
        client[deal.users] = np.arange(len(deal.users))
        for code, name in JUDGED:
            owner = client[users[central[name]]]
            found.append(central[name][owner >= 0])
            owners.append(owner[owner >= 0])
            parts.append(np.full(len(found[-1]), code, np.int8))
            central[name] = central[name][owner < 0]
    return np.concatenate(found), np.concatenate(owners), np.concatenate(parts), central


def _indexed(
    rows: np.ndarray, owner: np.ndarray, part: np.ndarray, clients: int
) -> tuple[Int[np.ndarray, " m"], dict[str, Ranges]]:
    """The rows by client and part, and where each client's parts are."""
    key = owner * np.int32(len(PARTS)) + part
    sizes = np.bincount(key, minlength=clients * len(PARTS))
    start = starts(sizes)
    ranges = {
        name: Ranges(start[code :: len(PARTS)].astype(np.int32), sizes[code :: len(PARTS)].astype(np.int32))
        for code, name in enumerate(PARTS)
        if code == TRAIN or sizes[code :: len(PARTS)].any()
    }
    return rows[grouped(key, clients * len(PARTS))].astype(np.int32), ranges
