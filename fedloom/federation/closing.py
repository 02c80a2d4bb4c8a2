"""Closing: the work at the end of a round. It writes only files that no journal entry refers to: it may be repeated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedloom.algorithms import RoundState
from fedloom.federation.arithmetic import Arithmetic, Contribution
from fedloom.federation.course import Course
from fedloom.federation.disk import Disk, digest
from fedloom.federation.journal import STEPS, Closed, Opened, Received
from fedloom.federation.schema import Schema
from fedloom.federation.void import flaw
from fedloom.federation.wire import NUMBERS
from fedloom.local import Local
from fedloom.runs.ledger import Cost, add_cost
from fedloom.trees import flatten


@dataclass(frozen=True)
class Done:
    """The outcome of a round.

    Args:
        state: the state after it.
        closed: the files of that state and of the model that is sent next, and the row of the history.
        counted: the participants whose updates counted; none if the round is void.
        void: why the round is void, if it is.
    """

    state: RoundState
    closed: Closed
    counted: tuple[str, ...]
    void: str | None = None


Job = Callable[[], Done]
"""What closes a round."""


def close(
    course: Course,
    disk: Disk,
    state: RoundState,
    opened: Opened,
    received: Sequence[Received],
    numbers: Mapping[str, int],
    everyone: int,
    seconds: float,
    sent: int,
    before: Mapping[str, float],
) -> Done:
    """Return the outcome of a round. If its updates leave no usable model, it is void and the model before it stays.

    Args:
        course: the run.
        disk: where the files are written.
        state: before it.
        opened: the round.
        received: the updates that count.
        numbers: of their participants, by name.
        everyone: K, how many participants there are.
        seconds: that the run has taken.
        sent: the bytes that the round's models took.
        before: the row of the round before it.
    """
    arithmetic, stop = course.arithmetic, course.stop
    place = {name: i for i, name in enumerate(opened.cohort)}
    found = sorted(received, key=lambda update: place[update.name])
    given = [Contribution(numbers[u.name], u.examples, u.readings, u.name) for u in found]
    order = arithmetic.ordered(given)
    chosen = [found[i] for i in order]
    updates = (arithmetic.update_schema.arrays(disk.checked(update.file)) for update in chosen)
    ahead, norm, counted = arithmetic.step(state, [given[i] for i in order], updates, everyone)
    metrics = course.evaluate(ahead)
    void, names = flaw(arithmetic, ahead, norm, counted, metrics), tuple(update.name for update in chosen)
    if void is not None:
        ahead, norm, names = arithmetic.skipped(state), 0.0, ()
        metrics = course.evaluate(ahead)
    row = add_cost(before, cost(arithmetic, chosen, numbers, sent, norm))
    row |= {
        "asked": len(opened.cohort),
        "attempt": opened.attempt,
        "replies": len(names),
        "void": int(void is not None),
    }
    row |= {"seconds": seconds, **metrics, **pooled(chosen, course.prefix)}
    if stop.watches and stop.monitor:
        row.setdefault(stop.monitor, math.nan)  # no participant has measured it
    return Done(ahead, Closed(opened.round, *kept(disk, arithmetic, ahead), row), names, void)


def cost(
    arithmetic: Arithmetic, chosen: Sequence[Received], numbers: Mapping[str, int], sent: int, norm: float
) -> Cost:
    """Return what a round has cost, whether or not it is void.

    Args:
        arithmetic: knows how many steps a participant takes.
        chosen: the updates that were added up.
        numbers: of their participants, by name.
        sent: the bytes that the round's models took.
        norm: of the mean update.
    """
    steps = sum(gradients(arithmetic.work(numbers[one.name], one.name), one) for one in chosen)
    return Cost(1, steps, sum(update.size for update in chosen), sent, norm)


def gradients(work: Local, update: Received) -> int:
    """Return the gradients that a participant has computed: all of its work, or those before it was stopped."""
    every = int(np.sum(work.gradient_count(np.array([update.examples]))))
    taken = update.readings.get(STEPS)
    return every if taken is None else int(np.clip(taken * work.gradients_per_step, 0, every))


def kept(disk: Disk, arithmetic: Arithmetic, state: RoundState) -> tuple[str, str]:
    """Write a state and what participants are sent of it; the files' names."""
    return (
        written(disk, arithmetic.state_schema, flatten(state)),
        written(disk, arithmetic.model_schema, arithmetic.sent(state)),
    )


def written(disk: Disk, schema: Schema, arrays: Mapping[str, np.ndarray]) -> str:
    """Write arrays; the file's name."""
    content = schema.content(arrays)
    file = digest(content)
    if not disk.holds(file):
        disk.write(file, content)
    return file


def pooled(updates: list[Received], prefix: str) -> dict[str, float]:
    """Return the means of what the round's participants measured before their work, on their own examples.

    Each mean is over the participants that sent the number, so that no participant can hide what others measured.

    Args:
        updates: the participants' updates.
        prefix: what the names of the means begin with: :data:`fedloom.federation.course.CLIENTS` if the participants
            measured the shared model, :data:`fedloom.federation.course.OWN_MODELS` if each measured its own model.

    >>> told = [Received("a", "", 0, 1, {}, {"accuracy": 1.0, "count": 2.0}), Received("b", "", 0, 1, {}, {"count": 5})]
    >>> pooled(told, "clients_")
    {'clients_accuracy': 0.5}
    """
    counted = [update.measures for update in updates if update.measures.get("count", 0) > 0]
    found = {}
    for name in sorted({name for measures in counted for name in measures} - {"count"})[:NUMBERS]:
        those = [measures for measures in counted if name in measures]
        found[f"{prefix}{name}"] = sum(one[name] for one in those) / sum(one["count"] for one in those)
    return found
