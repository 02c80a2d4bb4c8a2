"""Local: what a client does with the model it was sent, step by step, and what it keeps for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.local.messages import Reply, Sent
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt32

    Scalar = Float[Array, ""] | float
    Kept = dict[str, PyTree]


@record
class Turn:
    """Where in its work a step stands: whether the optimiser moves after it, and in which epoch it is."""

    last: Bool[Array, ""]
    epoch: Int[Array, ""]


@record
class Step:
    """What a step is given.

    Arguments:
        batch: the examples.
        share: of each in the batch's loss.
        turn: where in its client's work it stands.
        lr: the learning rate.
        key: of its random numbers.
    """

    batch: Batch
    share: Float[Array, " rows"]
    turn: Turn
    lr: Scalar
    key: Key[Array, ""]


class Pull:
    """What a loss has beside the task's."""

    def gradient(self, params: PyTree) -> PyTree:
        """Its gradient."""
        raise NotImplementedError


@record
class Toward(Pull):
    """A pull towards a point: the loss has strength/2 · ‖w - point‖² more, its gradient strength · (w - point)."""

    strength: Scalar
    point: PyTree

    def gradient(self, params: PyTree) -> PyTree:
        """Strength · (w - point)."""
        return jax.tree.map(lambda w, a: self.strength * (w - a), params, self.point)


@record
class Along(Pull):
    """A pull in a direction: the loss has ⟨slope, w⟩ more, its gradient the slope."""

    slope: PyTree

    def gradient(self, params: PyTree) -> PyTree:  # noqa: ARG002
        """The slope."""
        return self.slope


@record
class Work:
    """A client's work in progress.

    Arguments:
        variables: what it trains.
        optimizer: what its optimiser remembers.
        gradient: of a batch that takes several steps, so far.
        pulls: what its loss has beside the task's.
        beside: other work on the same batches.
    """

    variables: Variables
    optimizer: PyTree
    gradient: PyTree
    pulls: tuple[Pull, ...] = ()
    beside: Work | None = None


class Local:
    """What a client does with the model it was sent; :class:`fedloom.local.Sgd`, or something :class:`Around` it."""

    lr: Any
    decay: Any
    epochs: Any
    batch_size: int | None

    @property
    def passes(self) -> Any:
        """How many epochs a client works in a round, all in all."""
        return self.epochs

    @property
    def personal(self) -> bool:
        """Whether the model that a client uses is its own."""
        return False

    @property
    def has_shared_model(self) -> bool:
        """True if the server's model is complete: no layer of it stays with the clients."""
        return True

    @property
    def plain(self) -> bool:
        """Whether a step is one along the gradient and nothing else."""
        return False

    @property
    def corrected(self) -> bool:
        """Whether its steps are corrected by what others do (SCAFFOLD)."""
        return False

    def rows(self, sizes: Int[np.ndarray, " clients"]) -> int:
        """How many examples one step computes on, for clients of these sizes."""
        raise NotImplementedError

    def steps(self, n: Int[Array | np.ndarray, "*shape"], rows: int) -> Int[Array | np.ndarray, "*shape"]:
        """How many steps a client with n examples takes."""
        raise NotImplementedError

    def moves(self, n: Int[Array | np.ndarray, "*shape"]) -> Int[Array | np.ndarray, "*shape"]:
        """How often the optimiser of a client with n examples moves."""
        raise NotImplementedError

    def taken(self, n: Int[Array | np.ndarray, "*shape"]) -> Int[Array | np.ndarray, "*shape"]:
        """How many steps a client with n examples takes, in however many pieces they are computed."""
        return self.moves(n)

    def rate(self, round: Int[Array, ""]) -> Float[Array, ""]:
        """The learning rate of a round."""
        raise NotImplementedError

    def begun(self, round: Int[Array, ""]) -> Int[Array, ""]:
        """How many steps a client has taken before a round, where its epochs go on from round to round; else 0."""
        return jnp.zeros_like(round)

    def ordered(self, round: Int[Array, ""]) -> Int[Array, ""]:
        """The round whose order of examples a round uses: 0 where epochs go on from round to round, else its own."""
        return round

    def accumulates(self, rows: int, largest: int) -> bool:
        """Whether the gradient of one batch is summed over several steps."""
        raise NotImplementedError

    def still(self, work: Work) -> bool:
        """Whether a step in which no example has a share changes nothing."""
        raise NotImplementedError

    def batch(
        self, step: Int[Array, ""], n: Int[Array, ""], key: UInt32[Array, 2], rows: int
    ) -> tuple[Int[Array, " rows"], Float[Array, " rows"], Turn]:
        """Which of a client's n examples a step trains on, each one's share of the batch's loss, and where the step
        stands.
        """
        raise NotImplementedError

    def keeps(self, variables: Variables) -> Kept:  # noqa: ARG002
        """What a client keeps from one round to the next, by name, before its first; nothing for most."""
        return {}

    def tells(self, variables: Variables) -> dict[str, PyTree]:  # noqa: ARG002
        """What clients are told beside the model, by name, before the first round; nothing for most."""
        return {}

    def hides(self, variables: Variables) -> dict[str, Array]:  # noqa: ARG002
        """What of a model never leaves a client, by name; nothing for most."""
        return {}

    def model(self, variables: Variables, kept: Kept) -> Variables:  # noqa: ARG002
        """The model that a client uses, of what it was sent and what it keeps."""
        return variables

    def start(self, sent: Sent, kept: Kept, lr: Scalar, accumulates: bool) -> Work:
        """A client's work, not begun."""
        raise NotImplementedError

    def step(self, task: Task, work: Work, given: Step) -> Work:
        """One step."""
        raise NotImplementedError

    def finish(self, work: Work, sent: Sent, kept: Kept, n: Int[Array, ""], lr: Scalar) -> tuple[Reply, Kept]:
        """The reply of a client that has done its work, and what it keeps."""
        raise NotImplementedError

    def checked(self) -> Self:
        """The same, if its numbers can be used."""
        raise NotImplementedError

    def check(self, variables: Variables) -> None:
        """Raise an :class:`ArgumentError` if it cannot work on such a model."""

    def describe(self) -> dict[str, Any]:
        """What it is made of, by name."""
        raise NotImplementedError


class Around(Local):
    """Local work that differs from other local work in a few things: whatever is not said here, the inner one does."""

    inner: Local

    def checked(self) -> Self:
        """The same, if the inner one's numbers can be used."""
        self.inner.checked()
        return self

    def describe(self) -> dict[str, Any]:
        """What the inner one is made of, and what is around what."""
        inner = self.inner.describe()
        return {**inner, "work": f"{self.called()} of {inner.get('work', 'sgd')}"}

    def called(self) -> str:
        """What it is called, with its numbers."""
        raise NotImplementedError


def _forwarded(name: str) -> Callable[..., Any]:
    """A method that is the inner one's."""

    def forward(self: Around, *given: Any) -> Any:
        return getattr(self.inner, name)(*given)

    forward.__doc__, forward.__name__ = "The inner one's.", name
    return forward


def _attribute(name: str) -> property:
    """An attribute that is the inner one's."""
    return property(lambda self: getattr(self.inner, name))


for _name in ("lr", "decay", "epochs", "batch_size", "passes", "personal", "has_shared_model", "plain", "corrected"):
    setattr(Around, _name, _attribute(_name))
for _name in (
    "rows", "steps", "moves", "taken", "rate", "begun", "ordered", "accumulates", "still", "batch", "keeps", "tells",
    "hides", "model", "start", "step", "finish", "check",
):  # fmt: skip
    setattr(Around, _name, _forwarded(_name))
