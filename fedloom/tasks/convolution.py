"""Convolution: what there is to say about one, all but its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jax import lax

if TYPE_CHECKING:
    from jaxtyping import Array


@dataclass(frozen=True)
class Convolution:
    """The options of a ``lax.conv_general_dilated``, all but which of its axes is which: images are (batch, …,
    channels), weights (…, inputs, outputs).
    """

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    spread: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    batch_groups: int
    precision: Any
    result: Any

    def plain(self, x: Array, w: Array) -> Array:
        """By ``lax.conv_general_dilated``."""
        n = len(self.strides)
        order = lax.ConvDimensionNumbers(
            (0, n + 1, *range(1, n + 1)), (n + 1, n, *range(n)), (0, n + 1, *range(1, n + 1))
        )
        return lax.conv_general_dilated(
            x, w, self.strides, self.padding, self.spread, self.dilation, order, self.groups, self.batch_groups,
            self.precision, self.result,
        )  # fmt: skip


def ordered(params: dict[str, Any]) -> tuple[Convolution, tuple[tuple[int, ...], ...]]:
    """The options, and how to transpose images and weights into our order, and how the result would be."""
    how = Convolution(
        tuple(params["window_strides"]),
        tuple(params["padding"]),
        tuple(params["lhs_dilation"]),
        tuple(params["rhs_dilation"]),
        params["feature_group_count"],
        params["batch_group_count"],
        params["precision"],
        params["preferred_element_type"],
    )
    (b, c, *place), (o, i, *within), (ob, oc, *out) = params["dimension_numbers"]
    return how, ((b, *place, c), (*within, i, o), (ob, *out, oc))
