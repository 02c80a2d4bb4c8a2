"""Fingerprint: whether two tasks are the same model, by what they compute."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

import fedloom.kernels.processor as processor
from fedloom.data.shapes import Shapes, examples, shapes_of
from fedloom.local.sgd import OPTIMIZERS
from fedloom.tasks import Batch, Task, Variables
from fedloom.version import VERSION

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree

Feed = Callable[[bytes], None]
ADDRESS = re.compile(r"0x[0-9a-f]+")
SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision")
LIBRARIES = ("jax", "keras", "torch", "torchax", "flax", "equinox")  # which programs may be traced through


def fingerprint(task: Task, columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Return a hash of what a task computes, and the versions of the libraries that traced it.

    The hash covers the program of an example's loss, gradient and metrics, constants included. It does not cover the
    weights that the task begins with, so that a script that draws them anew goes on with those that it has trained; nor
    what Python does when the program calls it back; nor, where clients train by code of their own, anything but shapes.
    """
    by = tracers()
    return {"traced": by, "sha256": _hash(task, shapes_of(columns), by)}


@lru_cache(maxsize=32)
def _hash(task: Task, shapes: Shapes, by: str) -> str:  # noqa: ARG001
    """Return the hash for columns of the given shapes and types; once for each task, as it is compiled once."""
    key = jax.random.key(0)

    def whole(variables: Variables, batch: Batch, key: Key[Array, ""]) -> Any:
        if task.client is not None:
            return variables

        def loss(params: PyTree) -> tuple[Array, Any]:
            losses, state = task.loss(replace(variables, params=params), batch, key)
            return losses.sum(), state

        return jax.value_and_grad(loss, has_aux=True)(variables.params), task.metrics(variables, batch)

    found = hashlib.sha256()
    feed(found.update, jax.make_jaxpr(whole)(jax.eval_shape(task.init, key), examples(shapes, 1), key))
    return found.hexdigest()


def optimiser(local: Any) -> str:
    """A hash of what a client's optimiser computes of a number, its gradient, and the learning rate; nothing for one
    that has a name of its own.
    """
    while hasattr(local, "inner"):
        local = local.inner
    make = getattr(local, "optimizer", None)
    if make is None or make in OPTIMIZERS.values():
        return ""

    def twice(lr: Array, w: Array, g: Array) -> Any:
        state = make(lr).init(w)
        first, state = make(lr).update(g, state, w)
        return first, make(lr).update(g, state, w)

    found = hashlib.sha256()
    feed(found.update, jax.make_jaxpr(twice)(jnp.float32(0), jnp.zeros(2), jnp.zeros(2)))
    return found.hexdigest()


def tracers() -> str:
    """Return what decides how a program is written: versions, the device, its kernels, how numbers are computed."""
    loaded = [(name, sys.modules[name]) for name in LIBRARIES if name in sys.modules]
    versions = [f"{name} {getattr(module, '__version__', '')}" for name, module in loaded]
    ways = [f"{name} {getattr(jax.config, name)}" for name in SETTINGS]
    kernels = f"kernels of {processor.width()} numbers"
    return ", ".join([f"fedloom {VERSION}", *versions, jax.default_backend(), kernels, *ways])


def feed(out: Feed, value: Any) -> None:
    """Put a program, or whatever else stands in one, into a hash: the same for all that compute the same by the same
    steps, whatever they are called and whoever was traced before.
    """
    if isinstance(value, ClosedJaxpr):
        _feed_steps(out, value.jaxpr)  # which is itself from JAX 0.11 on
        feed(out, tuple(value.consts))
    elif isinstance(value, Jaxpr):
        _feed_steps(out, value)
    elif isinstance(value, (jax.Array, np.ndarray)):
        plain = np.asarray(jax.random.key_data(value) if _is_key(value) else value)
        out(f"array {plain.dtype} {plain.shape} ".encode())
        out(np.ascontiguousarray(plain).tobytes())
    elif isinstance(value, Mapping):
        for name in sorted(value, key=str):
            out(f"{name}: ".encode())
            feed(out, value[name])
    elif isinstance(value, (tuple, list)):
        out(f"{len(value)} of ".encode())
        for one in value:
            feed(out, one)
    elif not callable(value):
        out(f"{ADDRESS.sub('', repr(value))} ".encode())


def _feed_steps(out: Feed, program: Jaxpr) -> None:
    number: dict[Any, int] = {}

    def told(variable: Any) -> None:
        if isinstance(variable, Literal):
            feed(out, np.asarray(variable.val))
        else:
            out(f" {number.setdefault(variable, len(number))} {variable.aval.str_short()}".encode())

    variable: Any
    for variable in (*program.constvars, *program.invars):
        told(variable)
    for step in used(program):
        out(f"\n{step.primitive.name}".encode())
        for variable in (*step.invars, *step.outvars):
            told(variable)
        feed(out, {name: value for name, value in step.params.items() if name != "name"})
    for variable in program.outvars:
        told(variable)


def used(program: Jaxpr) -> list[Any]:
    """The steps whose results somebody uses: a library that is used for the first time may leave others."""
    needed, found = {v for v in program.outvars if not isinstance(v, Literal)}, []
    for step in reversed(program.eqns):
        if not needed.isdisjoint(step.outvars):
            needed |= {v for v in step.invars if not isinstance(v, Literal)}
            found.append(step)
    return found[::-1]


def _is_key(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
