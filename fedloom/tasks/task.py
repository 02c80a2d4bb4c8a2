"""Task: what is learned, as three pure functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedloom.direction import BUILT_IN, Better, Directions
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Key, PyTree

Batch = dict[str, Any]
"""Column name → the rows of a batch."""


@record
class Variables:
    """Everything a model is made of.

    Arguments:
        params: what gradients train.
        state: what the forward pass updates instead (running statistics of batch norm); an empty dictionary for most.
    """

    params: PyTree
    state: PyTree


Loss = Callable[[Variables, Batch, "Key[Array, '']"], tuple["Float[Array, ' batch']", "PyTree"]]
"""(variables, batch, random key) → (the loss of each example, the new state)."""


@dataclass(frozen=True)
class Task:
    """What is learned, as three pure functions.

    Arguments:
        name: what it is called in tables.
        init: random key → variables.
        loss: (variables, batch, random key) → (the loss of each example, the new state). Losses come per example so
            that masks and weights are exact; an example's loss must not depend on the others, because batches are
            computed in pieces, and beside others' examples (batch norm, which has a state, is known to).
        metrics: (variables, batch) → for each metric its value for each example, and under ``count`` what those values
            are out of (1 for an example that is judged once); the mean is Σ value / Σ count, over any batches.
        classes: how many classes it tells apart, where it does and knows.
        outputs: (variables, inputs) → what the model gives; inputs in the types in which data keeps its column ``x``,
            of which ``uint8`` and ``uint16`` are pixels.
        fits: (shape of an example's outputs, of its label, classes) → what the outputs should be, if they are not.
        give_back: variables → the user's own model, with them in it.
        client: a client's examples by part → the client, which trains and judges by its own code (see
            :mod:`fedloom.clients`); there is then nothing to compile, and loss and metrics are never called.
        squashes: the activation that the loss applies itself; outputs must be without any that squashes numbers.
        rounded_loss: the loss whose model is computed in bfloat16 (:func:`fedloom.tasks.mixed`), where a user's model
            is rewritten for that.
        better: (metric, ``"higher"`` or ``"lower"``) for each metric of the user's own of which it is declared.
        overall: (metric, function) for each metric over all predictions of a part: (outputs, batch of all columns but
            x) → one number. It needs ``outputs``.
    """

    name: str
    init: Callable[[Key[Array, ""]], Variables]
    loss: Loss
    metrics: Callable[[Variables, Batch], dict[str, Float[Array, " batch"]]]
    classes: int | None = None
    outputs: Callable[[Variables, Array], PyTree] | None = None
    fits: Callable[[PyTree, tuple[int, ...], int], str] | None = None
    give_back: Callable[[Variables], Any] | None = None
    client: Callable[[dict[str, Batch]], Any] | None = None
    squashes: str = ""
    rounded_loss: Loss | None = None
    better: tuple[tuple[str, Better], ...] = ()
    overall: tuple[tuple[str, Callable[[PyTree, Batch], Any]], ...] = ()

    @property
    def directions(self) -> Directions:
        """Whether a higher or a lower value is better, for each metric with a direction."""
        return {**BUILT_IN, **dict(self.better)}
