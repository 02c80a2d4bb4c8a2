"""Counting: limits on a client's steps, which a device counts in 32 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedloom.errors import ArgumentError
from fedloom.local.batches import Batches

if TYPE_CHECKING:
    from jaxtyping import Int

LONGEST = 2**30  # steps of one client in one round: devices count in 32 bits, up to twice as far as a client works


def check_steps(batches: Batches, sizes: Int[np.ndarray, " clients"], rows: int) -> None:
    """Raise an :class:`ArgumentError` if a client would take more steps in a round than a device can count.

    Args:
        batches: the batches of a round.
        sizes: the number of examples of each client.
        rows: the number of examples of a step.
    """
    steps = np.asarray(batches.steps(sizes, rows))
    worst = int(np.argmax(steps))
    if steps[worst] <= LONGEST:
        return
    with_batch = f"with batch_size {batches.batch_size if batches.batch_size is not None else 'all'}"
    raise ArgumentError(
        "epochs" if batches.period is None else "period",
        f"so small that no client takes more than {LONGEST:,} steps in a round ({with_batch}, a client with "
        f"{int(sizes[worst]):,} examples would take {int(steps[worst]):,})",
        int(batches.epochs if batches.period is None else batches.period),
    )


def check_rounds(batches: Batches, rounds: int) -> None:
    """Raise an :class:`ArgumentError` if epochs that go on from round to round have more steps than a device can count.

    >>> from fedloom.local import sgd
    >>> check_rounds(sgd(period=5).batches, 10**9)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: rounds must be at most 214,748,364 with period 5, since a client takes at most \
1,073,741,824 steps in a run, but is 1000000000
    """
    if batches.period is None:
        return
    period = int(batches.period)
    if rounds * period > LONGEST:
        most = f"at most {LONGEST // period:,} with period {period:,}"
        raise ArgumentError("rounds", f"{most}, since a client takes at most {LONGEST:,} steps in a run", rounds)
