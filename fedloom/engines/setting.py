"""Setting: what a round of the compiled engine is computed with, beside its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedloom.algorithms.method import Method
from fedloom.engines.pairs import Everyone
from fedloom.engines.plan import Plan
from fedloom.engines.store import View
from fedloom.tasks.task import Task

if TYPE_CHECKING:
    from jaxtyping import Array


@dataclass(frozen=True, eq=False)
class Setting:
    """What stays the same from round to round.

    Args:
        task: the model and its loss.
        plan: the layout of the work.
        cohort: the number of clients in a round, on all devices.
        method: the methods of all experiments, stacked.
        view: the training examples.
        judged: part of the data, or measurement → the examples on which clients' models are read or measured.
        everyone: part of the data → all clients' examples, where every client reads every model.
        seeds: of the experiments.
    """

    task: Task
    plan: Plan
    cohort: int
    method: Method
    view: View
    judged: dict[str, View]
    everyone: dict[str, Everyone]
    seeds: Array
