"""The norms of Linen and NNX: the numbers of Flax, and far from zero better ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from norm_cases import EPSILON, Case, agree, drawn, error, exact, is_tested, outcomes

linen, nnx = pytest.importorskip("flax.linen"), pytest.importorskip("flax.nnx")

from fedloom.tasks.flax_norms import linen_norms, norms  # noqa: E402
from fedloom.tasks.replacing import replaced  # noqa: E402


def of_linen(layer: Any, x: np.ndarray, **options: Any) -> Case:
    """A layer as a function of its inputs and parameters, with the statistics that it then has."""
    features = x.shape[-1]
    statistics = {"mean": drawn(features), "var": np.abs(drawn(features, 1)[:, 0])}
    names = [name for name, used in (("scale", layer.use_scale), ("bias", layer.use_bias)) if used]
    shape = [x.shape[axis] for axis in np.atleast_1d(getattr(layer, "feature_axes", -1))]

    def function(x: Any, *params: Any) -> Any:
        variables = {"params": dict(zip(names, params, strict=True))}
        if isinstance(layer, linen.BatchNorm):
            variables["batch_stats"] = statistics
        return layer.apply(variables, x, mutable=["batch_stats"], **options)

    return function, (x, *(drawn(*shape) + i for i, _ in enumerate(names)))


def of_nnx(layer: Any, x: np.ndarray, **options: Any) -> Case:
    plan, params, rest = nnx.split(layer, nnx.Param, ...)
    names = list(nnx.to_pure_dict(params))

    def function(x: Any, *values: Any) -> Any:
        now, others = (jax.tree.map(lambda a: a, state) for state in (params, rest))
        nnx.replace_by_pure_dict(now, dict(zip(names, values, strict=True)))
        model = nnx.merge(plan, now, others)
        y = model(x, **options)
        return y, nnx.to_pure_dict(nnx.state(model, nnx.BatchStat))

    return function, (x, *(drawn(x.shape[-1]) + i for i, _ in enumerate(names)))


class OwnLinen(linen.GroupNorm):  # type: ignore[misc, name-defined]
    def __call__(self, x: Any) -> Any:
        return 2 * x


class OwnNnx(nnx.GroupNorm):  # type: ignore[misc, name-defined]
    def __call__(self, x: Any) -> Any:
        return super().__call__(x) + 1


def test_norms_are_those_of_linen() -> None:
    bare = {"use_bias": False, "use_scale": False}
    cases: dict[str, Case] = {}
    for rows in (3, 1):
        x = drawn(rows, 5, 3, 4)
        kinds = {
            "batch": linen.BatchNorm(False, momentum=0.8, epsilon=EPSILON),
            "batch, bare": linen.BatchNorm(False, epsilon=EPSILON, **bare),
            "tested": linen.BatchNorm(True, epsilon=EPSILON),
            "layer": linen.LayerNorm(epsilon=EPSILON, use_bias=False),
            "layer of two axes": linen.LayerNorm(epsilon=EPSILON, reduction_axes=(1, 2), feature_axes=(2, 3)),
            "layer, bare": linen.LayerNorm(epsilon=EPSILON, **bare),
            "group": linen.GroupNorm(2, epsilon=EPSILON),
            "group of one axis": linen.GroupNorm(None, 2, epsilon=EPSILON, reduction_axes=(2, 3)),
            "group, bare": linen.GroupNorm(4, epsilon=EPSILON, **bare),
            "instance": linen.InstanceNorm(epsilon=EPSILON),
            "own": OwnLinen(2, **bare),
        }
        cases |= {f"{name}, {rows}": of_linen(layer, x) for name, layer in kinds.items() if is_tested(name, rows)}
    mask = np.arange(5)[:, None, None] < 3
    cases["masked"] = of_linen(linen.LayerNorm(epsilon=EPSILON, reduction_axes=(1, 2)), drawn(2, 5, 3, 4), mask=mask)
    agree(outcomes(cases, linen_norms()), outcomes(cases), 2e-5)


def test_norms_are_those_of_nnx() -> None:
    bare: dict[str, Any] = {"use_bias": False, "use_scale": False, "rngs": nnx.Rngs(0), "epsilon": EPSILON}
    more: dict[str, Any] = {"rngs": nnx.Rngs(0), "epsilon": EPSILON}
    cases: dict[str, Case] = {}
    for rows in (3, 1):
        kinds = {
            "batch": nnx.BatchNorm(4, momentum=0.8, **more),
            "batch, bare": nnx.BatchNorm(4, **bare),
            "tested": nnx.BatchNorm(4, use_running_average=True, **more),
            "layer": nnx.LayerNorm(4, **more),
            "layer, bare": nnx.LayerNorm(4, **bare),
            "group": nnx.GroupNorm(4, 2, **more),
            "group, bare": nnx.GroupNorm(4, 4, **bare),
            "instance": nnx.InstanceNorm(4, **more),
            "own": OwnNnx(4, 2, **more),
        }
        cases |= {
            f"{name}, {rows}": of_nnx(layer, drawn(rows, 5, 3, 4))
            for name, layer in kinds.items()
            if is_tested(name, rows)
        }
    agree(outcomes(cases, replaced(norms())), outcomes(cases), 2e-5)


def test_norms_far_from_zero_are_accurate_with_the_fast_variance() -> None:
    x = drawn(6, 13, 15, 4, mean=1000.0)
    bare: dict[str, Any] = {"use_bias": False, "use_scale": False, "epsilon": EPSILON}
    axes = {"batch": ((0, 1, 2), 0), "layer": ((3,), 0), "group": ((1, 2), 2), "instance": ((1, 2), 0)}
    ours = {
        "batch": linen.BatchNorm(False, **bare),
        "layer": linen.LayerNorm(**bare),
        "group": linen.GroupNorm(2, **bare),
        "instance": linen.InstanceNorm(**bare),
    }
    bare["rngs"] = nnx.Rngs(0)
    theirs = {
        "batch": nnx.BatchNorm(4, **bare),
        "layer": nnx.LayerNorm(4, **bare),
        "group": nnx.GroupNorm(4, 2, **bare),
        "instance": nnx.InstanceNorm(4, **bare),
    }
    found = outcomes({name: of_linen(layer, x) for name, layer in ours.items()}, linen_norms())
    same = outcomes({name: of_nnx(layer, x) for name, layer in theirs.items()}, replaced(norms()))
    for name, (over, groups) in axes.items():
        y, gradient = exact(x, over, groups)
        for outcome in (found[name], same[name]):
            assert error(outcome["y"], y) < 1e-6 and error(outcome["gradients"][0], gradient) < 1e-6


def test_what_flax_refuses_stays_refused() -> None:
    x = jnp.zeros((2, 3, 6))
    for layer, words in ((linen.GroupNorm(4), "does not divide"), (linen.GroupNorm(2, 3), "should be")):
        with linen_norms(), pytest.raises(ValueError, match=words):
            layer.apply({"params": {"scale": jnp.ones(6), "bias": jnp.ones(6)}}, x)
    with replaced(norms()), pytest.raises(ValueError, match="use_running_average"):
        nnx.BatchNorm(6, rngs=nnx.Rngs(0), use_running_average=None)(x)


def test_types_are_those_of_flax() -> None:
    x = jnp.asarray(drawn(2, 3, 4), jnp.bfloat16)
    for layer in (linen.LayerNorm(), linen.LayerNorm(dtype=jnp.bfloat16), linen.LayerNorm(param_dtype=jnp.bfloat16)):
        variables = {"params": {n: jnp.ones(4, layer.param_dtype) for n in ("scale", "bias")}}
        own = layer.apply(variables, x)
        with linen_norms():
            assert layer.apply(variables, x).dtype == own.dtype
