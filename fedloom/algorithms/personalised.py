"""Personalised federation: every user has a model of its own, and makes its next one from everybody's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from fedloom.algorithms.algorithm import cohort
from fedloom.combine.replies import Reading, Replies
from fedloom.combine.weighting import Weighting, by_size
from fedloom.errors import require
from fedloom.local import Local, given
from fedloom.mixing import Gossip, Mixer, identity, neighbours, personal
from fedloom.mixing.matching import Meeting
from fedloom.selection import check_selection, describe_selection
from fedloom.tasks.task import Variables
from fedloom.trees import record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Int, PyTree

    from fedloom.mixing.mixer import Who


@record
class PeerState:
    """All users' models, one beside the other, the round's number, and what else is remembered of them, by name."""

    variables: Variables
    round: Int[Array, ""]
    memory: dict[str, PyTree]


@record
class Personalised:
    """One round, over the stack X of all users' models:

        each user trains its own:         X_k ← local(X_k)
        everybody mixes:                  X ← M·X

    Build it with :func:`personalised` or :func:`local_only`.
    """

    local: Local
    mixer: Mixer
    fraction: float = static()
    selection: str = static(default="uniform", kw_only=True)

    stacked = True
    apart = True
    personal = True
    has_shared_model = False
    has_server = False
    pushes = False

    def cohort(self, clients: int) -> int:
        """How many users take part in a round; the others keep their models."""
        return cohort(self.fraction, clients)

    @property
    def least(self) -> int:
        """How small a cohort may be: who mixes must meet somebody."""
        return 2 if self.mixer.moved(2) else 1

    @property
    def agrees(self) -> bool:
        """Whether users are to come to one model: they average with neighbours, and nothing else."""
        return isinstance(self.mixer, Gossip | Meeting)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What is measured of everybody's model on everybody's data."""
        return self.mixer.readings

    def sized(self, clients: int) -> Personalised:
        """The same for so many users."""
        return replace(self, mixer=self.mixer.sized(clients))

    def checked(self) -> Personalised:
        """The same, if its numbers can be used."""
        self.mixer.checked()
        self.local.checked()
        needed = "one of push-sum's" if self.pushes else "one whose rows sum to one (push_sum is for others)"
        require(self.mixer.pushes == self.pushes, "topology", needed, self.mixer.describe())
        require(0 <= self.fraction <= 1, "fraction", "between 0 and 1", self.fraction)
        check_selection(self.selection, self.fraction)
        return self

    def describe(self) -> dict[str, Any]:
        """What it is made of, by name."""
        selection = describe_selection(self.selection)
        return {"fraction": self.fraction, **selection, **self.local.describe(), **self.mixer.describe()}

    def init(self, variables: Variables, clients: int) -> PeerState:
        """All users begin with the same model."""
        models = jax.tree.map(lambda a: jnp.broadcast_to(a, (clients, *a.shape)), variables)
        return PeerState(models, jnp.int32(0), {})

    def told(self, state: PeerState, sizes: Int[Array, " K"]) -> dict[str, PyTree]:  # noqa: ARG002
        """What each user is told beside its model, one beside the other: nothing."""
        return {}

    def exchanged(self, state: PeerState, replies: Replies, trained: Variables, who: Who) -> PeerState:
        """The state after users have trained and mixed."""
        return PeerState(self.mixer.mix(replies, trained, who), state.round + 1, state.memory)

    def notes(self, state: PeerState) -> dict[str, Array]:  # noqa: ARG002
        """What else is worth a picture, by name: matrices over users."""
        return {}

    def check(self, variables: Variables) -> None:
        """Any model will do."""

    def model(self, state: PeerState, client: Int[Array, ""]) -> Variables:
        """A user's model."""
        own: Variables = jax.tree.map(lambda a: a[client], state.variables)
        return own


def personalised(
    *,
    weighting: Weighting = by_size,
    peers: int | None = None,
    peers_by: str | None = None,
    fraction: float = 0.1,
    selection: str = "uniform",
    local: Local | None = None,
    **local_options: Any,
) -> Personalised:
    """Every user evaluates everybody's model on its own data and makes its own average.

    Arguments:
        weighting: how much each model counts for a user, on what the user reads of it.
        peers: how many others each user averages with; ``None`` is everybody, which is K² evaluations where models are
            judged.
        peers_by: which others, with ``peers``: ``random`` (the default), drawn anew every round, or ``nearest``, whose
            models are nearest to its own.
        fraction: C, the share of users in a round; the others neither train nor mix. 1 is everybody.
        selection: how they are selected; see :data:`fedloom.selection.SELECTIONS`.
        local: what a user does; or give the arguments of :func:`fedloom.local.sgd` here.

    >>> personalised(epochs=2).mixer.describe()
    {'mixing': 'personal', 'weighting': 'size'}
    """
    require(peers is not None or peers_by is None, "peers_by", "left alone with all peers", peers_by)
    mixer = personal(weighting) if peers is None else neighbours(weighting, peers, peers_by or "random")
    return _made(mixer, fraction, selection, local, local_options)


def local_only(
    *, fraction: float = 0.1, selection: str = "uniform", local: Local | None = None, **local_options: Any
) -> Personalised:
    """Nobody shares anything: as many independent runs as there are users. The arguments are those of
    :func:`personalised`.
    """
    return _made(identity, fraction, selection, local, local_options)


def _made(mixer: Mixer, fraction: float, selection: str, local: Local | None, options: dict[str, Any]) -> Personalised:
    work = given(local, options, "fraction", "selection", "local")
    return Personalised(work, mixer, fraction, selection=selection).checked()
