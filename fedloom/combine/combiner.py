"""Combiner: what is made of a round's replies, once it is known how much each counts.

A combiner is a record with ``heard``, which sees one reply at a time, and ``combine``, which sees all of them. One that
only adds replies up needs no ``combine``: it is *alone*, and replies are added as they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp

from fedloom.parts import check_defines, numbers_of
from fedloom.tasks.task import Variables
from fedloom.trees import record, where

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, PyTree

    Scalar = Float[Array, ""] | float
    Weights = Float[Array, " m"]


class Combiner:
    """What is made of a round's replies."""

    @property
    def alone(self) -> bool:
        """Whether it takes the weighted mean of what it heard, for which replies are added up as they come."""
        return False

    @property
    def is_coordinatewise(self) -> bool:
        """True if ``combine`` treats each coordinate by itself, so that devices may share the coordinates out."""
        return False

    @property
    def trusting(self) -> bool:
        """Whether it takes every reply as it comes, also one that is not finite."""
        return False

    def heard(self, update: Variables) -> tuple[Variables, Bool[Array, ""]]:
        """A reply as it enters, and whether it does: one that is not finite counts as if it had not come."""
        counts = finite(update)
        return where(counts, update, jax.tree.map(jnp.zeros_like, update)), counts

    def combine(self, updates: Variables, weights: Weights) -> Variables:
        """Return the update that is made of all updates of a round.

        Args:
            updates: the updates with a leading axis, as :meth:`heard` returned them.
            weights: the weight of each; an update without weight does not count.
        """
        raise NotImplementedError

    def checked(self) -> Self:
        """Return the combiner if it can be used; raise an :class:`ArgumentError` otherwise."""
        if not self.alone:
            check_defines(self, "combiner", Combiner, "combine")
        return self

    def describe(self) -> dict[str, Any]:
        """Return the combiner's name and numbers."""
        return {"combine": type(self).__name__, **numbers_of(self)}


@record
class Mean(Combiner):
    """Σ_k p_k Δ_k, p_k the weighting's share of client k (McMahan et al. 2017). A reply that is not finite makes the
    model so, and the run stops and says that it diverged.
    """

    @property
    def alone(self) -> bool:
        """Yes."""
        return True

    @property
    def trusting(self) -> bool:
        """Yes."""
        return True

    def heard(self, update: Variables) -> tuple[Variables, Bool[Array, ""]]:
        """The reply as it is."""
        return update, jnp.asarray(True)

    def describe(self) -> dict[str, Any]:
        """Nothing: it is what is done unless something else is said."""
        return {}


mean = Mean()


def finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether all numbers of a tree are finite.

    >>> bool(finite({"w": jnp.ones(3), "b": jnp.array([1.0, jnp.nan])}))
    False
    """
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))
