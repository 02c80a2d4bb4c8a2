"""Weighting: how much each reply counts. The engine divides by the sum of the weights.

A weighting is a record with ``weigh``, replies → weights, and ``readings``, the measures of clients' models that it
looks at. One that reads nothing weighs each reply alone, so that replies can be added up as they come.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import jax.numpy as jnp

from fedloom.combine.replies import Reading, Replies, reading
from fedloom.direction import Directions, require_direction
from fedloom.errors import require
from fedloom.parts import check_defines, numbers_of
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Scalar = Float[Array, ""] | float
    Weights = Float[Array, " m"]

T = TypeVar("T")
LEAST = 1e-6  # added to metrics that weigh: where all are zero, all count the same


class Weighting:
    """How much each reply counts."""

    @property
    def alone(self) -> bool:
        """Whether a reply's weight depends on nothing but itself, and on no reading."""
        return not self.readings

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What is measured of clients' models for it."""
        return ()

    def weigh(self, replies: Replies) -> Weights:
        """The weight of each reply; what is not present is ignored."""
        raise NotImplementedError

    def total(self, replies: Replies, weights: Weights) -> Float[Array, ""]:  # noqa: ARG002
        """What the weighted sum of updates is divided by: the sum of the weights, for a mean."""
        return weights.sum()

    @property
    def is_mean(self) -> bool:
        """Whether what comes of it is a mean: weights over their sum."""
        return True

    def checked(self) -> Self:
        """Return the weighting if it can be used; raise an :class:`ArgumentError` otherwise."""
        check_defines(self, "weighting", Weighting, "weigh")
        return self

    def describe(self) -> dict[str, Any]:
        """Return the weighting's name and numbers."""
        return {"weighting": type(self).__name__, **numbers_of(self)}


@record
class BySize(Weighting):
    """n_k: a client counts as much as it has examples (McMahan et al. 2017)."""

    def weigh(self, replies: Replies) -> Weights:
        """n_k."""
        return replies.examples

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"weighting": "size"}


@record
class Uniform(Weighting):
    """1: every client counts the same."""

    def weigh(self, replies: Replies) -> Weights:
        """1."""
        return jnp.ones_like(replies.examples)

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"weighting": "uniform"}


@record
class ByMetric(Weighting):
    """a_k: a client counts as much as its model's accuracy, or another measure that is better the larger it is (Panda
    and Marrero 2018). Build it with :func:`by_accuracy`.
    """

    read: Reading = static()

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The accuracy."""
        return (self.read,)

    def weigh(self, replies: Replies) -> Weights:
        """a_k; where all are zero, all count the same. What is no number counts as zero."""
        value = replies.readings[self.read.name]
        return jnp.where(jnp.isfinite(value), value, 0) + LEAST

    def describe(self) -> dict[str, Any]:
        """What it looks at."""
        return {"weighting": self.read.name}


@record
class BySoftmax(Weighting):
    """exp(-ℓ_k / T): a client counts the more, the smaller its model's loss. Build it with :func:`by_loss`."""

    temperature: Scalar
    read: Reading = static()

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The loss."""
        return (self.read,)

    def weigh(self, replies: Replies) -> Weights:
        """exp(-(ℓ_k - min ℓ) / T), which is the same up to a factor and cannot underflow for everybody; nothing for a
        loss that is no number.
        """
        loss = replies.readings[self.read.name]
        usable = jnp.isfinite(loss) & replies.present
        least = jnp.min(jnp.where(usable, loss, jnp.inf))
        return jnp.where(usable, jnp.exp(-(jnp.where(usable, loss, 0) - least) / self.temperature), 0)

    def checked(self) -> Self:
        """The same, if its temperature can be used."""
        require(bool(self.temperature > 0), "temperature", "above 0", self.temperature)
        return self

    def describe(self) -> dict[str, Any]:
        """What it looks at, and the temperature."""
        return {"weighting": f"softmax of {self.read.name}", "temperature": float(self.temperature)}


@record
class Excluding(Weighting):
    """Another weighting for the clients whose metric is not too far worse than the others', 0 for the rest. Build it
    with :func:`excluding`.
    """

    z: Scalar
    among: Weighting
    read: Reading = static()

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The measure, and what the other weighting looks at."""
        return tuple(dict.fromkeys((self.read, *self.among.readings)))

    def weigh(self, replies: Replies) -> Weights:
        """Return the other weighting's weight where a_k ≥ mean(a) - z·deviation(a), else 0; a_k is minus the metric if
        a lower one is better. A client at or above the mean stays, so at least one does. A client whose metric is not
        finite is excluded, and does not enter the mean.
        """
        value, better = replies.readings[self.read.name], self.read.better
        if better is None:
            require_direction(f"{self.read.part}_{self.read.metric}", {})
        usable = jnp.isfinite(value) & replies.present
        value = jnp.where(usable, -value if better == "lower" else value, 0)
        n = jnp.maximum(usable.sum(), 1)
        mean = value.sum() / n
        deviation = jnp.sqrt(jnp.sum(jnp.where(usable, value - mean, 0) ** 2) / n)
        bound = jnp.where(jnp.isinf(self.z), -jnp.inf, mean - self.z * deviation)
        stays = usable & (value >= bound - 1e-6 * jnp.abs(mean))
        return jnp.where(stays, self.among.weigh(replace(replies, present=stays)), 0)

    def total(self, replies: Replies, weights: Weights) -> Float[Array, ""]:
        """The other's."""
        return self.among.total(replies, weights)

    @property
    def is_mean(self) -> bool:
        """Whether the other's is."""
        return self.among.is_mean

    def checked(self) -> Self:
        """The same, if its number of deviations can be used."""
        require(bool(self.z > 0), "exclude", "above 0 deviations", self.z)
        self.among.checked()
        return self

    def describe(self) -> dict[str, Any]:
        """What it looks at, the number of deviations, and the other weighting."""
        return {**self.among.describe(), "exclude": float(self.z), "exclude_by": self.read.name}


by_size, uniform = BySize(), Uniform()


def by_accuracy(on: str = "validation", moment: str = "after") -> ByMetric:
    """By the accuracy of a client's model, on its own data.

    Arguments:
        on: ``validation`` or ``training`` (or ``test``, for studies of what one should not do).
        moment: ``before`` or ``after`` local training.
    """
    return ByMetric(reading("accuracy", on, moment))


def by_loss(temperature: float = 1.0, on: str = "validation", moment: str = "after") -> BySoftmax:
    """By a softmax of the negative loss of clients' models, on their own data.

    Arguments:
        temperature: the larger, the more alike all count.

    The other arguments are those of :func:`by_accuracy`.
    """
    return BySoftmax(temperature, reading("loss", on, moment)).checked()


def excluding(
    z: float = 1.0,
    among: Weighting = by_size,
    metric: str = "accuracy",
    on: str = "validation",
    moment: str = "after",
) -> Excluding:
    """Exclude clients whose metric is more than z deviations worse than the cohort's mean: below it, or above it for a
    metric of which a lower value is better.

    Arguments:
        z: how many standard deviations; infinity excludes nobody.
        among: how the others are weighted.
        metric: ``accuracy``, ``loss``, ``error``, or a metric of which the task declares the direction.

    The other arguments are those of :func:`by_accuracy`.

    >>> excluding(z=0)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: exclude must be above 0 deviations, but is 0
    """
    return Excluding(z, among, reading(metric, on, moment)).checked()


def with_directions(part: T, directions: Directions) -> T:
    """Return a method, or a part of one, whose readings know in which direction their metric improves.

    >>> rule = with_directions(excluding(metric="mae"), {"mae": "lower"})
    >>> rule.read.better
    'lower'
    """
    if isinstance(part, Reading):
        return replace(part, better=directions.get(part.metric))
    if not is_dataclass(part) or isinstance(part, type):
        return part
    found = {f.name: getattr(part, f.name) for f in fields(part)}
    changed = {name: new for name, old in found.items() if (new := with_directions(old, directions)) is not old}
    return replace(part, **changed) if changed else part
