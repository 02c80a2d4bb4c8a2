"""Reply: what a client sends back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.tasks.task import Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float


@record
class Reply:
    """What a client sends back.

    Arguments:
        update: its variables after local work minus those it was sent.
        examples: how many training examples it has.
    """

    update: Variables
    examples: Float[Array, ""]
