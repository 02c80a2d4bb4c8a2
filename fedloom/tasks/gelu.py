"""GELU as one operation of a traced program, so that a kernel computes it on a CPU.

PyTorch's and Keras' modules call ``jax.nn.gelu``, which would be traced as the operations that it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import fedloom.kernels.processor as processor
from fedloom.machine import devices

if TYPE_CHECKING:
    from jaxtyping import Array

by_jax: Any = jax.nn.gelu
operation = Primitive("gelu")


@contextmanager
def calls_of_gelu() -> Iterator[None]:
    """Inside, ``jax.nn.gelu`` is this module's operation where a kernel may compute it."""
    before = jax.nn.gelu
    jax.nn.gelu = as_jax
    try:
        yield
    finally:
        jax.nn.gelu = before


def as_jax(x: Any, approximate: bool = True) -> Any:
    """Do what ``jax.nn.gelu`` does."""
    x = jnp.asarray(x)
    if x.dtype != jnp.float32 or devices()[0].platform != "cpu" or not processor.width():
        return by_jax(x, approximate)
    return operation.bind(x, approximate=bool(approximate))


def fastest(x: Array, *, approximate: bool) -> Array:
    """Return GELU by a kernel; by XLA in other types than float32."""
    if x.dtype != jnp.float32 or x.size == 0:
        found: Array = by_jax(x, approximate)
        return found
    from fedloom.kernels.gelu import gelu  # needs llvmlite

    return gelu(approximate, x)


operation.def_impl(partial(jax.jit, static_argnames="approximate")(by_jax))
operation.def_abstract_eval(lambda x, **options: x.update())  # noqa: ARG005
ad.primitive_jvps[operation] = lambda primals, tangents, **options: jax.jvp(
    partial(by_jax, **options), primals, tuple(map(ad.instantiate_zeros, tangents))
)
batching.defvectorized(operation)
mlir.register_lowering(operation, mlir.lower_fun(by_jax, multiple_results=False))
