"""How many examples are measured at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom.engines.devices as machine
from fedloom import tasks
from fedloom.data.shapes import examples, shapes_of
from fedloom.engines.evaluate import Judge, judge, needed, touched
from fedloom.tasks.task import Batch, Task, Variables

LINES = {"x": np.zeros((1, 80), np.uint8), "y": np.zeros((1, 80), np.int8)}
IMAGES = {"x": np.zeros((1, 28, 28, 1), np.float32), "y": np.zeros(1, np.int32)}
MODELS = {"lstm": (tasks.char_lstm(86), LINES), "cnn": (tasks.cnn(), IMAGES), "2nn": (tasks.two_nn(), IMAGES)}


def test_what_an_example_touches_is_everything_that_is_computed() -> None:
    def metrics(variables: Variables, batch: Batch) -> dict[str, jax.Array]:  # noqa: ARG001
        return {"sum": (batch["x"] + 1).sum(axis=1)}

    task = Task("sum", lambda key: Variables({}, {}), lambda *_: (jnp.zeros(1), {}), metrics, 2)  # noqa: ARG005
    assert touched(task, shapes_of({"x": np.zeros((1, 10), np.float32)})) == 10 * 4 + 4


@pytest.mark.parametrize("many", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_what_it_needs_is_room_for_what_the_compiler_takes_and_not_many_times_that(name: str, many: int) -> None:
    task, columns = MODELS[name]
    models = jax.eval_shape(jax.vmap(task.init), jax.random.split(jax.random.key(0), many))

    def takes(rows: int) -> int:
        program = (
            jax.jit(jax.vmap(task.metrics, in_axes=(0, None)))
            .lower(models, examples(shapes_of(columns), rows))
            .compile()
        )
        return int(program.memory_analysis().temp_size_in_bytes)

    more = takes(192) - takes(64)
    assert more <= 128 * many * needed(task, shapes_of(columns), beside=many > 1) <= 10 * more


def judge_of(task: Task, members: int, device: str) -> Judge:
    """A judge of so many models on a device that is not here, with a thousand images."""
    devices = np.array([SimpleNamespace(platform=device)])
    plan: Any = SimpleNamespace(mesh=SimpleNamespace(devices=devices, size=len(devices)), members=members)
    store: Any = SimpleNamespace(data=SimpleNamespace(columns=IMAGES))
    return judge(task, plan, store)


def test_an_accelerator_measures_as_many_at_once_as_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.cnn()
    alone, beside = (needed(task, shapes_of(IMAGES), beside=b) for b in (False, True))
    monkeypatch.setattr(machine, "memory", lambda _: 20 * 600 * beside)  # a twentieth of it is for that
    assert judge_of(task, 1, "gpu").rows == 600 * beside // alone
    assert judge_of(task, 2, "gpu").rows == 300
    assert judge_of(task, 600, "gpu").rows == 16
    assert judge_of(tasks.two_nn(), 1, "gpu").rows == 10_000
    assert judge_of(tasks.two_nn(), 1, "cpu").rows == 2**24 // touched(tasks.two_nn(), shapes_of(IMAGES))


@pytest.mark.parametrize(
    ("devices", "rows", "shape"),
    [(1, 9047, (1, 2, 5000)), (4, 9047, (4, 1, 2500)), (2, 900, (2, 6, 834)), (1, 20_000, (1, 1, 10_000))],
)
def test_batches_are_even(devices: int, rows: int, shape: tuple[int, ...]) -> None:
    one: Any = SimpleNamespace(rows=rows, plan=SimpleNamespace(mesh=SimpleNamespace(size=devices)))
    places, live = Judge.fold(one, np.arange(10_000))
    assert places.shape == live.shape == shape
    assert places[live == 1].tolist() == list(range(10_000))
