"""Evaluate: every metric of a shared model on a part of the data; and which models are measured on a part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import fedloom.engines.devices as machine
from fedloom.algorithms.method import Method
from fedloom.data.federated import FederatedData
from fedloom.data.shapes import Shapes, examples, shapes_of
from fedloom.engines.deferred import Columns, Deferred, known, merge
from fedloom.engines.memory import footprint, peak
from fedloom.engines.plan import Plan
from fedloom.engines.predictions import labels, over_split
from fedloom.engines.store import Store, row_bytes
from fedloom.measures import OWN, OWN_ON_ALL, SHARED
from fedloom.tasks.task import Task, Variables

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PyTree

CACHE, SHARE = 2**24, 0.05  # what a batch may touch: bytes that stay in a CPU's cache; or need: of a GPU's memory
AMONG = 16  # examples that what a model needs for itself is spread over


def measured_models(algorithm: Method, data: FederatedData, part: str) -> tuple[str, ...]:
    """Return what an algorithm's models are measured as on a part of the data: SHARED, OWN, OWN_ON_ALL.

    Clients' own models are measured on the clients' own examples; on everybody's only where some examples belong to no
    client, because K models on all clients' examples are K times the work.
    """
    found = [SHARED] if algorithm.has_shared_model else []
    if algorithm.is_personal:
        found += [OWN] if part in data.clients and data.clients[part].size.any() else []
        found += [OWN_ON_ALL] if len(data.central.get(part, ())) else []
    return tuple(found)


@dataclass(frozen=True)
class Judge:
    """Evaluates models on the parts of a data set, in batches that suit the device."""

    task: Task
    plan: Plan
    store: Store
    rows: int
    placed: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def evaluate(self, variables: Variables, split: str) -> Columns:
        """Metric → its mean over the part's examples, for each experiment."""
        return self.means(variables, split).fetch()

    def means(self, variables: Variables, split: str) -> Deferred[Columns]:
        """Dispatch an evaluation: metric → its mean over the part's examples, for each experiment.

        Where examples are streamed, it waits for every block, so that one block at a time is on the device.
        """
        sums = []
        for columns, rows, live in self.batches(split):
            found = _sums(self.task, self.plan, columns, variables, rows, live)
            sums.append(found if self.store.resident is not None else jax.device_get(found))
        means = Deferred(sums, divided)
        return merge([means, known(self.overall(variables, split))]) if self.task.overall else means

    def overall(self, variables: Variables, split: str) -> dict[str, np.ndarray]:
        """Return the metrics over all predictions of a part, for each experiment."""
        outputs, batch = self.predictions(variables, split), labels(self.store.data, self.store.data.examples(split))
        each = [over_split(self.task, jax.tree.map(lambda a: a[x], outputs), batch, split)  # noqa: B023
                for x in range(self.plan.members)]  # fmt: skip
        return {name: np.array([one[name] for one in each]) for name, _ in self.task.overall}

    def predictions(self, variables: Variables, split: str) -> PyTree:
        """Return the models' outputs for the examples of a part, in its order: (experiments, examples, …)."""
        found = []
        for columns, rows, live in self.batches(split):
            outputs = _outputs(self.task, self.plan, columns["x"], variables, rows)
            real = np.asarray(live).reshape(-1) > 0
            found.append(jax.tree.map(lambda a: np.asarray(a)[:, real], outputs))  # noqa: B023
        return jax.tree.map(lambda *a: np.concatenate(a, axis=1), *found)

    def batches(self, split: str) -> Iterator[tuple[PyTree, Array | np.ndarray, Array | np.ndarray]]:
        """Columns, row numbers (devices, batches, rows) and which of them are real."""
        resident = self.store.resident
        if resident is not None:
            if split not in self.placed:
                where = NamedSharding(self.plan.mesh, P(machine.AXIS))
                self.placed[split] = jax.device_put(self.fold(self.store.data.examples(split)), where)
            yield (resident.columns, *self.placed[split])
            return
        examples = self.store.data.examples(split)
        block = max(self.rows * self.plan.mesh.size, self.store.budget // row_bytes(self.store.data))
        for start in range(0, len(examples), block):
            part = examples[start : start + block]
            rows, live = self.fold(np.arange(len(part)))
            yield machine.place(self.store.block(part, rows.size), self.plan.mesh), rows, live

    def fold(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers as (devices, batches, rows), in as few and as even batches as can be, padded with the part's own,
        and which of them are real.
        """
        devices = self.plan.mesh.size
        batches = max(1, -(-len(rows) // (devices * self.rows)))
        shape = devices, batches, -(-len(rows) // (devices * batches))
        padded = np.resize(rows.astype(np.int32), shape)
        live = np.arange(padded.size) < len(rows)
        return padded, live.astype(np.float32).reshape(shape)


def divided(blocks: Sequence[Mapping[str, np.ndarray]]) -> Columns:
    """Return metric → its mean, from its sums (and ``count``) over blocks of examples.

    >>> one = {"loss": np.array([3.0]), "count": np.array([2.0])}
    >>> other = {"loss": np.array([5.0]), "count": np.array([2.0])}
    >>> divided([one, other])
    {'loss': array([2.])}
    """
    zero = np.zeros(())
    sums = {name: sum((np.asarray(block[name], np.float64) for block in blocks), start=zero) for name in blocks[0]}
    return {name: value / sums["count"] for name, value in sums.items() if name != "count"}


def judge(task: Task, plan: Plan, store: Store) -> Judge:
    """A judge whose batches suit the device: in a CPU's cache, large on a GPU."""
    first, shapes = plan.mesh.devices.flat[0], shapes_of(store.data.columns)
    if first.platform == "cpu":
        return Judge(task, plan, store, int(np.clip(CACHE // touched(task, shapes), 16, 1000)))
    each = plan.members * needed(task, shapes, beside=plan.members > 1)
    return Judge(task, plan, store, int(np.clip(SHARE * machine.memory(first) // each, 16, 10_000)))


@lru_cache(maxsize=64)
def touched(task: Task, shapes: Shapes) -> int:
    """Return the bytes of everything that measuring an example computes, once."""
    return footprint(task.metrics, jax.eval_shape(task.init, jax.random.key(0)), examples(shapes, 1))


@lru_cache(maxsize=64)
def needed(task: Task, shapes: Shapes, beside: bool) -> int:
    """Return about how many bytes measuring an example needs at most, among others.

    Arguments:
        beside: whether a model is measured beside others; alone, a convolution may take another form.
    """
    some = examples(shapes, AMONG)
    if not beside:
        return peak(task.metrics, jax.eval_shape(task.init, jax.random.key(0)), some) // AMONG
    models = jax.eval_shape(jax.vmap(task.init), jax.random.split(jax.random.key(0), 2))
    return peak(jax.vmap(task.metrics, in_axes=(0, None)), models, some) // (2 * AMONG)


@partial(jax.jit, static_argnames=("task", "plan"))
def _sums(
    task: Task,
    plan: Plan,
    columns: PyTree,
    variables: Variables,
    rows: Int[Array, "devices batches rows"],
    live: Float[Array, "devices batches rows"],
) -> dict[str, Float[Array, " X"]]:
    """Metric → its sum over all live rows, for each experiment."""

    def mine(columns: PyTree, variables: Variables, rows: Array, live: Array) -> dict[str, Array]:
        def over(variables: Variables) -> dict[str, Array]:
            def one(sums: dict[str, Array], batch: tuple[Array, Array]) -> tuple[dict[str, Array], None]:
                taken = {name: column[batch[0]] for name, column in columns.items()}
                values = task.metrics(variables, taken)
                return {name: sums[name] + jnp.sum(value * batch[1]) for name, value in values.items()}, None

            sample = {name: column[rows[0, 0]] for name, column in columns.items()}
            found = jax.eval_shape(task.metrics, variables, sample)
            zero = {name: jnp.zeros((), jnp.result_type(value, live)) for name, value in found.items()}
            return lax.scan(one, zero, (rows[0], live[0]))[0]

        if plan.members == 1:
            alone = over(jax.tree.map(lambda a: a[0], variables))
            sums = {name: value[None] for name, value in alone.items()}
        else:
            sums = jax.vmap(over)(variables)
        return lax.psum(sums, machine.AXIS) if plan.mesh.size > 1 else sums

    split = P(), P(), P(machine.AXIS), P(machine.AXIS)
    done: dict[str, Array] = machine.on_each(plan.mesh, mine, *split)(columns, variables, rows, live)
    return done


@partial(jax.jit, static_argnames=("task", "plan"))
def _outputs(
    task: Task, plan: Plan, x: Array, variables: Variables, rows: Int[Array, "devices batches rows"]
) -> PyTree:
    """Return the outputs of each experiment's model for some rows: (experiments, rows, …)."""
    outputs = task.outputs
    assert outputs is not None

    def mine(x: Array, variables: Variables, rows: Array) -> PyTree:
        def over(variables: Variables) -> PyTree:
            return lax.map(lambda batch: outputs(variables, x[batch]), rows[0])

        found = jax.tree.map(lambda a: a.reshape(len(a), -1, *a.shape[3:]), jax.vmap(over)(variables))
        return lax.all_gather(found, machine.AXIS, axis=1, tiled=True) if plan.mesh.size > 1 else found

    return machine.on_each(plan.mesh, mine, P(), P(), P(machine.AXIS))(x, variables, rows)
