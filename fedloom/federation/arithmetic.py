"""Arithmetic: what a server does with updates, by the functions that the simulation compiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method, RoundState
from fedloom.combine.replies import Replies
from fedloom.combine.weighting import with_directions
from fedloom.engines.lanes import Total, add_up
from fedloom.engines.plan import Plan
from fedloom.engines.round import Round
from fedloom.engines.schedule import INIT, stream
from fedloom.engines.store import View
from fedloom.errors import require
from fedloom.federation.schema import Schema
from fedloom.local import Local, Sent
from fedloom.local.batches import with_batches
from fedloom.round.close import divide, step
from fedloom.selection import preference
from fedloom.tasks.task import Task, Variables
from fedloom.trees import flatten, member, names, stack, unflatten

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree


Updates = Iterable[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Contribution:
    """What is known of an update beside its arrays.

    Arguments:
        number: of the participant.
        examples: how many it trained on.
        readings: what the weighting looks at.
        name: of the participant.
    """

    number: int
    examples: int
    readings: Mapping[str, float]
    name: str = ""


@dataclass(frozen=True)
class Arithmetic:
    """A server's part of an algorithm; build it with :func:`arithmetic`."""

    task: Task
    algorithm: Method
    seed: int

    @cached_property
    def first(self) -> RoundState:
        """The state before the first round; participants keep what they keep themselves."""
        return replace(jax.jit(self._begun)(np.uint32(self.seed)), clients=None)

    def _begun(self, seed: Array) -> RoundState:
        return self.algorithm.init(self.task.init(stream(seed, INIT)), 1)

    @cached_property
    def like(self) -> RoundState:
        """A state, in shapes."""
        shapes: RoundState = jax.eval_shape(lambda: replace(self._begun(jnp.uint32(0)), clients=None))
        return shapes

    @cached_property
    def hidden(self) -> frozenset[str]:
        """What of a model never leaves a participant, by name."""
        shapes = self.like.variables
        private = jax.eval_shape(self.algorithm.local.private_leaves, shapes)
        return frozenset(private)

    @cached_property
    def state_schema(self) -> Schema:
        """What the file of a state holds."""
        return Schema.of(shapes(self.like))

    @cached_property
    def model_schema(self) -> Schema:
        """What participants are sent."""
        return Schema.of(self.shown(shapes(self.like.sent), "variables."))

    @cached_property
    def update_schema(self) -> Schema:
        """What they send back."""
        reply = {"update": self.like.variables, "aside": self.like.broadcast}
        return Schema.of(self.shown(shapes(reply), "update."))

    def shown(self, arrays: Mapping[str, Any], lead: str) -> dict[str, Any]:
        """The same without what never leaves a participant."""
        private = {f"{lead}{name}" for name in self.hidden}
        return {name: a for name, a in arrays.items() if name not in private}

    def sent(self, state: RoundState) -> dict[str, np.ndarray]:
        """What participants are sent."""
        return self.shown(flatten(state.sent), "variables.")

    def state(self, arrays: dict[str, np.ndarray]) -> RoundState:
        """A state from its file."""
        return unflatten(self.like, arrays)

    def preference(self, round: int, examples: Sequence[int]) -> list[int]:
        """Return all participants' numbers in the order in which a round prefers them: the simulation's cohort first.

        Args:
            round: the number of the round.
            examples: the number of training examples of each participant, in the order of their numbers.
        """
        algorithm, sizes = self.algorithm, np.array(examples, np.int64)
        order = preference(algorithm.selection, self.seed, round, sizes, algorithm.cohort(len(sizes)))
        numbers: list[int] = order.tolist()
        return numbers

    def ordered(self, given: Sequence[Contribution]) -> list[int]:
        """The places of contributions in the order in which the simulation adds them up: the longest work first."""
        sizes = np.array([one.examples for one in given], np.int32)
        rows = self.algorithm.local.batches.rows(sizes)
        works = [self.work(one.number, one.name) for one in given]
        steps = [int(work.batches.steps(n, rows)) for work, n in zip(works, sizes, strict=True)]
        return [int(i) for i in np.argsort(-np.array(steps), kind="stable")]

    def work(self, number: int, name: str) -> Local:
        """Return the work of a participant: with its own epochs, where participants differ.

        It is found once, so that nothing that happens to a file of epochs changes or ends a run.
        """
        if (number, name) not in self.works:
            made = with_batches(self.algorithm.local, lambda batches: batches.of_one(number, name))
            self.works[number, name] = made
        return self.works[number, name]

    @cached_property
    def works(self) -> dict[tuple[int, str], Local]:
        """The work of each participant that has come, by its number and its name."""
        return {}

    @cached_property
    def closing(self) -> Method:
        """The algorithm with the same epochs for everybody: the server's step does not depend on them."""
        alike = lambda batches: replace(batches, epochs=1) if batches.period is None else batches  # noqa: E731
        return replace(self.algorithm, local=with_batches(self.algorithm.local, alike))

    def norm(self, update: Mapping[str, np.ndarray]) -> float:
        """The L2 norm of an update's parameters."""
        params = [a for name, a in update.items() if name.startswith("update.params.")]
        return float(np.sqrt(sum(np.sum(np.square(a, dtype=np.float64)) for a in params)))

    def step(
        self,
        state: RoundState,
        given: Sequence[Contribution],
        updates: Updates,
        everyone: int,
    ) -> tuple[RoundState, float, bool]:
        """Return the state after a round, ‖mean update‖, and whether any update had a positive weight.

        Args:
            state: the state before the round.
            given: what is known of each update.
            updates: the updates, in the same order.
            everyone: K, the number of participants.
        """
        total = (self._kept if self.algorithm.keeps_updates else self._added)(state, given, updates)
        mean, aside, norm, counted = _mean(total)
        ahead = _apply(self._stacked, state, mean, aside, np.float32(everyone), counted)
        return ahead, float(norm[0]), bool(counted[0])

    def skipped(self, state: RoundState) -> RoundState:
        """Return the state after a void round: only the number of the round is another."""
        return replace(state, round=state.round + 1)

    @cached_property
    def _stacked(self) -> Method:
        return stack([self.closing])

    def _reply(self, state: RoundState, update: Mapping[str, np.ndarray]) -> dict[str, PyTree]:
        """An update as trees, nothing where it is hidden."""
        like = {"update": state.variables, "aside": state.broadcast}
        given = {name: update[name] if name in update else np.zeros(a.shape, a.dtype)
                 for name, a in zip(names(like), jax.tree.leaves(like), strict=True)}  # fmt: skip
        return unflatten(like, given)

    def _added(self, state: RoundState, given: Sequence[Contribution], updates: Updates) -> Total:
        """Σ weight · update, one after the other."""
        zeros = jax.tree.map(
            lambda a: jnp.zeros((1, *a.shape), a.dtype), {"update": state.variables, "aside": state.broadcast}
        )
        total = Total(zeros["update"], jnp.zeros(1), zeros["aside"], jnp.zeros(1), jnp.zeros(1))
        for one, update in zip(given, updates, strict=True):
            total = _more(self.closing, total, self._reply(state, update), np.float32(one.examples))
        return total

    def _kept(self, state: RoundState, given: Sequence[Contribution], updates: Updates) -> Total:
        """The same where weights depend on each other: all updates are there at once."""
        replies = [self._reply(state, update) for update in updates]
        every = jax.tree.map(lambda *a: jnp.stack(a)[None], *replies)
        aside = jax.tree.map(lambda a: a.sum(1), every["aside"])
        sizes = np.array([one.examples for one in given], np.int32)
        read = {need.name: np.array([[one.readings[need.name] for one in given]], np.float32)
                for need in self.algorithm.readings}  # fmt: skip
        held = Total(every["update"], jnp.zeros(1), aside, jnp.zeros(1), jnp.zeros(1))
        return _weighed(self.plan, self._stacked, held, read, jnp.asarray(state.round)[None], sizes)

    @cached_property
    def plan(self) -> Plan:
        """How the little that a server computes is laid out: on one device."""
        mesh = machine.mesh(machine.devices()[:1])
        return Plan(mesh, 1, 1, None, False, 1, False, True, False, False)


def arithmetic(task: Task, algorithm: Method, seed: int) -> Arithmetic:
    """A server's part of an algorithm, if that has one."""
    need = (
        "one with a server and one model for all, or layers of one (not personalised, dpa-sgd, ifca, multi-task, local)"
    )
    routing = algorithm.routing
    require(routing.has_server and not routing.has_several_outputs, "algorithm", need, type(routing).__name__)
    require(0 <= seed < 2**32, "seed", "between 0 and 4294967295", seed)
    machine.devices()
    return Arithmetic(task, with_directions(algorithm, task.directions), seed)


def shapes(tree: PyTree) -> dict[str, Any]:
    """A tree of shapes as a flat dictionary with dotted names."""
    return dict(zip(names(tree), jax.tree.leaves(tree), strict=True))


@partial(jax.jit, donate_argnames="total")
def _more(algorithm: Method, total: Total, reply: dict[str, PyTree], examples: Array) -> Total:
    """A sum with one update more; the same operation as in :mod:`fedloom.engines.lanes`, so that bits agree."""
    update, counts = algorithm.combiner.heard(reply["update"])
    weight = jnp.where(counts, algorithm.routing.weigh(Replies(examples[None], counts[None], {})), 0)[None]
    lead = lambda tree: jax.tree.map(lambda a: a[None, None], tree)  # noqa: E731
    return replace(
        total,
        update=jax.tree.map(add_up(weight), total.update, lead(update)),
        weight=total.weight + weight.sum(1),
        aside=jax.tree.map(add_up(counts.astype(jnp.float32)[None, None]), total.aside, lead(reply["aside"])),
    )


@partial(jax.jit, static_argnames="plan")
def _weighed(plan: Plan, algorithm: Method, held: Total, read: dict[str, Array], round: Array, sizes: Array) -> Total:
    view = View({}, jnp.zeros(1, jnp.int32), jnp.zeros_like(sizes), sizes)
    clients = jnp.arange(len(sizes), dtype=jnp.int32)[None]
    never: Any = None  # of the round's parts only its weighing is used, which reads no examples
    return Round(never, plan, len(sizes), algorithm, view, {}, {}, never).weighed(held, read, round, clients, None)


@partial(jax.jit, donate_argnames="total")
def _mean(total: Total) -> tuple[Variables, PyTree, Array, Array]:
    """Return the mean update, what is told aside, the mean's norm, and whether any update counted.

    The step that follows is another program, or the compiler would round both together.
    """
    mean = jax.vmap(divide)(total.update, total.weight)
    return mean, total.aside, jax.vmap(optax.tree.norm)(mean.params), total.weight > 0


@partial(jax.jit, donate_argnames=("mean", "aside"))
def _apply(
    algorithm: Method, state: RoundState, mean: Variables, aside: PyTree, everyone: Array, counted: Array
) -> RoundState:
    """Return the state after a mean update, by the operation of :mod:`fedloom.engines.program` for one experiment."""
    take = lambda a, output, update, sums, counted: step(a.server, output, update, sums, everyone, counted)  # noqa: E731
    output = jax.tree.map(lambda a: jnp.asarray(a)[None], (state.variables, state.optimizer, state.broadcast))
    variables, optimizer, broadcast = member(jax.vmap(take)(algorithm, output, mean, aside, counted), 0)
    return replace(state, variables=variables, optimizer=optimizer, broadcast=broadcast, round=state.round + 1)


def told(like: Sent, arrays: Mapping[str, np.ndarray], first: Variables) -> Sent:
    """What was sent as a tree; what never leaves a participant as it was at first."""
    own = {f"variables.{name}": a for name, a in flatten(first).items()}
    return unflatten(like, {**own, **arrays})
