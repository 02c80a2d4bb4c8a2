"""From Equinox: a module that is a function of one example, or of one and the state of its layers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import require, warn
from fedloom.tasks.bfloat16 import in_bfloat16
from fedloom.tasks.equinox_norms import norms
from fedloom.tasks.forms import applied
from fedloom.tasks.inputs import seen, tokens_of
from fedloom.tasks.mixed import in_precision
from fedloom.tasks.objective import supervised
from fedloom.tasks.replacing import replaced
from fedloom.tasks.task import Task, Variables
from fedloom.tasks.user_model import as_before, library, trained, whole_as_float
from fedloom.trees import flatten, names

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree

    from fedloom.tasks.inputs import Inputs
    from fedloom.tasks.objective import Losses, Metrics, Objective

AXIS = "batch"  # what layers that look at the whole batch (batch norm) call it


def from_equinox(
    module: Any,
    loss: str | Objective | Losses = "cross_entropy",
    *,
    state: Any = None,
    metrics: Metrics | None = None,
    inputs: Inputs = None,
    name: str | None = None,
    precision: str = "float32",
) -> Task:
    """A task from an Equinox module, which begins with the weights that the module has.

    ``task.give_back(run.variables)`` is such a module with the trained weights, and its state where it has one. Layers
    that are in inference mode stay in it.

    Arguments:
        module: the model, a function of one example: ``module(x)``, ``module(x, key=key)`` where it draws random
            numbers, ``module(x, state)`` → (output, state) where it has one. Batch norm calls its axis ``batch``.
        loss, metrics: what outputs are judged by; see :func:`fedloom.tasks.objective`.
        state: the state of its layers (of ``eqx.nn.make_with_state``), where they have one.
        inputs: the shape of an example that the module wants, or a function from the column x to what it wants.
        name: what it is called in tables; by default as its class.
        precision: what training computes in: ``float32``, or ``bfloat16`` (:func:`fedloom.tasks.mixed`).
    """
    eqx = library("equinox", "equinox")
    require(isinstance(module, eqx.Module) and callable(module), "module", "an equinox.Module to be called", module)
    _warn_of_inference(module)
    learnt, rest = eqx.partition(module, eqx.is_inexact_array)
    kept, fixed = eqx.partition(state, eqx.is_array)
    shape = {"params": jax.tree.structure(learnt), "state": jax.tree.structure(kept)}
    params, own = (
        dict(zip(names(tree), map(np.asarray, jax.tree.leaves(tree)), strict=True)) for tree in (learnt, kept)
    )
    types, buffers = {n: jax.dtypes.canonicalize_dtype(a.dtype) for n, a in own.items()}, whole_as_float(own)
    shapes = {n: a.shape for n, a in flatten(Variables(params, buffers)).items()}
    draws = "key" in inspect.signature(type(module).__call__).parameters
    look = seen(inputs, tokens=tokens_of(loss))

    def whole(params: Mapping[str, Array], buffers: Mapping[str, Array]) -> tuple[Any, Any]:
        mine = jax.tree.unflatten(shape["params"], list(params.values()))
        own = jax.tree.unflatten(shape["state"], list(as_before(buffers, types).values()))
        return eqx.combine(mine, rest), eqx.combine(own, fixed)

    def init(key: Key[Array, ""]) -> Variables:  # noqa: ARG001
        return Variables(jax.tree.map(jnp.asarray, params), jax.tree.map(jnp.asarray, buffers))

    def forward(given: PyTree, aside: PyTree, x: Array, key: Key[Array, ""] | None) -> Any:
        model, own = whole({n: given[n] for n in params}, {n: aside[n] for n in buffers})
        model = eqx.nn.inference_mode(model, True) if key is None else model
        keys = jax.random.split(jax.random.key(0) if key is None else key, len(x))
        words = lambda k: {"key": k} if draws else {}  # noqa: E731
        if state is None:
            with replaced(norms()):
                return jax.vmap(lambda x, k: model(x, **words(k)), axis_name=AXIS)(x, keys), aside
        one = lambda x, k: model(x, own, **words(k))  # noqa: E731
        with replaced(norms()):
            found, after = jax.vmap(one, axis_name=AXIS, out_axes=(0, None))(x, keys)
        if key is None:
            return found, aside
        return found, whole_as_float(dict(zip(buffers, jax.tree.leaves(eqx.filter(after, eqx.is_array)), strict=True)))

    def give_back(variables: Variables) -> Any:
        found = trained(variables, shapes)
        model, own = whole(
            {n: jnp.asarray(found[f"params.{n}"]) for n in params},
            {n: jnp.asarray(found[f"state.{n}"]) for n in buffers},
        )
        return model if state is None else (model, own)

    called = name or type(module).__name__
    plain, rounded = applied(forward, look), applied(in_bfloat16(forward), look)
    task = supervised(called, init, plain, loss, metrics=metrics, give_back=give_back, rounded=rounded)
    return in_precision(task, precision)


def _warn_of_inference(module: Any) -> None:
    """Warn if all layers that know an inference mode are in it."""
    is_layer = lambda part: hasattr(part, "inference")  # noqa: E731
    layers = [part for part in jax.tree.leaves(module, is_leaf=is_layer) if is_layer(part)]
    if layers and all(part.inference is True for part in layers):
        warn(
            f"all layers of {type(module).__name__} with dropout or running statistics are in inference mode, and stay "
            "in it: call eqx.nn.inference_mode(module, False) first, unless that is what you want"
        )
