"""Private: some layers are every client's own and never leave it.

The head: FedPer (Arivazhagan et al. 2019), or trained first and alone, FedRep (Collins et al. 2021); the layers that
normalise, with their statistics: FedBN (Li et al. 2021).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import ArgumentError, require
from fedloom.local.counting import exact
from fedloom.local.local import Around, Local, Step, Work
from fedloom.local.messages import Reply, Sent
from fedloom.tasks.task import Task, Variables
from fedloom.trees import is_named, listed, names, record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Int

    from fedloom.local.local import Kept, Scalar

PRIVATE = "private"


@record
class Private(Around):
    """A client's model is the shared layers that it was sent with its own private ones. Build it with :func:`private`.

    With ``first`` epochs for the private layers, they are trained first and alone, then the shared ones alone.
    """

    inner: Local
    first: Int[Array, ""] | int
    layers: tuple[str, ...] = static()
    alternates: bool = static()

    @property
    def passes(self) -> Any:
        """The inner epochs, and those before them."""
        return self.inner.passes + self.first

    @property
    def personal(self) -> bool:
        """Every client uses its own layers."""
        return True

    @property
    def has_shared_model(self) -> bool:
        """False: the server's model lacks the clients' own layers."""
        return False

    def steps(self, n: Int[Array | np.ndarray, "*shape"], rows: int) -> Int[Array | np.ndarray, "*shape"]:
        """Return the number of inner steps, and of those in the epochs before them."""
        return self.inner.steps(n, rows) + self.first * -(-exact(n) // rows)

    def taken(self, n: Int[Array | np.ndarray, "*shape"]) -> Int[Array | np.ndarray, "*shape"]:
        """Return the number of inner steps, and of those in the epochs before them."""
        epoch = exact(n > 0) if self.batch_size is None else -(-exact(n) // self.batch_size)
        return self.inner.taken(n) + self.first * epoch

    def own(self, name: str) -> bool:
        """Whether what has this dotted name is private."""
        return is_named(name, *self.layers)

    def keeps(self, variables: Variables) -> Kept:
        """Its private layers, at first those that everybody begins with."""
        return {**self.inner.keeps(variables), PRIVATE: self.hides(variables)}

    def hides(self, variables: Variables) -> dict[str, Array]:
        """The private numbers of a model, by name; those of the inner work too."""
        each = zip(names(variables), jax.tree.leaves(variables), strict=True)
        return {**self.inner.hides(variables), **{name: leaf for name, leaf in each if self.own(name)}}

    def model(self, variables: Variables, kept: Kept) -> Variables:
        """What it was sent, with its own layers."""
        return self.inner.model(overlaid(variables, kept), kept)

    def start(self, sent: Sent, kept: Kept, lr: Scalar, accumulates: bool) -> Work:
        """The inner work on that model."""
        return self.inner.start(self.completed(sent, kept), kept, lr, accumulates)

    def completed(self, sent: Sent, kept: Kept) -> Sent:
        """What was sent, with its own layers."""
        return replace(sent, variables=overlaid(sent.variables, kept))

    def step(self, task: Task, work: Work, given: Step) -> Work:
        """One step of all layers; or of the private ones alone in the first epochs, then of the shared ones alone."""
        done = self.inner.step(task, work, given)
        if not self.alternates:
            return done
        before, after = work.variables, done.variables
        head = given.turn.epoch < self.first
        moved = jax.tree.map(
            lambda name, a, b: jnp.where(head == self.own(name), b, a),
            named(before).params,
            before.params,
            after.params,
        )
        return replace(done, variables=Variables(moved, after.state))

    def finish(self, work: Work, sent: Sent, kept: Kept, n: Int[Array, ""], lr: Scalar) -> tuple[Reply, Kept]:
        """The inner reply without its own layers, which it keeps."""
        reply, rest = self.inner.finish(work, self.completed(sent, kept), kept, n, lr)
        shared = jax.tree.map(
            lambda name, a: jnp.zeros_like(a) if self.own(name) else a, named(reply.update), reply.update
        )
        return replace(reply, update=shared), {**rest, PRIVATE: self.hides(work.variables)}

    def checked(self) -> Self:
        """The same, if its numbers can be used."""
        require(len(self.layers) > 0, "private", "at least one layer", self.layers)
        require(bool(self.first >= self.alternates), "head_epochs", "at least 1", self.first)
        require(bool(self.first < 2**31), "head_epochs", "at most 2,147,483,647", self.first)
        told = self.inner.describe()
        outside = "work without scaffold, which goes around private layers and not inside: it would tell of them"
        require(not self.inner.corrected, "local", outside, told.get("work"))
        plain = self.inner.plain or not self.alternates
        require(plain, "optimizer", "sgd where layers take turns, since others remember", told["optimizer"])
        counts = "left alone where layers take turns, which count epochs"
        require("period" not in told or not self.alternates, "period", counts, told.get("period"))
        return super().checked()

    def check(self, variables: Variables) -> None:
        """Raise an :class:`ArgumentError` unless the model has such layers, and others."""
        every = names(variables)
        layers = sorted({name.split(".")[1] for name in every})
        for layer in self.layers:
            if not any(is_named(name, layer) for name in every):
                hint = ", for fedbn one that normalises, such as cnn-bn" if layer == "norm*" else ""
                raise ArgumentError("private", f"layers that the model has ({', '.join(layers)}){hint}", layer)
        if all(self.own(name) for name in names(variables) if name.startswith("params.")):
            raise ArgumentError("private", f"some of the model's layers ({', '.join(layers)}), not all", self.layers)
        super().check(variables)

    def called(self) -> str:
        """Its name, which layers are private, and how long they are trained first."""
        return f"private({','.join(self.layers)}{f'; {int(self.first)} epochs first' if self.alternates else ''})"


def private(layers: str, local: Local, *, head_epochs: int | None = None) -> Private:
    """Some layers are every client's own.

    Arguments:
        layers: their names, comma-separated; ``*`` stands for anything: ``output``, ``norm*``.
        local: how a client trains.
        head_epochs: so many epochs are for the private layers alone, then the local work's for the others alone
            (FedRep); ``None`` trains all of them together (FedPer).

    >>> from fedloom.local import sgd
    >>> private("output", sgd(epochs=2), head_epochs=3).passes
    5
    """
    chosen = tuple(listed(layers))
    return Private(local, head_epochs or 0, chosen, head_epochs is not None).checked()


def overlaid(variables: Variables, kept: Kept) -> Variables:
    """A model, with the layers that a client keeps."""
    whole: Variables = jax.tree.map(lambda name, a: kept[PRIVATE].get(name, a), named(variables), variables)
    return whole


def named(variables: Variables) -> Variables:
    """The same tree, of names."""
    return jax.tree.unflatten(jax.tree.structure(variables), names(variables))
