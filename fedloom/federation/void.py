"""Void rounds: rounds whose updates leave no usable model, and the end of a run that makes too many of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fedloom.algorithms import RoundState
from fedloom.federation.arithmetic import Arithmetic
from fedloom.federation.journal import Void
from fedloom.federation.schema import Unfit
from fedloom.runs.recorder import nonfinite
from fedloom.trees import flatten

LIMIT = 10  # void rounds in a row after which a run ends
NAMED = 10  # participants that the reason for the end of a run names at most


def flaw(
    arithmetic: Arithmetic, ahead: RoundState, norm: float, counted: bool, measured: Mapping[str, float]
) -> str | None:
    """Return why a round is void, or ``None`` if its model can be used.

    Args:
        arithmetic: knows what a state must hold.
        ahead: the state after the server's step.
        norm: of the mean update.
        counted: True if at least one update had a positive weight.
        measured: the metrics of the model in ``ahead``.
    """
    if not counted:
        return "no update has a positive weight"
    try:
        arithmetic.state_schema.check(flatten(ahead))
    except Unfit as error:
        return f"the state after it cannot be used: {error}"
    if not math.isfinite(norm):
        return "the norm of the mean update is not finite"
    if (name := nonfinite(measured)) is not None:
        return f"the {name.replace('_', ' ')} of the model after it is {measured[name]}"
    return None


def is_exhausted(rows: Sequence[Mapping[str, float]]) -> bool:
    """Return whether so many of the last rounds were void that the run ends."""
    return len(rows) >= LIMIT and all(row.get("void", 0) for row in rows[-LIMIT:])


def exhausted(rows: Sequence[Mapping[str, float]], voids: Sequence[Void]) -> str | None:
    """Return why a run ends after too many void rounds in a row, or ``None`` if it goes on.

    Args:
        rows: the history.
        voids: the last void rounds, the newest first.

    >>> rows = [{"round": i + 1, "void": 1} for i in range(10)]
    >>> voids = [Void(0.0, i, "the test loss of the model after it is inf", ("a", "b")) for i in reversed(range(10))]
    >>> exhausted(rows[1:], voids[:-1]) is None
    True
    >>> print(exhausted(rows, voids))
    the last 10 rounds were void (round 10: the test loss of the model after it is inf); the model before them is \
kept. Updates of a and b were in all of them: revoke a participant that sends wrong numbers, or begin anew with a \
smaller learning rate, --clip or --combine median
    """
    if not is_exhausted(rows):
        return None
    last = voids[:LIMIT]
    always = sorted(set.intersection(*(set(void.names) for void in last)))
    some = [*always[:NAMED], *([f"{len(always) - NAMED:,} more"] if len(always) > NAMED else [])]
    listed = f"{', '.join(some[:-1])} and {some[-1]}" if some[1:] else "".join(some)
    who = f"Updates of {listed} were in all of them: " if listed else ""
    return (
        f"the last {LIMIT} rounds were void (round {last[0].round + 1}: {last[0].why}); the model before them is kept. "
        f"{who}revoke a participant that sends wrong numbers, or begin anew with a smaller learning rate, --clip or "
        "--combine median"
    )
