"""Dirichlet: how unlike clients are in their labels, as one number α (Yurochkin et al. 2019; Hsu et al. 2019)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedloom.data.order import grouped, starts
from fedloom.data.partition.partition import Deal, Examples, Partition, between, even
from fedloom.data.partition.resize import resized, topped_up
from fedloom.errors import number, require, whole

if TYPE_CHECKING:
    from jaxtyping import Float, Int


TINY = 1e-200  # a share that is nothing, but of which something can be made where a class would have no taker


def dirichlet(clients: int = 100, alpha: float = 0.5, *, balanced: bool = False, least: int = 1) -> Partition:
    """Clients whose mixes of labels differ the more, the smaller α is: 0.1 is a few labels each, 100 nearly IID.

    Of every class the clients' shares are p ~ Dir(α, …, α), so their sizes differ too (Yurochkin et al. 2019).
    Balanced: client k's mix of the N classes is q_k ~ Dir(α·N·p), p being the classes' shares of all data (Hsu et
    al. 2019, whose α counts all classes together and is N times ours), then fitted so that all clients have the same
    size and every class is used up. With few clients and a small α that moves mixes: of 10 clients with α = 0.1 and
    10 classes, labels have 1.4 bits of entropy and not 1.2.

    Arguments:
        clients: K.
        alpha: α, the concentration for each class.
        balanced: whether all clients have the same size.
        least: a client that gets fewer examples than this is topped up with random ones of the others.

    >>> labels = np.repeat([0, 1], 50)
    >>> dirichlet(clients=4, alpha=0.5).deal(labels, np.random.default_rng(1)).sizes.tolist()
    [31, 46, 20, 3]
    >>> dirichlet(clients=4, alpha=0.5, balanced=True).deal(labels, np.random.default_rng(1)).sizes.tolist()
    [25, 25, 25, 25]
    """
    whole("clients", clients, 1)
    whole("least", least, 1)
    number("alpha", alpha, "above 0", lambda alpha: alpha > 0)

    def assign(examples: Examples, rng: np.random.Generator) -> Deal:
        assert examples.labels is not None
        counts = np.bincount(examples.labels, minlength=examples.classes)
        if balanced:
            concentrations = np.maximum(alpha * len(counts) * counts / counts.sum(), 1e-12)
            mixes = np.maximum(rng.dirichlet(concentrations, size=clients), TINY)
            sizes = even(len(examples), clients)
            most = int(sizes.min())
            require(least <= most, "least", f"at most {most:,}, which balanced clients have", least)
            deal = resized(_cut(examples.labels, counts, fitted(mixes, sizes, counts), rng), sizes, rng)
            return replace(deal, note=f"mixes of labels Dirichlet({alpha:g}), {between(sizes)} examples a client")
        shares = np.stack([rng.dirichlet(np.full(clients, alpha)) for _ in counts], axis=1)
        deal = topped_up(_cut(examples.labels, counts, shares, rng), least, rng)
        note = f"shares of each class Dirichlet({alpha:g}), {between(deal.sizes)} examples a client"
        return replace(deal, note="; ".join(text for text in (note, deal.note) if text))

    name = f"dirichlet{alpha:g}" + ("-balanced" if balanced else "")
    return Partition(name, clients, assign, by_label=True)


def fitted(
    mixes: Float[np.ndarray, "clients classes"],
    sizes: Int[np.ndarray, " clients"],
    counts: Int[np.ndarray, " classes"],
    times: int = 50,
) -> Float[np.ndarray, "clients classes"]:
    """How many examples of each class each client gets so that rows add up to its size and columns to the class's:
    rows and columns scaled in turn (iterative proportional fitting), which keeps the odds between clients and classes.

    >>> fitted(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([10, 10]), np.array([10, 10])).round(2).tolist()
    [[2.51, 7.51], [7.49, 2.49]]
    """
    given = mixes * sizes[:, None]
    for _ in range(times):
        given *= counts / np.maximum(given.sum(axis=0), 1e-300)
        rows = given.sum(axis=1)
        if np.abs(rows - sizes).max() < 0.05:
            break
        given *= (sizes / np.maximum(rows, 1e-300))[:, None]
    return given


def _cut(labels: np.ndarray, counts: np.ndarray, shares: np.ndarray, rng: np.random.Generator) -> Deal:
    """Every class, shuffled, cut in proportion to the clients' shares of it."""
    order = rng.permutation(len(labels))
    order = order[grouped(labels[order], len(counts))]
    owner = np.empty(len(order), np.int32)
    clients = np.arange(len(shares), dtype=np.int32)
    for n, start, share in zip(counts, starts(counts), shares.T, strict=True):
        if not n:
            continue
        cuts = np.cumsum(share)
        places = np.floor(cuts * (n / cuts[-1]) + rng.random()).astype(np.int64)  # unbiased, whoever comes first
        places[-1] = n
        owner[start : start + n] = np.repeat(clients, np.diff(places, prepend=0))
    return Deal(order[grouped(owner, len(shares))], np.bincount(owner, minlength=len(shares)))
