"""Character LSTM: predict the next character after each (McMahan et al. 2017, section 3)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.tasks.layers import glorot, plus
from fedloom.tasks.lstm import cell, lstm
from fedloom.tasks.objective import cross_entropy
from fedloom.tasks.summed import summed
from fedloom.tasks.task import Batch, Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, Key, PyTree

APART = 4.0  # deviation of the embedding: characters that begin far apart are told apart sooner
PLAIN = 0.05  # the largest number of an embedding that begins as libraries' do


@cache
def char_lstm(vocabulary: int, embedding: int = 8, hidden: int = 256, plain: bool = False) -> Task:
    """Characters embedded in a few dimensions, two LSTM layers, and a softmax over the next character.

    An example is a window of characters ``x`` and for each the next one ``y``, or -1 where there is none to predict; or
    ``y`` is one character, the next after the whole window (as in LEAF).

    Arguments:
        vocabulary: how many characters there are.
        embedding: the dimensions of a character.
        hidden: the units of each layer.
        plain: whether weights begin as libraries usually draw them, which takes longer to learn.

    >>> from fedloom.trees import count
    >>> count(char_lstm(vocabulary=86).init(jax.random.key(0)).params)
    819462
    """

    def init(key: Key[Array, ""]) -> Variables:
        k1, k2, k3, k4 = jax.random.split(key, 4)
        shape = vocabulary, embedding
        layers = {
            "embedding": {
                "w": jax.random.uniform(k1, shape, minval=-PLAIN, maxval=PLAIN)
                if plain
                else APART * jax.random.normal(k1, shape)
            },
            "lstm1": cell(k2, embedding, hidden, plain),
            "lstm2": cell(k3, hidden, hidden, plain),
            "output": glorot(k4, hidden, vocabulary),
        }
        return Variables(layers, {})

    def logits(params: PyTree, x: Int[Array, "batch time"]) -> Float[Array, "batch*time vocabulary"]:
        w = params["embedding"]["w"]
        h = w.astype(summed(w))[x.astype(jnp.int32).T].astype(w.dtype)  # a frequent character's gradient is a long sum
        h = lstm(params["lstm2"], lstm(params["lstm1"], h))
        flat = h.swapaxes(0, 1).reshape(x.size, hidden)
        return plus(flat @ params["output"]["w"], params["output"]["b"])

    def each(variables: Variables, batch: Batch) -> tuple[Array, Array, Array]:
        """Of each character: the loss, whether it was guessed, whether there was one to guess."""
        y = batch["y"].astype(jnp.int32)
        if y.ndim == 1:
            y = jnp.full(batch["x"].shape, -1).at[:, -1].set(y)
        found, wanted, real = logits(variables.params, batch["x"]), y.ravel(), (y >= 0).astype(jnp.float32)
        losses = cross_entropy(found, wanted).reshape(y.shape)
        correct = (jnp.argmax(found, axis=-1) == wanted).reshape(y.shape)
        return losses * real, correct * real, real

    def loss(
        variables: Variables,
        batch: Batch,
        key: Key[Array, ""],  # noqa: ARG001
    ) -> tuple[Float[Array, " batch"], PyTree]:
        losses, _, real = each(variables, batch)
        return losses.sum(axis=1) / jnp.maximum(real.sum(axis=1), 1), variables.state

    def metrics(variables: Variables, batch: Batch) -> dict[str, Float[Array, " batch"]]:
        losses, correct, real = each(variables, batch)
        return {"loss": losses.sum(axis=1), "accuracy": correct.sum(axis=1), "count": real.sum(axis=1)}

    return Task("lstm-plain" if plain else "lstm", init, loss, metrics, vocabulary)
