"""Checks: whether an algorithm, a model and data go together, before anything is computed."""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np

from fedloom.algorithms import Method
from fedloom.combine import Reading
from fedloom.data import FederatedData
from fedloom.data.shapes import Shapes, examples, shapes_of
from fedloom.direction import require_direction
from fedloom.errors import ArgumentError, DataError, UnknownName, require
from fedloom.local.counting import check_steps
from fedloom.tasks import Task, Variables
from fedloom.tasks.activation import last

SOME = 7  # examples of the batch for which the shapes of metrics are looked at


def check_kinds(algorithm: object, task: object, data: object) -> None:
    """Raise an :class:`ArgumentError` unless these are an algorithm, a task and dealt data at all."""
    told = lambda thing: thing.__name__ if callable(thing) and hasattr(thing, "__name__") else thing  # noqa: E731
    dealt = "data that is dealt to clients, such as fl.data.mnist().partition(fl.partition.iid(100))"
    require(isinstance(data, FederatedData), "data", dealt, told(data))
    require(isinstance(task, Task), "task", "a task, such as fl.tasks.two_nn()", told(task))
    require(isinstance(algorithm, Method), "algorithm", "an algorithm, such as fl.fedavg()", told(algorithm))


def check(algorithm: Method, task: Task, data: FederatedData, workers: int | None = None) -> None:
    """Raise an :class:`ArgumentError` unless the model takes the data's examples and tells its classes apart, cohorts
    are large enough, and everybody has the data on which models are judged. There is a worker for every client, unless
    it is said how many there are.
    """
    if data.classes < 2 and data.class_names:
        raise DataError(f"{data.name} has nothing to tell apart: all examples are {data.class_names[0]!r}")
    users = workers or len(data)
    algorithm = algorithm.for_clients(len(data), data.client_names, users)
    metrics = None if task.client else measured(task, data)
    least = algorithm.routing.min_cohort
    few = f"enough for {least} of {users:,} users to meet"
    require(algorithm.cohort(users) >= min(least, users), "fraction", few, algorithm.fraction)
    model = jax.eval_shape(lambda: task.init(jax.random.key(0)))
    algorithm.local.check(model)
    if task.client is None and algorithm.local.batches.batch_size is not None:  # for B = ∞ the plan does this
        sizes = data.clients["train"].size
        check_steps(algorithm.local.batches, sizes, algorithm.local.batches.rows(sizes))
    algorithm.routing.check(model)
    check_broadcast(algorithm, model, users)
    overall = [name for name, _ in task.overall]
    for need in algorithm.readings:
        able = "a metric with one value for each example, not one over a whole split"
        require(need.metric not in overall, "the metric of a weighting", able, need.metric)
        if metrics is not None and need.metric not in metrics:
            raise UnknownName("the metric of a weighting", need.metric, metrics)
        require_direction(f"{need.part}_{need.metric}", task.directions)
        check_part(need, algorithm.routing.exchanges_models, data)


def check_broadcast(method: Method, model: Variables, clients: int) -> None:
    """Raise an :class:`ArgumentError` if clients need more beside the model than the method sends them."""
    routing = method.routing
    if not routing.exchanges_models:
        return
    needs = jax.eval_shape(method.local.broadcast, model)
    models = jax.tree.map(lambda a: jax.ShapeDtypeStruct((clients, *a.shape), a.dtype), model)
    memory = jax.eval_shape(lambda v: routing.memory(v, clients), model)
    sent = jax.eval_shape(routing.broadcast, models, memory, jax.ShapeDtypeStruct((clients,), np.int32))
    need = "work that needs nothing from a server, where clients mix models of their own without one"
    require(not needs.keys() - sent.keys(), "local", need, method.local.describe().get("work"))


def measured(task: Task, data: FederatedData) -> set[str]:
    """Return the metrics that the task gives for the data's examples."""
    shape = data.columns["x"].shape[1:]
    fitting = f"a model for inputs of shape {shape} and {data.classes:,} classes, which {data.name} has"
    if task.classes is not None and task.classes < data.classes:
        raise ArgumentError("task", fitting, f"{task.name} for {task.classes:,} classes")
    try:
        found = _metrics(task, shapes_of(data.columns), data.classes)
    except ArgumentError:
        raise
    except (TypeError, ValueError) as error:
        why = f"{fitting}, and given what is put in by inputs= if that is used ({str(error).splitlines()[0]})"
        raise ArgumentError("task", why, task.name) from error
    for name, size in found.items():
        need = f"a task whose metric {name!r} has one value for each example, of shape (batch,)"
        require(size == (SOME,), "task", need, f"{task.name}, of shape {size} for {SOME} examples")
    predicts = task.outputs is not None
    require(not task.overall or predicts, "task", "one with outputs, for metrics over a split", task.name)
    return set(found) - {"count"}


@lru_cache(maxsize=32)
def _metrics(task: Task, shapes: Shapes, classes: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a task's metrics; raise an :class:`ArgumentError` if its outputs do not fit its loss."""
    outputs, (one, some) = task.outputs, (examples(shapes, n) for n in (1, SOME))
    if task.fits and outputs:
        first = lambda x: outputs(task.init(jax.random.key(0)), x)  # noqa: E731
        given = jax.eval_shape(first, one["x"])
        size = given.shape[1:] if hasattr(given, "shape") else jax.tree.map(lambda a: a.shape[1:], given)
        if wrong := task.fits(size, one["y"].shape[1:], classes):
            raise ArgumentError("task", f"one whose outputs are {wrong}", f"{task.name} with outputs of shape {size}")
        if task.squashes and (act := last(first, one["x"])):
            need = f"one that leaves the {task.squashes} to its loss, and gives logits"
            raise ArgumentError("task", need, f"{task.name}, which ends in a {act}")
    found = jax.eval_shape(lambda batch: task.metrics(task.init(jax.random.key(0)), batch), some)
    return {name: values.shape for name, values in found.items()}


def check_part(need: Reading, own: bool, data: FederatedData) -> None:
    """Raise an :class:`ArgumentError` unless everybody has the part that is read, or, where it need not be their own,
    there is one that is nobody's.
    """
    if need.part in data.clients:
        lacking = np.flatnonzero(data.clients[need.part].size == 0)
        if len(lacking):
            more = f" and {len(lacking) - 1:,} more have" if len(lacking) > 1 else " has"
            who = f"{data.called(int(lacking[0]))}{more} none"
            raise ArgumentError("weighting", f"possible: it reads {need.part} data, but {who}", need.name)
    elif own or not len(data.central.get(need.part, ())):
        way = "give clients some (a split, --validation-share)" + ("" if own else " or hold some out (--validation)")
        raise ArgumentError("weighting", f"possible: it reads clients' {need.part} data; {way}", need.name)
