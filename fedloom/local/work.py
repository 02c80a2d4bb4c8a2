"""Work: a client's local work in progress, and what one step of it receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.local.batches import StepPosition
from fedloom.local.penalty import Penalty, add_penalties
from fedloom.tasks.task import Batch, Variables
from fedloom.trees import record, where

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key, PyTree

    from fedloom.local.client import Scalar


@record
class StepBatch:
    """The examples of one step.

    Arguments:
        examples: the rows of each column.
        shares: the weight of each example in the batch's loss; 0 for rows that only fill the batch.
        position: the place of the step in the client's work.
        key: the random key of the step.
    """

    examples: Batch
    shares: Float[Array, " rows"]
    position: StepPosition
    key: Key[Array, ""]


@record
class Work:
    """A client's local work in progress.

    Arguments:
        variables: the model in training.
        optimizer: the optimiser's state.
        accumulated: the sum of gradients of a batch that takes several steps; ``None`` if each batch is one step.
        penalties: terms added to the loss.
        companion: other work on the same batches, such as the training of Ditto's own model.
    """

    variables: Variables
    optimizer: PyTree
    accumulated: PyTree = None
    penalties: tuple[Penalty, ...] = ()
    companion: Work | None = None


def accumulating(work: Work) -> Work:
    """Return the same work, prepared for batches that take several steps."""
    zeros = jax.tree.map(jnp.zeros_like, work.variables.params)
    companion = None if work.companion is None else accumulating(work.companion)
    return replace(work, accumulated=zeros, companion=companion)


def with_params(work: Work, params: PyTree, optimizer: PyTree) -> Work:
    """Return the same work with other parameters and another state of the optimiser."""
    return replace(work, variables=Variables(params, work.variables.state), optimizer=optimizer)


def apply_gradient(
    work: Work,
    batch: StepBatch,
    gradient: PyTree,
    state: PyTree,
    move: Callable[[Work, PyTree], Work],
    scale: Scalar = 1.0,
) -> Work:
    """Return the work after a step: add the penalties to the gradient, then move.

    If a batch takes several steps, add up their gradients and move after the last one.

    Args:
        work: the work before the step.
        batch: the examples of the step.
        gradient: scale · the gradient of their loss.
        state: the model's non-trainable state after the step.
        move: (work, gradient) → the work after the optimiser's step.
        scale: a factor of all gradients.
    """
    work = replace(work, variables=Variables(work.variables.params, state))
    params = work.variables.params
    if work.accumulated is None:
        return move(work, add_penalties(gradient, params, work.penalties, scale))
    total = jax.tree.map(jnp.add, work.accumulated, gradient)
    ahead = move(work, add_penalties(total, params, work.penalties, scale))
    after = ahead.variables.params, ahead.optimizer, jax.tree.map(jnp.zeros_like, total)
    params, optimizer, total = where(batch.position.is_last, after, (params, work.optimizer, total))
    return replace(with_params(work, params, optimizer), accumulated=total)
