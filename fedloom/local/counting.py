"""Counting: the number of a client's steps, exact on the host and within 32 bits on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fedloom.errors import ArgumentError

if TYPE_CHECKING:
    from jaxtyping import Int

    from fedloom.local.local import Local

N = TypeVar("N")
LONGEST = 2**30  # steps of one client in one round: devices count in 32 bits, up to twice as far as a client works


def exact(n: N) -> N:
    """Return host numbers in 64 bits, so that products with them are exact; a device's numbers stay as they are.

    >>> (10**9 * exact(np.array([600], np.int32))).tolist()
    [600000000000]
    """
    return n.astype(np.int64) if isinstance(n, np.ndarray | np.generic) else n  # type: ignore[return-value]


def check_steps(local: Local, sizes: Int[np.ndarray, " clients"], rows: int) -> None:
    """Raise an :class:`ArgumentError` if a client would take more steps in a round than a device can count.

    Args:
        local: the work of a client.
        sizes: the number of examples of each client.
        rows: the number of examples of a step.
    """
    steps = np.asarray(local.steps(sizes, rows))
    worst = int(np.argmax(steps))
    if steps[worst] <= LONGEST:
        return
    period = local.describe().get("period")
    with_batch = f"with batch_size {local.batch_size if local.batch_size is not None else 'all'}"
    raise ArgumentError(
        "epochs" if period is None else "period",
        f"so small that no client takes more than {LONGEST:,} steps in a round ({with_batch}, a client with "
        f"{int(sizes[worst]):,} examples would take {int(steps[worst]):,})",
        int(local.epochs) if period is None else period,
    )


def check_rounds(local: Local, rounds: int) -> None:
    """Raise an :class:`ArgumentError` if epochs that go on from round to round have more steps than a device can count.

    >>> from fedloom.local import sgd
    >>> check_rounds(sgd(period=5), 10**9)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: rounds must be at most 214,748,364 with period 5, since a client takes at most \
1,073,741,824 steps in a run, but is 1000000000
    """
    period = local.describe().get("period")
    if period is not None and rounds * period > LONGEST:
        most = f"at most {LONGEST // period:,} with period {period:,}"
        raise ArgumentError("rounds", f"{most}, since a client takes at most {LONGEST:,} steps in a run", rounds)
