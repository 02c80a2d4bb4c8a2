"""Quantity skew: clients whose data is alike but not as much, log-normal or by a power law."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedloom.data.order import apportion, raised
from fedloom.data.partition.partition import Deal, Examples, Partition, between
from fedloom.errors import number, require, whole


def lognormal(clients: int = 100, sigma: float = 1.0, *, least: int = 1) -> Partition:
    """Sizes whose logarithms are normal with deviation σ, labels IID; 0 is all the same size.

    >>> lognormal(clients=4, sigma=1.0).deal(np.zeros(100, int), np.random.default_rng(0)).sizes.tolist()
    [23, 17, 38, 22]
    """
    number("sigma", sigma, "at least 0", lambda sigma: sigma >= 0)

    def weights(rng: np.random.Generator) -> np.ndarray:
        logarithms = sigma * rng.standard_normal(clients)
        return np.exp(logarithms - logarithms.max())

    return _by_size(f"lognormal{sigma:g}", clients, least, weights)


def power(clients: int = 100, exponent: float = 1.5, *, least: int = 1) -> Partition:
    """The k-th largest client has a share of k^(-exponent) (Zipf), labels IID; which client is which is random.

    >>> sorted(power(clients=4, exponent=1).deal(np.zeros(100, int), np.random.default_rng(0)).sizes.tolist())
    [12, 16, 24, 48]
    """
    number("exponent", exponent, "at least 0", lambda exponent: exponent >= 0)

    def weights(rng: np.random.Generator) -> np.ndarray:
        return np.arange(1.0, clients + 1)[rng.permutation(clients)] ** -exponent

    return _by_size(f"power{exponent:g}", clients, least, weights)


def _by_size(name: str, clients: int, least: int, draw: Callable[[np.random.Generator], np.ndarray]) -> Partition:
    whole("clients", clients, 1)
    whole("least", least, 1)

    def assign(examples: Examples, rng: np.random.Generator) -> Deal:
        n = len(examples)
        require(least * clients <= n, "least", f"at most {n // clients:,} for {clients:,} clients of {n:,}", least)
        sizes = raised(apportion(draw(rng), n), least)
        note = f"{between(sizes)} examples a client, the largest has {sizes.max() / n:.1%} of all"
        return Deal(rng.permutation(n), sizes, note)

    return Partition(name, clients, assign)
