"""FedSGD: large-batch synchronous SGD over the cohort (McMahan et al. 2017, section 2)."""

from __future__ import annotations

from typing import Any

from fedloom.algorithms.fedavg import fedavg
from fedloom.algorithms.method import Method


def fedsgd(*, fraction: float = 0.1, lr: float = 0.1, **options: Any) -> Method:
    """Return FedSGD: federated averaging with E = 1 and B = ∞, that is one gradient step on all the cohort's examples.

    >>> fedsgd(lr=0.5).local.batches.batch_size is None
    True
    """
    return fedavg(fraction=fraction, lr=lr, epochs=1, batch_size=None, **options)
