"""Layer scan: equal layers as one scan give the numbers of the program that writes each layer out."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import fedloom.tasks.layer_scan as layer_scan
from fedloom.tasks.layer_scan import scanned

DEPTH, WIDTH = 5, 8
KEY = jax.random.key(3)
X = jax.random.normal(jax.random.key(1), (4, WIDTH))
Params = list[dict[str, jax.Array]]


@pytest.fixture(autouse=True)
def small_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan pays from a few operations on."""
    monkeypatch.setattr(layer_scan, "LEAST_COUNT", 3)
    monkeypatch.setattr(layer_scan, "LEAST_SAVED", 10)
    scanned.cache_clear()


def params(seed: int = 0) -> Params:
    keys = jax.random.split(jax.random.key(seed), DEPTH)
    return [{"w": jax.random.normal(k, (WIDTH, WIDTH)) / 3, "b": jax.random.normal(k, (WIDTH,))} for k in keys]


def dense(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x + jax.nn.relu(x @ p["w"] + p["b"])


def residual(ps: Params, x: jax.Array, key: jax.Array) -> Any:  # noqa: ARG001
    for p in ps:
        x = dense(p, x)
    return (x**2).sum(), ()


def dropped_out(ps: Params, x: jax.Array, key: jax.Array) -> Any:
    for p in ps:
        key, mine = jax.random.split(key)
        x = dense(p, x) * jax.random.bernoulli(mine, 0.8, x.shape)
    return (x**2).sum(), ()


def own_keys(ps: Params, x: jax.Array, key: jax.Array) -> Any:
    """Each layer folds its own number into one key, as Flax does."""
    for i, p in enumerate(ps):
        x = dense(p, x) * jax.random.bernoulli(jax.random.fold_in(key, 7 * i), 0.8, x.shape)
    return (x**2).sum(), ()


def stateful(ps: Params, x: jax.Array, key: jax.Array) -> Any:  # noqa: ARG001
    """Each layer normalises and returns its mean, and the last one's spread is used too."""
    means = []
    for p in ps:
        x = dense(p, x)
        means.append(x.mean(0))
        spread = jnp.sqrt(x.var(0) + 0.1)
        x = (x - means[-1]) / spread
    return (x**2).sum() + spread.sum(), tuple(means)


def numbered(ps: Params, x: jax.Array, key: jax.Array) -> Any:  # noqa: ARG001
    """Each layer counts less than the one before, by a number of its own, and all see the input."""
    first = x
    for i, p in enumerate(ps):
        x = dense(p, x) * (1 - 0.1 * i) + jnp.sin(first)
    return (x**2).sum(), ()


def twice(ps: Params, x: jax.Array, key: jax.Array) -> Any:  # noqa: ARG001
    """Two groups of equal layers, of other widths."""
    for p in ps:
        x = dense(p, x)
    half = jnp.tanh(x[:, :4])
    for p in ps:
        half = jnp.tanh(half @ p["w"][:4, :4]) + jnp.cos(half) * p["b"][:4]
    return (half**2).sum(), ()


def evaluated(program: Any, ps: Params) -> Any:
    run = jaxpr_as_fun(program)
    leaves, shape = jax.tree.flatten(ps)

    def loss(leaves: list[jax.Array]) -> tuple[jax.Array, list[jax.Array]]:
        first, *rest = run(*leaves, X, KEY)
        return first, rest

    (value, rest), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(leaves)
    return value, rest, jax.tree.unflatten(shape, gradients)


def operations(program: Any) -> list[str]:
    return [e.primitive.name for e in program.jaxpr.eqns]


@pytest.mark.parametrize(
    ("model", "scans"),
    [(residual, 1), (dropped_out, 1), (own_keys, 1), (stateful, 1), (numbered, 1), (twice, 2)],
)
def test_a_scan_gives_the_numbers_and_gradients_of_layers_one_by_one(model: Callable[..., Any], scans: int) -> None:
    traced = jax.make_jaxpr(model)(params(), X, KEY)
    short = scanned(traced)
    assert operations(short).count("scan") == scans
    assert operations(short).count("dot_general") == 0
    for one, other in zip(*(jax.tree.leaves(evaluated(p, params())) for p in (traced, short)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * float(jnp.abs(one).max()))


def test_random_numbers_differ_by_layer_exactly_as_they_did() -> None:
    def masks(ps: Params, x: jax.Array, key: jax.Array) -> Any:
        drawn = []
        for p in ps:
            key, mine = jax.random.split(key)
            drawn.append(jax.random.bits(mine, x.shape))
            x = dense(p, x)
        return x.sum(), tuple(drawn)

    traced = jax.make_jaxpr(masks)(params(), X, KEY)
    short = scanned(traced)
    assert "scan" in operations(short)
    before, after = (evaluated(p, params())[1] for p in (traced, short))
    assert len({np.asarray(a).tobytes() for a in after}) == DEPTH
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_layers_with_other_derivatives_are_not_equal() -> None:
    """Forward they do the same; backward each scales its gradient by a number of its own."""

    def reversing(rate: float) -> Callable[[jax.Array], jax.Array]:
        reverse = jax.custom_vjp(lambda x: x)
        reverse.defvjp(lambda x: (x, ()), lambda _, g: (-rate * g,))
        return reverse

    def model(ps: Params, x: jax.Array, key: jax.Array, rates: tuple[float, ...]) -> Any:  # noqa: ARG001
        for p, rate in zip(ps, rates, strict=True):
            x = reversing(rate)(dense(p, x)) + jnp.sin(x) * jnp.cos(x)
        return (x**2).sum(), ()

    other, same = (
        jax.make_jaxpr(lambda *a, r=rates: model(*a, r))(params(), X, KEY)
        for rates in ((1.0, 2.0, 3.0, 4.0, 5.0), (2.0,) * DEPTH)
    )
    assert "scan" not in operations(scanned(other))
    assert "scan" in operations(scanned(same))


def test_layers_that_take_the_results_of_several_before_them_stay_as_they_are() -> None:
    def model(ps: Params, x: jax.Array, key: jax.Array) -> Any:  # noqa: ARG001
        before, x = x, jnp.sin(x)
        for p in ps:
            before, x = x, dense(p, x) + before
        return (x**2).sum(), ()

    def denser(ps: Params, x: jax.Array, key: jax.Array) -> Any:  # noqa: ARG001
        every = [x]
        for p in ps:
            every.append(sum(dense(p, x) for x in every[-3:]) / 3)
        return (every[-1] ** 2).sum(), ()

    for function in (model, denser):
        traced = jax.make_jaxpr(function)(params(), X, KEY)
        for one, other in zip(
            *(jax.tree.leaves(evaluated(p, params())) for p in (traced, scanned(traced))), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6 * float(jnp.abs(one).max()))


def test_few_layers_and_small_layers_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = jax.make_jaxpr(residual)(params()[:2], X, KEY)
    assert scanned(traced) is traced
    monkeypatch.setattr(layer_scan, "LEAST_SAVED", 100)
    traced = jax.make_jaxpr(residual)(params(), X, KEY)
    assert scanned(traced) is traced


def test_a_transformer_of_pytorch_with_dropout_becomes_one_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from fedloom.tasks import from_torch

    monkeypatch.setattr(layer_scan, "LEAST_SAVED", 100)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    net = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.nn.Flatten())
    task = from_torch(net, "cross_entropy")
    variables = task.init(KEY)
    batch = {"x": jax.random.normal(KEY, (3, 5, 8)), "y": jnp.array([0, 1, 2])}
    traced = jax.make_jaxpr(lambda v, key: task.loss(v, batch, key)[0].sum())(variables, KEY)
    short = scanned(traced)
    assert operations(short).count("scan") == 1
    assert len(operations(short)) < len(operations(traced)) / 4
