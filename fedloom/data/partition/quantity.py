"""Quantity skew: clients whose data is alike but not as much, log-normal or by a power law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedloom.data.order import apportion
from fedloom.data.partition.partition import Deal, Examples, Partition, between
from fedloom.errors import require


def lognormal(clients: int = 100, sigma: float = 1.0, *, least: int = 1) -> Partition:
    """Sizes whose logarithms are normal with deviation σ, labels IID; 0 is all the same size.

    >>> lognormal(clients=4, sigma=1.0).deal(np.zeros(100, int), np.random.default_rng(0)).sizes.tolist()
    [23, 18, 37, 22]
    """
    require(sigma >= 0, "sigma", "at least 0", sigma)
    return _by_size(f"lognormal{sigma:g}", clients, least, lambda rng: np.exp(sigma * rng.standard_normal(clients)))


def power(clients: int = 100, exponent: float = 1.5, *, least: int = 1) -> Partition:
    """The k-th largest client has a share of k^(-exponent) (Zipf), labels IID; which client is which is random.

    >>> sorted(power(clients=4, exponent=1).deal(np.zeros(100, int), np.random.default_rng(0)).sizes.tolist())
    [13, 16, 24, 47]
    """
    require(exponent >= 0, "exponent", "at least 0", exponent)

    def weights(rng: np.random.Generator) -> np.ndarray:
        return np.arange(1.0, clients + 1)[rng.permutation(clients)] ** -exponent

    return _by_size(f"power{exponent:g}", clients, least, weights)


def _by_size(name: str, clients: int, least: int, draw: Callable[[np.random.Generator], np.ndarray]) -> Partition:
    require(least >= 1, "least", "at least 1", least)

    def assign(examples: Examples, rng: np.random.Generator) -> Deal:
        n = len(examples)
        require(least * clients <= n, "least", f"at most {n // clients:,} for {clients:,} clients of {n:,}", least)
        sizes = apportion(draw(rng), n, least)
        note = f"{between(sizes)} examples a client, the largest has {sizes.max() / n:.1%} of all"
        return Deal(rng.permutation(n), sizes, note)

    return Partition(name, clients, assign)
