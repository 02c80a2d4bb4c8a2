"""The facts about one client in one round that local work may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key

    Scalar = Float[Array, ""] | float


@record
class Client:
    """Scalars that a client knows about its own round.

    Arguments:
        examples: the number of its training examples.
        steps: the number of optimiser steps that the shared model takes.
        lr: the learning rate of the round.
        round: the number of the round, from 0 on.
        key: a random key of this client and round, different from the keys of its steps.
        readings: measures of the client's model taken before its work, by name.
    """

    examples: Int[Array, ""]
    steps: Int[Array, ""]
    lr: Scalar
    round: Int[Array, ""]
    key: Key[Array, ""]
    readings: dict[str, Float[Array, ""]]
