"""Local: the protocol of local work, that is, of what a client does with the model it receives."""

from __future__ import annotations

from difflib import get_close_matches
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

import jax

from fedloom.errors import ArgumentError, require
from fedloom.local.batches import Batches
from fedloom.local.client import Client
from fedloom.local.message import Reply, Sent
from fedloom.local.work import StepBatch, Work, apply_gradient
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

    from fedloom.local.batches import Count
    from fedloom.local.message import ClientState

FORMER = {
    "start": "begin", "finish": "end", "keeps": "client_state", "tells": "broadcast", "hides": "private_leaves",
    "still": "idle_step_is_noop", "plain": "is_plain_sgd", "personal": "is_personal", "corrected": "is_corrected",
    "called": "label", **dict.fromkeys(("taken", "passes", "begun", "ordered"), "batches"),
}  # fmt: skip
"""Former name of a part of the protocol → its name."""
OF_BATCHES = ("steps", "moves", "rows", "rate", "batch", "accumulates", "epochs", "batch_size", "lr", "decay")
REQUIRED = ("begin", "gradient", "move", "end")
SIMILAR = 0.8  # names that are so similar to one of the protocol's are taken for misspelt


class Local:
    """Local work: a pure function of what a client received, its own state, its data and a random key.

    A round calls, for each client, ``begin`` once, ``step`` for each batch, and ``end`` once:

        work ← begin(sent, state, client)
        for each batch:  work ← step(task, work, batch, client)
        reply ← end(work, sent, state, client)

    A step is ``move(work, gradient(task, work, batch, client) + ∇penalties, client)``. A subclass overrides
    ``gradient`` or ``move``; one that overrides all of ``step`` is refused around or inside work that adds penalties,
    unless it calls the inherited ``step`` and sets ``applies_penalties = True``. A subclass is a
    :func:`fedloom.trees.record`, and helper methods have names that begin with an underscore.
    """

    if TYPE_CHECKING:  # subclasses have a field or a property

        @property
        def batches(self) -> Batches:
            """The batches of a round."""

    def __init_subclass__(cls) -> None:
        """Refuse methods that have a former or a misspelt name of the protocol."""
        super().__init_subclass__()
        for name, part in vars(cls).items():
            if isinstance(part, FunctionType | property) and not name.startswith("_"):
                check_name(cls, name)

    @property
    def gradients_per_step(self) -> int:
        """The number of gradients that a step computes, for the count of steps in the history."""
        return 1

    @property
    def idle_step_is_noop(self) -> bool:
        """True if a step in which all examples have share 0 changes no parameter, without penalties."""
        return False

    @property
    def is_plain_sgd(self) -> bool:
        """True if the optimiser's step is -lr · gradient, and it remembers nothing."""
        return False

    @property
    def is_single_gradient(self) -> bool:
        """True if the whole round is one step along the gradient of all examples."""
        return False

    @property
    def is_personal(self) -> bool:
        """True if each client uses a model of its own, which ``model`` returns."""
        return False

    @property
    def has_shared_model(self) -> bool:
        """True if the server's model is complete: no layer of it stays with the clients."""
        return True

    @property
    def is_corrected(self) -> bool:
        """True if steps are corrected by a broadcast to which all clients add (SCAFFOLD)."""
        return False

    @property
    def has_penalties(self) -> bool:
        """True if ``begin`` adds penalties to the work."""
        return False

    @property
    def applies_penalties(self) -> bool:
        """True if ``step`` adds the gradients of the work's penalties."""
        return type(self).step is Local.step

    @property
    def has_default_step(self) -> bool:
        """True if ``step`` consists of calls of ``gradient`` and ``move``."""
        return type(self).step is Local.step

    @property
    def _overrides_model(self) -> bool:
        return type(self).model is not Local.model

    def gradient_count(self, n: Count) -> Count:
        """Return the number of gradients of batches that a client with n examples computes in a round."""
        return self.gradients_per_step * self.batches.moves(n)

    def client_state(self, variables: Variables) -> ClientState:  # noqa: ARG002
        """Return the state, by name, with which every client begins and that stays with it from round to round."""
        return {}

    def broadcast(self, variables: Variables) -> dict[str, PyTree]:  # noqa: ARG002
        """Return the trees, by name, that the server sends beside the model in the first round."""
        return {}

    def private_leaves(self, variables: Variables) -> dict[str, Array]:  # noqa: ARG002
        """Return the arrays of a model, by name, that never leave a client."""
        return {}

    def model(self, variables: Variables, state: ClientState) -> Variables:  # noqa: ARG002
        """Return the model that a client uses, from the shared one and its own state."""
        return variables

    def begin(self, sent: Sent, state: ClientState, client: Client) -> Work:
        """Return a client's work before its first step.

        Args:
            sent: the model and the broadcast trees that the client received.
            state: the state that the client kept since its last round.
            client: the client's examples, steps, learning rate, round and random key.
        """
        raise NotImplementedError

    def gradient(self, task: Task, work: Work, batch: StepBatch, client: Client) -> tuple[PyTree, PyTree]:
        """Return the gradient of a batch's loss, and the model's non-trainable state after it.

        Args:
            task: the model's loss.
            work: the work before the step.
            batch: the examples, their shares in the loss, and the step's position and random key.
            client: as in ``begin``.
        """
        raise NotImplementedError

    def move(self, work: Work, gradient: PyTree, client: Client) -> Work:
        """Return the work after the optimiser's step."""
        raise NotImplementedError

    def step(self, task: Task, work: Work, batch: StepBatch, client: Client) -> Work:
        """Return the work after one step: the gradient and those of penalties, then the optimiser's move."""
        gradient, state = self.gradient(task, work, batch, client)
        return apply_gradient(work, batch, gradient, state, lambda work, g: self.move(work, g, client))

    def end(self, work: Work, sent: Sent, state: ClientState, client: Client) -> Reply:
        """Return the reply of a client after its last step.

        Args:
            work: the work after the last step.
            sent, state, client: as in ``begin``.
        """
        raise NotImplementedError

    def checked(self) -> Self:
        """Return the same work; raise an :class:`ArgumentError` if it cannot be used."""
        name = type(self).__name__
        require(not jax.tree_util.all_leaves([self]), "local", "a record: decorate its class with @record", name)
        check_complete(self)
        need = "True, or nothing calls its method `model`"
        require(self.is_personal or not self._overrides_model, f"is_personal of {name}", need, self.is_personal)
        kept = self.applies_penalties or not self.has_penalties
        need = "work that overrides `gradient` or `move`, not all of `step`, where penalties are added to the gradient"
        require(kept, "local", need, self.describe().get("work", name))
        return self

    def check(self, variables: Variables) -> None:
        """Raise an :class:`ArgumentError` if the work is not possible with such a model."""

    def describe(self) -> dict[str, Any]:
        """Return the options by name."""
        return {**self.batches.describe(), "work": type(self).__name__}


def check_name(cls: type[Local], name: str) -> None:
    """Raise an :class:`ArgumentError` if nothing calls a method that has nearly a name of the protocol."""
    known = [n for base in cls.__mro__[1:] for n in vars(base)]
    if name in (*known, "batches"):
        return
    near = get_close_matches(name, ["batches", *(n for n in vars(Local) if not n.startswith("_"))], 1, SIMILAR)
    current = "batches" if name in OF_BATCHES else FORMER.get(name) or (near[0] if near else "")
    if current:
        need = f"named `{current}`, or begin with an underscore, since nothing calls it"
        raise ArgumentError(f"a method of {cls.__name__}", need, name)


def check_complete(local: Local) -> None:
    """Raise an :class:`ArgumentError` if local work lacks a function that a round calls."""
    defined = {n for base in type(local).__mro__ if base is not Local for n in vars(base)}
    needed = REQUIRED if local.has_default_step else ("begin", "step", "end")
    for name in needed:
        require(name in defined, "local", f"a class that defines `{name}`", type(local).__name__)
    require(isinstance(local.batches, Batches), "local", "a class with `batches`", type(local).__name__)
