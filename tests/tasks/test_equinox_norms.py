"""Equinox's norms: the numbers of Equinox, and far from zero better ones."""

from typing import Any

import jax
import numpy as np
import pytest
from norm_cases import EPSILON, Case, agree, drawn, error, exact, is_tested, outcomes

eqx = pytest.importorskip("equinox")

from fedloom.tasks.equinox_norms import norms  # noqa: E402
from fedloom.tasks.replacing import replaced  # noqa: E402

nn = eqx.nn


def case(layer: Any, x: np.ndarray, state: Any = None) -> Case:
    """A layer as a function of a batch and its parameters, with the state that it then has."""
    params, rest = eqx.partition(layer, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(params)

    def function(x: Any, *values: Any) -> Any:
        model = eqx.combine(jax.tree.unflatten(tree, values), rest)
        if state is None:
            return jax.vmap(model)(x), ()
        y, after = jax.vmap(model, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(x, state)
        return y, jax.tree.leaves(after)

    return function, (x, *(drawn(*a.shape) + i for i, a in enumerate(leaves)))


def batch(**options: Any) -> tuple[Any, Any]:
    return nn.make_with_state(nn.BatchNorm)(4, "batch", eps=EPSILON, momentum=0.8, **options)


class Own(nn.GroupNorm):  # type: ignore[misc, name-defined]
    def __call__(self, x: Any) -> Any:
        return 2 * x


def test_norms_are_those_of_equinox() -> None:
    cases: dict[str, Case] = {}
    for rows in (3, 1):
        x = drawn(rows, 4, 5, 3)
        kinds = {
            "layer": (nn.LayerNorm((4, 5, 3), EPSILON),),
            "layer without bias": (nn.LayerNorm((4, 5, 3), EPSILON, use_bias=False),),
            "layer, bare": (nn.LayerNorm((4, 5, 3), EPSILON, use_weight=False, use_bias=False),),
            "group": (nn.GroupNorm(2, 4, EPSILON),),
            "group, bare": (nn.GroupNorm(4, None, EPSILON, channelwise_affine=False),),
            "own": (Own(2, 4),),
            "batch": batch(mode="batch"),
            "batch, bare": batch(mode="batch", channelwise_affine=False),
            "running": batch(mode="ema"),
            "inference": batch(mode="batch", inference=True),
        }
        cases |= {
            f"{name}, {rows}": case(*[layer[0], x, *layer[1:]])
            for name, layer in kinds.items()
            if is_tested(name, rows)
        }
    agree(outcomes(cases, replaced(norms())), outcomes(cases), 2e-5)


def test_norms_far_from_zero_are_accurate() -> None:
    x = drawn(6, 4, 13, 15, mean=1000.0)
    cases = {
        "layer": case(nn.LayerNorm((4, 13, 15), EPSILON, use_weight=False, use_bias=False), x),
        "group": case(nn.GroupNorm(4, None, EPSILON, channelwise_affine=False), x),
        "batch": case(*[(made := batch(mode="batch", channelwise_affine=False))[0], x, made[1]]),
    }
    found = outcomes(cases, replaced(norms()))
    for name, axes in {"layer": (1, 2, 3), "group": (2, 3), "batch": (0, 2, 3)}.items():
        y, gradient = exact(x, axes)
        assert error(found[name]["y"], y) < 1e-6 and error(found[name]["gradients"][0], gradient) < 1e-6


def test_a_state_passes_through_and_wrong_shapes_are_refused() -> None:
    layer, x, state = nn.LayerNorm(3), drawn(1, 3)[0], object()
    with replaced(norms()):
        assert layer(x, state)[1] is layer(x, state=state)[1] is state
        with pytest.raises(ValueError, match="must satisfy"):
            layer(drawn(2, 3))
