"""Observed: what some rounds did, and the measurements of the clients that took part."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.engines.store import GLOBAL, View
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

MEASUREMENTS = {
    "before": ("test", "before"),
    "after": ("test", "after"),
    "global_before": (GLOBAL, "before"),
    "global": (GLOBAL, "after"),
}
"""Name of a measurement of clients → the test examples that it uses, and whether the model is that before or after the
client's work. ``test`` stands for each client's own test examples, ``GLOBAL`` for everybody's.
"""


@record
class Rounds:
    """What some rounds did, one row a round, one column an experiment.

    Args:
        norm: the norm of the mean update; where clients mix models of their own, the root mean square of all updates.
        computed: the number of steps computed.
        users: of the last round, where clients are observed: ``client``, the clients that took part (-1 is none), each
            metric of each of them under the names of :data:`MEASUREMENTS` (``before_accuracy``, …), and ``mixing``, the
            mixing matrix, where clients mix models of their own.
        broken: the number of replies that did not count because they were not finite; ``None`` if the combiner accepts
            all replies.
        cohort: the clients that took part (-1 is none), on the host.
    """

    norm: Float[Array, "rounds X"]
    computed: Float[Array, "rounds X"]
    users: dict[str, Any]
    broken: Float[Array, "rounds X"] | None = None
    cohort: Int[np.ndarray, "rounds X m"] | None = None


def observed(
    views: dict[str, View], client: Int[Array, "X m"], measure: Callable[[View, str], dict[str, Any]]
) -> dict[str, Any]:
    """Return the clients that took part, and their values of each measurement for which there is a view."""
    found: dict[str, Any] = {"client": client}
    for name, (_, moment) in MEASUREMENTS.items():
        if name in views:
            found |= {f"{name}_{metric}": value for metric, value in measure(views[name], moment).items()}
    return found
