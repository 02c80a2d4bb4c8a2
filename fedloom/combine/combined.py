"""Combined: from replies to the update that the server applies, in steps that an engine may take apart.

Every reply is *heard* on its own, where it may be shortened or not count; all are *weighed*, knowing what everybody
read; and *summed*, for a mean, or else handed to the combiner.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.combine.combiner import Combiner, mean
from fedloom.combine.replies import Replies
from fedloom.combine.weighting import Weighting
from fedloom.tasks.task import Variables
from fedloom.trees import where

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Weights = Float[Array, " m"]


def heard(combiner: Combiner, updates: Variables, replies: Replies) -> tuple[Variables, Replies]:
    """A stack of updates as they enter; and the replies, of which those that do not are not present."""
    updates, counts = jax.vmap(combiner.heard)(updates)
    squares = [jnp.sum(u * u, axis=tuple(range(1, u.ndim))) for u in jax.tree.leaves(updates.params)]
    return updates, replace(replies, present=replies.present & counts, change=jnp.sum(jnp.stack(squares), axis=0))


def weighed(weighting: Weighting, replies: Replies) -> tuple[Weights, Float[Array, ""]]:
    """The weight of each reply, and what the weighted sum of updates is divided by."""
    weights = jnp.where(replies.present, weighting.weigh(replies), 0)
    return weights, weighting.total(replies, weights)


def summed(updates: Variables, weights: Weights, share: Float[Array, ""]) -> Variables:
    """Σ weight · update.

    Arguments:
        share: what it will be divided by, over the sum of the weights: statistics, which are no steps, are multiplied
            by it, so that of them it will always be a mean.
    """
    counted = where(weights > 0, updates, jax.tree.map(jnp.zeros_like, updates))  # 0 · NaN is not 0
    total = jax.tree.map(lambda u: jnp.einsum("m,m...->...", weights, u), counted)
    return replace(total, state=jax.tree.map(lambda u: u * share, total.state))


def combined(weighting: Weighting, updates: Variables, replies: Replies, combiner: Combiner = mean) -> Variables:
    """The update that the server applies; zeros where nobody counts.

    Arguments:
        updates: of those that replied, one beside the other.
        replies: what else they sent; what weightings look at.

    >>> from fedloom.combine import by_size, median
    >>> updates = Variables({"w": jnp.array([1.0, 2.0, 9.0])}, {})
    >>> replies = Replies(jnp.array([1.0, 2.0, 1.0]), jnp.ones(3, bool), {})
    >>> [float(combined(by_size, updates, replies, how).params["w"]) for how in (mean, median())]
    [3.5, 2.0]
    """
    updates, replies = heard(combiner, updates, replies)
    weights, total = weighed(weighting, replies)
    if not combiner.alone:
        return combiner.combine(updates, weights)
    sum_ = weights.sum()
    update = summed(updates, weights, total / jnp.where(sum_ > 0, sum_, 1))
    return jax.tree.map(lambda u: u / jnp.where(total > 0, total, 1), update)
