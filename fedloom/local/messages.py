"""Messages: what a client is sent, and what it sends back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.tasks.task import Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, PyTree


@record
class Sent:
    """What a client is sent.

    Arguments:
        variables: the model.
        aside: what else the algorithm tells clients, by name; nothing for most.
    """

    variables: Variables
    aside: dict[str, PyTree]


@record
class Reply:
    """What a client sends back.

    Arguments:
        update: its variables after local work minus those it was sent.
        examples: how many training examples it has.
        aside: by how much it changed its part of what is told aside; all clients' parts average to that.
    """

    update: Variables
    examples: Float[Array, ""]
    aside: dict[str, PyTree]
