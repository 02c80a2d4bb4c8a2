"""Plan: how a round's work is laid out on the devices at hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method
from fedloom.data.shapes import Shapes, examples, shapes_of
from fedloom.engines.memory import peak
from fedloom.engines.union import piece_length, takes_one_step
from fedloom.local import Client, Local, Sent, StepBatch, StepPosition
from fedloom.local.counting import check_steps
from fedloom.local.work import accumulating
from fedloom.tasks.task import Batch, Task

if TYPE_CHECKING:
    from jaxtyping import PyTree

LONGER = 1.15  # a round's longest client, over what it is on average
IDLE = 0.05  # of the steps that lanes may idle through at the ends of clients
SHARE = 0.5  # of an accelerator's memory that lanes may fill
BATCHES = 0.05  # and that the batches of a segment may fill


@dataclass(frozen=True)
class Plan:
    """How a round's work is laid out; it decides what is compiled.

    Arguments:
        mesh: the devices.
        members: how many experiments are computed side by side.
        lanes: how many clients of each experiment are computed side by side on each device.
        segment: how many steps lanes take before those that finished a client take their next one; ``None`` on a CPU,
            where a device has one lane, which takes exactly its client's steps.
        once: whether one segment is all of a round: every client has a lane and as many steps as the others.
        rows: how many examples a step computes on.
        accumulates: whether a batch takes several steps.
        stacked: whether replies are kept one beside the other until all have come.
        apart: whether what clients are sent differs.
        observed: whether every client of a round is measured before and after its work.
        union: where all clients' examples are one batch, the rows of its pieces; a row is then a step.
    """

    mesh: Mesh
    members: int
    lanes: int
    segment: int | None
    once: bool
    rows: int
    accumulates: bool
    stacked: bool
    apart: bool
    observed: bool
    union: int | None = None

    @property
    def at_once(self) -> int | None:
        """How many models are judged side by side; ``None`` is one after another."""
        return None if self.lanes == 1 else self.lanes


def plan(
    task: Task,
    algorithm: Method,
    sizes: np.ndarray,
    example: Batch,
    members: int,
    lanes: int | None = None,
    devices: int | None = None,
    observed: bool = False,
    whole: bool = True,
) -> Plan:
    """The plan that is fast on the devices at hand.

    On a CPU one client after another on each core: one client's weights fit the core's cache, a hundred do not. On an
    accelerator clients side by side, as many as fit its memory and keep it busy: with more lanes than all steps over
    the longest client's steps, lanes only wait for that client.

    Arguments:
        whole: whether whole cohorts are worked on here, and not some clients of them at a time.
    """
    batches, m = algorithm.local.batches, algorithm.cohort(len(sizes))
    largest = int(sizes.max())
    rows = batches.rows(sizes)
    check_steps(batches, sizes, rows)
    steps = np.asarray(batches.steps(sizes, rows))
    chosen = machine.devices()[:devices]
    chosen = chosen[: max(1, min(len(chosen), m))]
    mesh, accumulates = machine.mesh(chosen), batches.accumulates(rows, largest)
    stacked, apart = algorithm.keeps_updates or observed, algorithm.routing.has_several_outputs
    if chosen[0].platform == "cpu" and lanes is None:
        return Plan(mesh, members, 1, None, False, rows, accumulates, stacked, apart, observed)
    mine, room = -(-m // len(chosen)), SHARE * machine.memory(chosen[0]) / members
    lane = partial(lane_bytes, task, algorithm.local, shapes_of(example), rows)
    if lanes is None:
        fits = room / lane()
        lanes = int(max(1, min(mine, fits, useful_lanes(steps, mine))))
        if steps.min() == steps.max():  # equal clients: as many in the last turn as in the others
            lanes = -(-mine // -(-mine // lanes))
    if whole and not observed and takes_one_step(task, algorithm, example):
        fits = room / (lane() / rows)
        union = piece_length(sizes, mine, min(fits, batches.microbatch or fits))
        return Plan(mesh, members, lanes, 1, True, 1, False, stacked, apart, observed, union)
    batch = members * lanes * rows * sum(c.nbytes // len(c) for c in example.values())
    segment = segment_length(steps, most=max(1, int(BATCHES * machine.memory(chosen[0]) / batch)))
    once = lanes >= mine and segment >= steps.max()
    return Plan(mesh, members, lanes, segment, once, rows, accumulates, stacked, apart, observed)


def useful_lanes(steps: np.ndarray, m: int) -> int:
    """The most lanes for cohorts of m clients that seldom wait for the longest: all steps over the longest's, which is
    taken a bit longer than it is on average.

    >>> useful_lanes(np.array([60, 60, 60]), 3), useful_lanes(np.array([2, 3, 5, 40]), 4)
    (3, 2)
    >>> useful_lanes(np.array([2, 3, 5, 40] + [5] * 96), 10)  # who is long takes part in every tenth round
    6
    """
    longest = min(LONGER * usual_longest(steps, m), steps.max())
    return int(np.ceil(m * steps.mean() / longest))


def usual_longest(steps: np.ndarray, m: int) -> float:
    """The mean, over all cohorts of m clients, of the steps of the longest: of N clients in order, that is the i-th or
    one before it in (i over m) of (N over m) cohorts.

    >>> round(usual_longest(np.array([1, 2, 3]), 2), 9)  # 2, 3, 3
    2.666666667
    """
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, len(steps) + 1)))])  # log i!
    i = np.arange(m, len(steps) + 1)
    ways = np.concatenate([np.zeros(m), np.exp(logs[i] - logs[i - m] - logs[-1] + logs[len(steps) - m])])
    return float(np.sort(steps) @ np.diff(ways))


def segment_length(steps: np.ndarray, most: int = 2**30) -> int:
    """The longest segment that idles through little at the ends of clients; short ones hand over more often.

    Arguments:
        steps: how many steps each client takes.
        most: the longest segment whose batches fit the memory.

    >>> segment_length(np.array([60, 60, 60]))
    60
    >>> segment_length(np.array([2, 3, 5, 40]))
    2
    """
    lengths = sorted({int(s) for s in np.unique(steps) if s > 0} | {2**i for i in range(int(steps.max()).bit_length())})
    total = int(steps.sum())
    fine = [s for s in lengths if int((-(-steps // s) * s).sum()) <= (1 + IDLE) * total]
    return min(max(fine), most)


def lane_bytes(task: Task, local: Local, shapes: Shapes, rows: int) -> int:
    """Return about how many bytes a lane needs: what one step has computed and still needs, at most.

    The step is looked at beside another lane, because a convolution alone may take another form. The answer is kept,
    since it takes as long as tracing a model's training step; work that holds arrays is looked at each time.
    """
    try:
        return _lane_bytes(task, local, shapes, rows)
    except TypeError:
        return _lane_bytes.__wrapped__(task, local, shapes, rows)


@lru_cache(maxsize=64)
def _lane_bytes(task: Task, local: Local, shapes: Shapes, rows: int) -> int:

    def step(key: Any, batch: Batch) -> PyTree:
        model = task.init(key)
        number = jax.numpy.int32(1)
        client = Client(number, number, local.batches.lr, number, key, {})
        work = local.begin(Sent(model, local.broadcast(model)), local.client_state(model), client)
        position = StepPosition(jax.numpy.asarray(True), jax.numpy.int32(0))
        drawn = StepBatch(batch, jax.numpy.ones(rows), position, key)
        return local.step(task, accumulating(work), drawn, client)

    batch = {name: jax.ShapeDtypeStruct((2, *like.shape), like.dtype) for name, like in examples(shapes, rows).items()}
    return peak(jax.vmap(step), jax.random.split(jax.random.key(0), 2), batch) // 2
