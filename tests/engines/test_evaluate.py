"""How many examples are measured at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom import tasks
from fedloom.engines.evaluate import needed, some, touched
from fedloom.tasks.task import Batch, Task, Variables

LINES = {"x": np.zeros((1, 80), np.uint8), "y": np.zeros((1, 80), np.int8)}
IMAGES = {"x": np.zeros((1, 28, 28, 1), np.float32), "y": np.zeros(1, np.int32)}
MODELS = {"lstm": (tasks.char_lstm(86), LINES), "cnn": (tasks.cnn(), IMAGES), "2nn": (tasks.two_nn(), IMAGES)}


def test_what_an_example_touches_is_everything_that_is_computed() -> None:
    def metrics(variables: Variables, batch: Batch) -> dict[str, jax.Array]:  # noqa: ARG001
        return {"sum": (batch["x"] + 1).sum(axis=1)}

    task = Task("sum", lambda key: Variables({}, {}), lambda *_: (jnp.zeros(1), {}), metrics, 2)  # noqa: ARG005
    assert touched(task, {"x": np.zeros((1, 10), np.float32)}) == 10 * 4 + 4


@pytest.mark.parametrize("name", MODELS)
def test_what_it_needs_is_room_for_what_the_compiler_takes_and_not_many_times_that(name: str) -> None:
    task, columns = MODELS[name]
    models = jax.eval_shape(task.init, jax.random.key(0))
    program = jax.jit(task.metrics).lower(models, some(columns, 64)).compile()
    takes = program.memory_analysis().temp_size_in_bytes
    assert takes <= 64 * needed(task, columns) <= 10 * takes
