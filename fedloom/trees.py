"""The few operations on pytrees of parameters that everything shares."""

from __future__ import annotations

import dataclasses
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, PyTree

T = TypeVar("T")


def static(default: Any = dataclasses.MISSING, *, kw_only: bool = False) -> Any:
    """A field of a :func:`record` that decides what is compiled; it must be hashable."""
    return dataclasses.field(default=default, metadata={"static": True}, kw_only=kw_only)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass that is also a pytree: fields marked :func:`static` decide what is compiled, the others are
    arguments of the compiled program.
    """
    made = dataclasses.dataclass(frozen=True)(cls)
    _register(made)
    return made


def _register(cls: Any) -> None:
    """Make a dataclass a pytree whose structure names the class.

    JAX's own ``register_dataclass`` does not name it: structures of two classes with the same fields are equal there
    (JAX 0.10.2), so that a compiled function may run the program that was made for the other class.
    """
    fields = dataclasses.fields(cls)
    constants = tuple(f.name for f in fields if f.metadata.get("static"))
    children = tuple(f.name for f in fields if not f.metadata.get("static"))
    keys = tuple(map(jax.tree_util.GetAttrKey, children))

    def flatten(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(value, name) for name in children), tuple(getattr(value, name) for name in constants)

    def flatten_with_keys(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        found, structure = flatten(value)
        return tuple(zip(keys, found, strict=True)), structure

    def unflatten(structure: tuple[Any, ...], found: Any) -> Any:
        return cls(**dict(zip(children, found, strict=True)), **dict(zip(constants, structure, strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def stack(trees: list[T]) -> T:
    """Many trees of one shape as one tree with a leading axis.

    >>> stack([{"w": 1.0}, {"w": 2.0}])["w"].tolist()
    [1.0, 2.0]
    """
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *trees)


def member(tree: T, i: int) -> T:
    """The i-th tree of a stack."""
    return jax.tree.map(lambda leaf: leaf[i], tree)


def subtract(a: T, b: T) -> T:
    """A - b, leaf by leaf."""
    return jax.tree.map(lambda x, y: x - y, a, b)


def where(condition: Bool[Array, "*lead"], a: T, b: T) -> T:
    """A where the condition (over the leading axes) holds, else b."""

    def leaf(x: Array, y: Array) -> Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (x.ndim - condition.ndim)), x, y)

    return jax.tree.map(leaf, a, b)


def count(tree: PyTree) -> int:
    """How many numbers a tree holds.

    >>> count({"w": np.zeros((3, 2)), "b": np.zeros(2)})
    8
    """
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def nbytes(tree: PyTree) -> int:
    """How many bytes a tree's numbers take."""
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def names(tree: PyTree) -> list[str]:
    """The dotted name of every leaf.

    >>> names({"hidden": {"w": np.zeros(2), "b": np.zeros(1)}})
    ['hidden.b', 'hidden.w']
    """
    paths = (path for path, _ in jax.tree_util.tree_leaves_with_path(tree))
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]


def listed(text: str | None) -> list[str]:
    """The names in a text, between commas.

    >>> listed("output, hidden*"), listed(None)
    (['output', 'hidden*'], [])
    """
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def is_named(name: str, *patterns: str) -> bool:
    """Whether a part of a dotted name is like one of some patterns, in which ``*`` stands for anything.

    >>> is_named("params.norm1.scale", "norm*"), is_named("params.hidden.w", "norm*", "output")
    (True, False)
    """
    return any(fnmatchcase(part, pattern) for part in name.split(".") for pattern in patterns)


def flatten(tree: PyTree) -> dict[str, np.ndarray]:
    """A tree as a flat dictionary with dotted names, for files.

    >>> list(flatten({"hidden": {"w": np.zeros(2), "b": np.zeros(1)}}))
    ['hidden.b', 'hidden.w']
    """
    return {name: np.array(leaf) for name, leaf in zip(names(tree), jax.tree.leaves(tree), strict=True)}


def unflatten(like: T, flat: dict[str, np.ndarray]) -> T:
    """The tree shaped like another from its flat dictionary; :class:`KeyError` names what is missing."""
    return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(flat[name]) for name in names(like)])
