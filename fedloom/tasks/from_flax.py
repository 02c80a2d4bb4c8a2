"""From Flax: a Linen module, or an NNX one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import ArgumentError, Told, require, warn
from fedloom.tasks.bfloat16 import in_bfloat16
from fedloom.tasks.flax_attention import linen_attention
from fedloom.tasks.flax_norms import linen_norms, norms
from fedloom.tasks.forms import UNTRACEABLE, applied
from fedloom.tasks.inputs import seen, tokens_of
from fedloom.tasks.mixed import in_precision
from fedloom.tasks.objective import supervised
from fedloom.tasks.replacing import replaced
from fedloom.tasks.task import Task, Variables
from fedloom.tasks.user_model import as_before, library, restored, trained, whole_as_float
from fedloom.trees import flatten, unflatten

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree

    from fedloom.tasks.inputs import Inputs
    from fedloom.tasks.objective import Losses, Metrics, Objective

TRAINS, RESTS = ("train", "training", "is_training"), ("deterministic", "eval")
"""What the argument is called that tells a Linen module to train, or not to."""
MODES = ("use_running_average", "deterministic")
"""The attributes that say that a layer of an NNX module is in eval mode."""


def from_flax(
    module: Any,
    loss: str | Objective | Losses = "cross_entropy",
    *,
    inputs: Inputs = None,
    like: Any = None,
    metrics: Metrics | None = None,
    name: str | None = None,
    precision: str = "float32",
) -> Task:
    """Return a task from a Flax module.

    A Linen module is initialised from the run's seed. An NNX module begins with the weights that it has, and
    ``task.give_back(run.variables)`` is the module itself with the trained ones; for Linen it is the dictionary of
    variables. A Linen module is told to train by its argument ``train``, ``training`` or ``deterministic``. Layers of
    an NNX module that are in eval mode (``use_running_average=True``, ``deterministic=True``) stay in it.

    Args:
        module: the model; its outputs are logits, not probabilities.
        loss, metrics: what outputs are judged by; see :func:`fedloom.tasks.objective`.
        inputs: the shape of an example that the module wants, or a function from the column x to what it wants.
        like: for Linen with a function as inputs, an example of the column x.
        name: what it is called in tables; by default as its class.
        precision: what training computes in: ``float32``, or ``bfloat16`` (:func:`fedloom.tasks.mixed`).
    """
    flax = library("flax", "flax")
    library("flax.linen", "flax")
    nnx = library("flax.nnx", "flax")
    tokens = tokens_of(loss)
    look = seen(inputs, tokens=tokens)
    called = name or type(module).__name__
    if isinstance(module, flax.linen.Module):
        init, forward, give_back = _linen(module, _example(inputs, like, look, bool(tokens)))
    else:
        require(isinstance(module, nnx.Module), "module", "a flax.linen.Module or flax.nnx.Module", module)
        init, forward, give_back = _nnx(module)
    plain, rounded = applied(forward, look), applied(in_bfloat16(forward), look)
    task = supervised(called, init, plain, loss, metrics=metrics, give_back=give_back, rounded=rounded)
    return in_precision(task, precision)


def _example(inputs: Inputs, like: Any, look: Callable[[Array], Array], tokens: bool) -> Array:
    """Return a batch of one, as the module sees it; of zeros if only its shape is known."""
    if like is None and not isinstance(inputs, tuple):
        raise ArgumentError("inputs", "the shape of an example, from which a Linen module takes its own", inputs)
    if isinstance(inputs, tuple):
        return jnp.zeros((1, *inputs), jnp.int32 if tokens else float)
    return look(jnp.asarray(like)[None])


def _linen(module: Any, example: Array) -> tuple[Callable[..., Any], ...]:
    taken = inspect.signature(type(module).__call__).parameters
    known = {t: True for t in TRAINS if t in taken} | {r: False for r in RESTS if r in taken}

    def told(training: bool) -> dict[str, bool]:
        return {word: yes == training for word, yes in known.items()}

    def init(key: Key[Array, ""]) -> Variables:
        first, second = jax.random.split(key)
        draws = {"params": first, "dropout": second}
        try:
            found = dict(module.init(draws, example, **told(False)))
        except UNTRACEABLE:  # of floats, where the module wants integers
            found = dict(module.init(draws, example.astype(jnp.int32), **told(False)))
        return Variables(found.pop("params"), found)

    def forward(params: PyTree, state: PyTree, x: Array, key: Key[Array, ""] | None) -> Any:
        with library("flax.linen", "flax").intercept_methods(linen_attention), linen_norms():
            return applied_to(params, state, x, key)

    def applied_to(params: PyTree, state: PyTree, x: Array, key: Key[Array, ""] | None) -> Any:
        if key is None:
            return module.apply({"params": params, **state}, x, **told(False)), state
        draws = {"dropout": key}
        if not state:
            return module.apply({"params": params}, x, rngs=draws, **told(True)), state
        found, changed = module.apply({"params": params, **state}, x, rngs=draws, mutable=list(state), **told(True))
        return found, {**state, **changed}

    def give_back(variables: Variables) -> Any:
        mine = restored(variables, init)
        return {"params": mine.params, **mine.state}

    return init, forward, give_back


def _nnx(module: Any) -> tuple[Callable[..., Any], ...]:
    nnx = library("flax.nnx", "flax")
    plan, learnt, draws, kept = nnx.split(module, nnx.Param, nnx.RngState, ...)
    params, others = nnx.to_pure_dict(learnt), nnx.to_pure_dict(kept)
    whole = flatten(others)
    types = {n: jax.dtypes.canonicalize_dtype(a.dtype) for n, a in whole.items()}
    begun = jax.tree.map(np.asarray, params), whole_as_float(whole)
    shapes = {n: a.shape for n, a in flatten(Variables(*begun)).items()}
    resting = _in_eval_mode(nnx, module)

    def init(key: Key[Array, ""]) -> Variables:  # noqa: ARG001
        return Variables(*jax.tree.map(jnp.asarray, begun))

    def forward(params: PyTree, state: PyTree, x: Array, key: Key[Array, ""] | None) -> Any:
        now = unflatten(others, as_before(state, types))
        seeded = _drawn(nnx.to_pure_dict(draws), jax.random.key(0) if key is None else key)
        parts = (learnt, params), (draws, seeded), (kept, now)
        model = nnx.merge(plan, *(_filled(nnx, part, values) for part, values in parts))
        if key is None:
            model.eval()
            with replaced(norms()):
                return model(x), state
        model.train()
        layers = dict(nnx.iter_graph(model))
        for path, name in resting:
            setattr(layers[path], name, True)
        before = _static_numbers(nnx, model)
        with replaced(norms()):
            found = model(x)
        _check_unchanged(before, _static_numbers(nnx, model))
        after = nnx.to_pure_dict(nnx.split(model, nnx.Param, nnx.RngState, ...)[3])
        return found, whole_as_float(dict(zip(whole, jax.tree.leaves(after), strict=True)))

    def give_back(variables: Variables) -> Any:
        found = trained(variables, shapes)
        mine = unflatten(Variables(*begun), found)
        nnx.update(module, _filled(nnx, learnt, mine.params))
        nnx.update(module, _filled(nnx, kept, unflatten(others, as_before(mine.state, types))))
        return module

    return init, forward, give_back


def _in_eval_mode(nnx: Any, module: Any) -> list[tuple[Any, str]]:
    """Return where the layers of an NNX module are that stay in eval mode, and the attribute that says so."""
    flags = {(path, name): getattr(layer, name) for path, layer in nnx.iter_graph(module)
             if isinstance(layer, nnx.Module) for name in MODES if hasattr(layer, name)}  # fmt: skip
    if flags and all(flags.values()):
        warn(
            f"all layers of {type(module).__name__} with dropout or running statistics are in eval mode, and stay in "
            "it: call module.train() first, unless that is what you want"
        )
    return [place for place, rests in flags.items() if rests]


def _static_numbers(nnx: Any, model: Any) -> dict[Any, Any]:
    """Return the plain numbers among the attributes of an NNX module's layers."""
    return {path: value for path, value in nnx.iter_graph(model) if isinstance(value, int | float)}


def _check_unchanged(before: dict[Any, Any], after: dict[Any, Any]) -> None:
    """Raise an :class:`ArgumentError` if a plain number was assigned to: it would be lost after the call."""
    for path, value in before.items():
        if path in after and after[path] is not value:
            name = ".".join(map(str, path))
            need = "one that keeps what it changes in an nnx.Variable"
            raise ArgumentError("module", need, Told(f"one that assigns to {name}, a plain number, when it is called"))


def _drawn(draws: PyTree, key: Key[Array, ""]) -> PyTree:
    """The sources of random numbers of a module, begun anew from a key."""
    leaves, shape = jax.tree.flatten(draws)
    is_key = lambda a: jnp.issubdtype(a.dtype, jax.dtypes.prng_key)  # noqa: E731
    fresh = [jax.random.fold_in(key, i) if is_key(a) else jnp.zeros_like(a) for i, a in enumerate(leaves)]
    return jax.tree.unflatten(shape, fresh)


def _filled(nnx: Any, state: Any, values: PyTree) -> Any:
    """A state of a module with other values."""
    fresh = jax.tree.map(lambda a: a, state)
    nnx.replace_by_pure_dict(fresh, values)
    return fresh
