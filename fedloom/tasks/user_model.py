"""User model: what the adapters to other libraries share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import ArgumentError, FedloomError, MissingExtra, Told
from fedloom.tasks.task import Variables
from fedloom.trees import flatten, names, unflatten


def library(name: str, extra: str) -> ModuleType:
    """Import a library that an extra brings.

    Raises:
        MissingExtra: it is not installed.
        FedloomError: it is installed, but cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        installed = name.split(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name == installed:
            raise MissingExtra(installed, extra) from error
        wanted = f"install versions that fit together: pip install --upgrade 'fedloom[{extra}]'"
        raise FedloomError(f"{installed} is installed, but cannot be imported ({error}): {wanted}") from error


def trained(variables: Variables, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The numbers of a trained model by their dotted names, if they are those that are wanted.

    >>> trained(Variables({"w": np.zeros(3)}, {}), {"params.w": (2,)})
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: variables must be with params.w of shape (2,), but is of shape (3,)
    """
    found = flatten(variables)
    for name, shape in wanted.items():
        if name not in found:
            raise ArgumentError("variables", f"with {name} of shape {shape}", Told("without"))
        if found[name].ndim == len(shape) + 1 and found[name].shape[1:] == tuple(shape):
            several = Told(f"{len(found[name]):,} models, one for each: give back run.of(client)")
            raise ArgumentError("variables", f"one model, with {name} of shape {tuple(shape)}", several)
        if found[name].shape != tuple(shape):
            raise ArgumentError(
                "variables", f"with {name} of shape {tuple(shape)}", Told("of shape", found[name].shape)
            )
    if extra := sorted(set(found) - set(wanted)):
        raise ArgumentError("variables", "those of this model", Told("with", ", ".join(extra[:3])))
    return found


def restored(variables: Variables, init: Callable[..., Variables]) -> Variables:
    """A trained model in the shape in which it is begun: those that are loaded from a file are of dictionaries.

    >>> restored(Variables({"0": np.ones(1)}, {}), lambda key: Variables([np.zeros(1)], {})).params
    [Array([1.], dtype=float32)]
    """
    wanted = jax.eval_shape(init, jax.random.key(0))
    shapes = {name: leaf.shape for name, leaf in zip(names(wanted), jax.tree.leaves(wanted), strict=True)}
    return unflatten(wanted, trained(variables, shapes))


def whole_as_float(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """State that is averaged: whole numbers (how many batches were seen) as floating-point ones."""
    return {name: v if jnp.issubdtype(v.dtype, jnp.floating) else v.astype(np.float32) for name, v in values.items()}


def as_before(values: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with the types they had; averages of whole numbers are rounded."""
    return {
        name: v if jnp.issubdtype(types[name], jnp.floating) else jnp.round(v).astype(types[name])
        for name, v in values.items()
    }
