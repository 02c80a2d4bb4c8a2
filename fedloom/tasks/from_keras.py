"""From Keras: any Keras 3 model on its JAX backend: sequential, functional or subclassed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.data.inputs import white
from fedloom.errors import ArgumentError, require
from fedloom.tasks.bfloat16 import in_bfloat16
from fedloom.tasks.forms import applied
from fedloom.tasks.inputs import seen, tokens_of
from fedloom.tasks.keras_norms import norms
from fedloom.tasks.keras_recurrence import recurrences
from fedloom.tasks.mixed import in_precision
from fedloom.tasks.objective import supervised
from fedloom.tasks.replacing import replaced
from fedloom.tasks.task import Task, Variables
from fedloom.tasks.user_model import as_before, library, trained, whole_as_float

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree

    from fedloom.tasks.inputs import Inputs
    from fedloom.tasks.objective import Losses, Metrics, Objective

SEED = "seed_generator_state"  # what a Keras layer that draws random numbers calls its variable


def from_keras(
    model: Any,
    loss: str | Objective | Losses = "cross_entropy",
    *,
    metrics: Metrics | None = None,
    inputs: Inputs = None,
    name: str | None = None,
    precision: str = "float32",
) -> Task:
    """A task from a Keras model, which begins with the weights that the model has.

    Its layers' own penalties (weight decay) count; its dropout draws from the run's seed; the statistics of batch norm
    are averaged, or kept by each client with :func:`fedloom.fedbn`. ``task.give_back(run.variables)`` is the model
    itself with the trained weights, to be used and saved as any other.

    Arguments:
        model: a built model on the JAX backend (``KERAS_BACKEND=jax``); its outputs are logits, not probabilities.
        loss, metrics: what outputs are judged by; see :func:`fedloom.tasks.objective`.
        inputs: the shape of an example that the model wants (by default what it says itself), or a function from the
            column x to what it wants.
        name: what it is called in tables; by default as the model.
        precision: what training computes in: ``float32``, or ``bfloat16`` (:func:`fedloom.tasks.mixed`).
    """
    keras = library("keras", "keras")
    backend = keras.backend.backend()
    other = "on the JAX backend: set KERAS_BACKEND=jax before keras is imported, or train it as it is (KerasClient)"
    require(backend == "jax", "model", other, backend)
    require(isinstance(model, keras.Model), "model", "a keras.Model", model)
    require(model.built, "model", "built: give it an Input, or call it once on a batch", model.name)
    learnt, rest = model.trainable_variables, model.non_trainable_variables
    kept = [v for v in rest if v.path.split("/")[-1] != SEED]  # the others draw random numbers
    names, others = (called(vs, model.name) for vs in (learnt, kept))
    slots = {id(v): n for n, v in zip(others, kept, strict=True)}
    params = dict(zip(names, map(np.asarray, learnt), strict=True))
    state = whole_as_float(dict(zip(others, map(np.asarray, kept), strict=True)))
    types = {n: jax.dtypes.canonicalize_dtype(v.dtype) for n, v in zip(others, kept, strict=True)}
    shapes = {f"params.{n}": v.shape for n, v in params.items()} | {f"state.{n}": v.shape for n, v in state.items()}
    lookup = f"the first layer of {model.name}" if _takes_integers(model) else ""
    arranged = seen(inputs if inputs is not None else shape_of(model), tokens=tokens_of(loss) or lookup)

    def look(x: Array) -> Array:
        if not callable(inputs) and not lookup:
            check_scaled_once(model, x)
        return arranged(x)

    def init(key: Key[Array, ""]) -> Variables:  # noqa: ARG001
        return Variables(jax.tree.map(jnp.asarray, params), jax.tree.map(jnp.asarray, state))

    def forward(params: PyTree, state: PyTree, x: Array, key: Key[Array, ""] | None) -> Any:
        seed, many = jax.random.key(0) if key is None else key, len(rest) - len(kept)
        seeds, now = iter(jax.random.bits(seed, (many, 2), jnp.uint32)), as_before(state, types)
        given = [now[slots[id(v)]] if id(v) in slots else next(seeds) for v in rest]
        with replaced({**norms(), **recurrences()}):
            outputs, after, penalties = model.stateless_call(
                [params[n] for n in names], given, x, training=key is not None, return_losses=True
            )
        fresh = {slots[id(v)]: a for v, a in zip(rest, after, strict=True) if id(v) in slots}
        return (outputs, sum(penalties, jnp.float32(0))), whole_as_float(fresh)

    def give_back(variables: Variables) -> Any:
        found = trained(variables, shapes)
        for n, v in zip(names, learnt, strict=True):
            v.assign(found[f"params.{n}"])
        for n, v in zip(others, kept, strict=True):
            v.assign(as_before({n: found[f"state.{n}"]}, types)[n])
        return model

    task = supervised(
        name or model.name,
        init,
        applied(forward, look),
        loss,
        metrics=metrics,
        give_back=give_back,
        extra=lambda found: found,
        rounded=applied(in_bfloat16(forward), look),
    )
    return in_precision(task, precision)


def called(variables: Sequence[Any], model: str) -> list[str]:
    """The dotted names of a model's variables: their layers' names, and what they are in them."""
    names = [v.path.removeprefix(f"{model}/").replace("/", ".") for v in variables]
    if len(set(names)) < len(names):
        names = [f"{i}.{n}" for i, n in enumerate(names)]
    return names


def shape_of(model: Any) -> tuple[int, ...] | None:
    """The shape of an example that a model with one input wants, if it says it whole."""
    shape = getattr(model, "input_shape", None)
    if not isinstance(shape, tuple) or any(isinstance(n, tuple | list) for n in shape) or None in shape[1:]:
        return None
    return shape[1:]


def check_scaled_once(model: Any, x: Array | np.ndarray) -> None:
    """Raise an :class:`ArgumentError` if a model begins by scaling pixels that are between 0 and 1 already."""
    first = _first_layer(model)
    if white(x.dtype) and type(first).__name__ == "Rescaling" and np.max(np.abs(first.scale)) <= 2 / white(x.dtype):
        need = (
            "without its Rescaling layer, for images are 0 to 1 already (or let inputs=lambda x: x give it the pixels)"
        )
        raise ArgumentError("model", need, model.name)


def _first_layer(model: Any) -> Any:
    return next((layer for layer in model.layers if type(layer).__name__ != "InputLayer"), None)


def _takes_integers(model: Any) -> bool:
    """Return whether a model's input has an integer type or goes into an embedding, for which Keras rounds floats."""
    given = getattr(model, "inputs", None) or []
    return any("int" in str(i.dtype) for i in given) or type(_first_layer(model)).__name__ == "Embedding"
