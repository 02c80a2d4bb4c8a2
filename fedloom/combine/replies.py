"""Replies: what a cohort sent back, but for the updates themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedloom.direction import BUILT_IN, Better
from fedloom.errors import choose
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int

PARTS = {"validation": "validation", "training": "train", "test": "test"}
MOMENTS = ("before", "after")


@record
class Replies:
    """What a cohort sent back, but for the updates themselves: one row a client.

    Arguments:
        examples: how many training examples each has.
        present: whether there is a reply at all; a row without one counts for nothing, whatever is in it.
        readings: the name of a :class:`Reading` → what each client read.
        change: ‖Δw‖², how far each came; where a weighting looks at it.
        rate: the learning rate they worked with; likewise.
        round: the round's number, from 0 on; where a mixer looks at it.
    """

    examples: Float[Array, " m"]
    present: Bool[Array, " m"]
    readings: dict[str, Float[Array, " m"]]
    change: Float[Array, " m"] | None = None
    rate: Float[Array, ""] | None = None
    round: Int[Array, ""] | None = None


@dataclass(frozen=True)
class Reading:
    """A measure of a client's model that a weighting looks at; build it with :func:`reading`.

    Arguments:
        part, metric, moment: see :func:`reading`.
        better: whether a higher or a lower value is better; ``None`` until a task that declares it is known.

    It is taken on the client's own part of that name. Where nobody has such a part of their own but the data has one
    that is nobody's, it is taken on that, by the server.
    """

    part: str
    metric: str
    moment: str
    better: Better | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.part}_{self.metric}_{self.moment}"


def reading(metric: str = "accuracy", on: str = "validation", moment: str = "after") -> Reading:
    """A measure of each client's model.

    Arguments:
        metric: one of the task's: ``accuracy``, ``loss``, ``error`` or a user's own.
        on: ``validation``, ``training`` or ``test``.
        moment: ``before`` local training, of the model the client was sent, or ``after``, of the one it sends back.

    >>> reading("accuracy", moment="before").name
    'validation_accuracy_before'
    """
    choose("moment", moment, dict.fromkeys(MOMENTS))
    return Reading(choose("on", on, PARTS), metric, moment, BUILT_IN.get(metric))
