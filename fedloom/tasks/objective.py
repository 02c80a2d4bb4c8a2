"""Objective: what a model's outputs are judged by. A loss for each example, and what is measured of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import optax

from fedloom.direction import Better, declared
from fedloom.errors import ArgumentError, choose, require
from fedloom.tasks.metric import Metric, named
from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key, PyTree

    Losses = Callable[[PyTree, Batch], Float[Array, " batch"]]
    Metrics = Mapping[str, Losses | Metric]
    Apply = Callable[[Variables, Array, Key[Array, ""] | None], tuple[PyTree, PyTree]]


def cross_entropy(logits: Float[Array, "batch classes"], labels: Int[Array, " batch"]) -> Float[Array, " batch"]:
    """-log softmax(logits)[label] of each example.

    >>> print(f"{cross_entropy(jnp.zeros((1, 4)), jnp.array([2]))[0]:.4f}")
    1.3863
    """
    whole = not jnp.issubdtype(labels.dtype, jnp.floating)
    require(whole, "labels", "whole numbers, which class it is (squared_error is for others)", str(labels.dtype))
    chosen = labels[:, None] == jnp.arange(logits.shape[-1])
    return -jnp.sum(jnp.where(chosen, jax.nn.log_softmax(widened(logits)), 0), axis=-1)


def widened(outputs: PyTree) -> PyTree:
    """The same, in float32 at least: losses are differences and sums."""
    is_short = lambda a: jnp.issubdtype(jnp.result_type(a), jnp.floating) and jnp.result_type(a).itemsize < 4  # noqa: E731
    return jax.tree.map(lambda a: a.astype(jnp.float32) if is_short(a) else a, outputs)


@dataclass(frozen=True)
class Objective:
    """What a model's outputs are judged by.

    Arguments:
        loss: (outputs, batch) → the loss of each example.
        metrics: (outputs, batch) → each metric of each example and, under ``count``, what those values are out of;
            see :class:`fedloom.tasks.Task`.
        fits: (shape of the outputs, shape of the labels, how many classes at least) → what they should be, or nothing.
        squashes: the activation that the loss applies itself (``softmax``, ``sigmoid``); models that end in that or in
            another one that squashes numbers are refused.
        better: (metric, ``"higher"`` or ``"lower"``) for each metric of the user's own of which it is declared.
        overall: (metric, function) for each metric over all predictions of a part; see :func:`fedloom.tasks.metric`.
    """

    loss: Losses
    metrics: Callable[[PyTree, Batch], dict[str, Float[Array, " batch"]]]
    fits: Callable[[PyTree, tuple[int, ...], int], str] = lambda outputs, labels, classes: ""  # noqa: ARG005
    squashes: str = ""
    better: tuple[tuple[str, Better], ...] = ()
    overall: tuple[tuple[str, Callable[[PyTree, Batch], Any]], ...] = ()


def _classes() -> Objective:
    """One of several classes: softmax cross-entropy of logits, and accuracy."""

    def loss(logits: Array, batch: Batch) -> Array:
        return cross_entropy(logits, batch["y"])

    def metrics(logits: Array, batch: Batch) -> dict[str, Array]:
        losses = loss(logits, batch)
        correct = (jnp.argmax(logits, axis=-1) == batch["y"]).astype(jnp.float32)
        return {"loss": losses, "accuracy": correct, "count": jnp.ones_like(losses)}

    def fits(shape: PyTree, labels: tuple[int, ...], classes: int) -> str:
        right = isinstance(shape, tuple) and len(shape) == 1 and not labels
        return "" if right and shape[0] >= classes else f"one number for each {_of(classes, 'class', 'classes')}"

    return Objective(loss, metrics, fits, "softmax")


def _labels() -> Objective:
    """Each of several labels is there or not: sigmoid cross-entropy of logits, and accuracy, averaged over labels."""

    def each(logits: Array, batch: Batch) -> tuple[Array, Array]:
        y = batch["y"].astype(logits.dtype).reshape(logits.shape)
        return optax.sigmoid_binary_cross_entropy(logits, y), ((logits > 0) == (y > 0.5)).astype(jnp.float32)

    def loss(logits: Array, batch: Batch) -> Array:
        return _mean(each(logits, batch)[0])

    def metrics(logits: Array, batch: Batch) -> dict[str, Array]:
        losses, correct = (_mean(a) for a in each(logits, batch))
        return {"loss": losses, "accuracy": correct, "count": jnp.ones_like(losses)}

    return Objective(loss, metrics, _one_each("label"), "sigmoid")


def _numbers() -> Objective:
    """Numbers to be predicted: the square of the error, and its size, averaged over numbers."""

    def error(outputs: Array, batch: Batch) -> Array:
        return outputs - batch["y"].astype(outputs.dtype).reshape(outputs.shape)

    def loss(outputs: Array, batch: Batch) -> Array:
        return _mean(error(outputs, batch) ** 2)

    def metrics(outputs: Array, batch: Batch) -> dict[str, Array]:
        losses = loss(outputs, batch)
        return {"loss": losses, "error": _mean(jnp.abs(error(outputs, batch))), "count": jnp.ones_like(losses)}

    return Objective(loss, metrics, _one_each("number"))


def _tokens() -> Objective:
    """The next token after each, -1 where there is none: softmax cross-entropy and accuracy, averaged over tokens."""

    def each(logits: Array, batch: Batch) -> tuple[Array, Array, Array]:
        y = batch["y"].astype(jnp.int32)
        real = (y >= 0).astype(logits.dtype)
        losses = cross_entropy(logits.reshape(-1, logits.shape[-1]), y.ravel()).reshape(y.shape)
        return losses * real, (jnp.argmax(logits, axis=-1) == y) * real, real

    def loss(logits: Array, batch: Batch) -> Array:
        losses, _, real = each(logits, batch)
        return losses.sum(axis=1) / jnp.maximum(real.sum(axis=1), 1)

    def metrics(logits: Array, batch: Batch) -> dict[str, Array]:
        losses, correct, real = each(logits, batch)
        return {"loss": losses.sum(axis=1), "accuracy": correct.sum(axis=1), "count": real.sum(axis=1)}

    def fits(shape: PyTree, labels: tuple[int, ...], classes: int) -> str:
        right = isinstance(shape, tuple) and len(shape) == 2 and shape[:1] == labels and shape[1] >= classes
        return "" if right else f"one number for each {_of(classes, 'token', 'tokens')} at each of {labels} places"

    return Objective(loss, metrics, fits, "softmax")


def _one_each(kind: str) -> Callable[[PyTree, tuple[int, ...], int], str]:
    def fits(shape: PyTree, labels: tuple[int, ...], classes: int) -> str:  # noqa: ARG001
        right = isinstance(shape, tuple) and (shape == labels or (not labels and shape == (1,)))
        return "" if right else f"one number for each {kind}, of shape {labels}"

    return fits


def _of(many: int, one: str, several: str) -> str:
    return f"of {many:,} {several}" if many else one


def _mean(values: Float[Array, "batch …"]) -> Float[Array, " batch"]:
    return values.reshape(len(values), -1).mean(axis=1)


OBJECTIVES: dict[str, Objective] = {
    "cross_entropy": _classes(),
    "binary_cross_entropy": _labels(),
    "squared_error": _numbers(),
    "next_token": _tokens(),
}


def objective(loss: str | Objective | Losses, metrics: Metrics | None = None) -> Objective:
    """The objective of that name, or of a loss of one's own.

    Arguments:
        loss: ``cross_entropy`` (classes), ``binary_cross_entropy`` (each of several labels), ``squared_error``
            (numbers) or ``next_token`` (text); or a function (outputs, batch) → the loss of each example.
        metrics: what else is measured, by name: functions (outputs, batch) → one value for each example, or
            :func:`fedloom.tasks.metric`, which also says whether a higher or a lower value is better, and takes
            functions of all predictions of a part of the data.

    >>> objective("hinge")
    Traceback (most recent call last):
    fedloom.errors.UnknownName: loss must be one of binary_cross_entropy, cross_entropy, next_token, squared_error, \
but is 'hinge'
    """
    chosen = choose("loss", loss, OBJECTIVES) if isinstance(loss, str) else loss
    if not isinstance(chosen, Objective):
        if not callable(chosen):
            raise ArgumentError("loss", "a name, an Objective or a function (outputs, batch) → losses", loss)
        chosen = _own(chosen)
    if not metrics:
        return chosen
    goal, others = chosen, named(metrics)

    def measured(outputs: PyTree, batch: Batch) -> dict[str, Array]:
        found = goal.metrics(outputs, batch)
        for name in others:
            require(name not in found, "metrics", "named otherwise than what the loss measures already", name)
        each = {name: per_example(name, f, outputs, batch) * found["count"] for name, f in means.items()}
        return found | each

    means = {name: one.function for name, one in others.items() if one.over == "example"}
    overall = tuple((name, one.function) for name, one in others.items() if one.over == "split")
    directions = declared({name: one.better for name, one in others.items()})
    return replace(goal, metrics=measured, better=goal.better + directions, overall=goal.overall + overall)


def per_example(name: str, function: Losses, outputs: PyTree, batch: Batch) -> Array:
    """Return the values of a metric, if there is one for each example of the batch."""
    try:
        values = function(outputs, batch)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        need = (
            "made of operations of JAX, because it is compiled, or declared by "
            'fl.tasks.metric(function, over="split"), whose function gets NumPy arrays'
        )
        raise ArgumentError(f'metrics["{name}"]', need, function) from error
    shape, wanted = jnp.shape(values), (len(batch["x"]),)
    need = (
        "one value for each example, of shape (batch,) (a metric that is one number over all predictions of a part is "
        'declared by fl.tasks.metric(function, over="split"))'
    )
    require(shape == wanted, f'metrics["{name}"]', need, shape)
    return values


def per_loss(losses: Array, batch: Batch) -> Array:
    """Return losses, if there is one for each example of the batch."""
    shape, wanted = jnp.shape(losses), (len(batch["x"]),)
    require(shape == wanted, "loss", f"one number for each example, of shape {wanted}", shape)
    return losses


def _own(loss: Losses) -> Objective:
    """A loss of one's own, and nothing else."""

    def each(outputs: PyTree, batch: Batch) -> Array:
        return per_loss(loss(outputs, batch), batch)

    def metrics(outputs: PyTree, batch: Batch) -> dict[str, Array]:
        losses = each(outputs, batch)
        return {"loss": losses, "count": jnp.ones_like(losses)}

    return Objective(each, metrics)


def supervised(
    name: str,
    init: Callable[[Key[Array, ""]], Variables],
    apply: Apply,
    loss: str | Objective | Losses = "cross_entropy",
    *,
    metrics: Metrics | None = None,
    classes: int | None = None,
    give_back: Callable[[Variables], Any] | None = None,
    extra: Callable[[PyTree], tuple[PyTree, Array | float]] = lambda outputs: (outputs, 0.0),
    rounded: Apply | None = None,
) -> Task:
    """A task: a model, and what its outputs are judged by.

    Arguments:
        name: what it is called in tables.
        init: random key → variables.
        apply: (variables, inputs, random key or ``None`` where nothing is trained) → (outputs, new state).
        loss, metrics: see :func:`objective`.
        classes: how many classes it tells apart, where it does and knows.
        give_back: variables → the user's own model with them.
        extra: of what apply gives, the outputs, and what the loss has beside (weight decay of single layers).
        rounded: apply, computed in bfloat16.
    """
    goal = objective(loss, metrics)

    def fitting(outputs: PyTree, batch: Batch) -> PyTree:
        shape = jax.tree.map(lambda a: jnp.shape(a)[1:], outputs)
        wrong = goal.fits(shape, jnp.shape(batch["y"])[1:], 0) if "y" in batch else ""
        require(not wrong, "outputs", wrong, shape)
        return outputs

    def losses(
        apply: Apply, variables: Variables, batch: Batch, key: Key[Array, ""]
    ) -> tuple[Float[Array, " batch"], PyTree]:
        found, state = apply(variables, batch["x"], key)
        outputs, more = extra(found)
        return per_loss(goal.loss(fitting(widened(outputs), batch), batch), batch) + more, state

    def measured(variables: Variables, batch: Batch) -> dict[str, Float[Array, " batch"]]:
        return goal.metrics(fitting(predicted(variables, batch["x"]), batch), batch)

    def predicted(variables: Variables, x: Array) -> PyTree:
        return extra(apply(variables, x, None)[0])[0]

    return Task(
        name,
        init,
        partial(losses, apply),
        measured,
        classes,
        predicted,
        goal.fits,
        give_back,
        squashes=goal.squashes,
        rounded_loss=partial(losses, rounded) if rounded else None,
        better=goal.better,
        overall=goal.overall,
    )
