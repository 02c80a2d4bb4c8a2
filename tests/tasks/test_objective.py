"""Objectives: numbers worked out by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from user_models import federated

import fedloom as fl
from fedloom.errors import ArgumentError
from fedloom.tasks import Objective, Task, objective
from fedloom.tasks.objective import supervised
from fedloom.tasks.task import Variables

LOG = {p: float(np.log(p)) for p in (2, 3, 4)}


def judged(name: str, outputs: Any, y: Any) -> tuple[list[float], dict[str, list[float]]]:
    goal, batch = objective(name), {"x": jnp.zeros(len(y)), "y": jnp.asarray(y)}
    outputs = jnp.asarray(outputs, jnp.float32)
    return goal.loss(outputs, batch).tolist(), {k: v.tolist() for k, v in goal.metrics(outputs, batch).items()}


def test_classes() -> None:
    losses, found = judged("cross_entropy", [[0, LOG[3]], [LOG[3], 0]], [1, 1])
    assert losses == pytest.approx([LOG[4] - LOG[3], LOG[4]])  # probabilities 3/4 and 1/4
    assert found == {"loss": pytest.approx(losses), "accuracy": [1, 0], "count": [1, 1]}


def test_labels() -> None:
    logits = [[LOG[3], -LOG[3]], [LOG[3], LOG[3]]]
    losses, found = judged("binary_cross_entropy", logits, [[1, 0], [1, 0]])
    right, wrong = LOG[4] - LOG[3], LOG[4]
    assert losses == pytest.approx([right, (right + wrong) / 2])
    assert found == {"loss": pytest.approx(losses), "accuracy": [1, 0.5], "count": [1, 1]}


def test_one_label_of_a_model_with_one_output() -> None:
    losses, found = judged("binary_cross_entropy", [[LOG[3]], [LOG[3]]], [1, 0])
    assert losses == pytest.approx([LOG[4] - LOG[3], LOG[4]])
    assert found["accuracy"] == [1, 0]


def test_numbers() -> None:
    losses, found = judged("squared_error", [[1, 2], [0, 4]], [[1, 0], [3, 4]])
    assert losses == [2, 4.5]
    assert found == {"loss": [2, 4.5], "error": [1, 1.5], "count": [1, 1]}


def test_tokens_and_no_token() -> None:
    even, sure = [0, 0], [LOG[3], 0]
    losses, found = judged("next_token", [[sure, even, even], [sure, sure, even]], [[0, 1, -1], [1, -1, -1]])
    assert losses == pytest.approx([(LOG[4] - LOG[3] + LOG[2]) / 2, LOG[4]])
    assert found["loss"] == pytest.approx([LOG[4] - LOG[3] + LOG[2], LOG[4]])  # sums, out of so many tokens
    assert found["accuracy"] == [1, 0]
    assert found["count"] == [2, 1]


def test_a_text_without_tokens_is_worth_nothing() -> None:
    losses, found = judged("next_token", [[[0, 0]]], [[-1]])
    assert losses == [0]
    assert found == {"loss": [0], "accuracy": [0], "count": [0]}


def test_other_metrics_stand_beside_and_count_as_the_others() -> None:
    first = lambda outputs, batch: outputs[:, 0, 0] + batch["x"]  # noqa: E731
    goal = objective("next_token", {"first": first})
    found = goal.metrics(jnp.ones((1, 3, 2)), {"x": jnp.array([4.0]), "y": jnp.array([[0, 1, -1]])})
    assert (float(found["first"][0]), float(found["count"][0])) == (10, 2)  # 5 for the text, which has two tokens


def test_a_loss_of_ones_own_sees_the_whole_batch() -> None:
    goal = objective(lambda outputs, batch: outputs["a"] * batch["weight"], {"b": lambda outputs, batch: outputs["b"]})  # noqa: ARG005
    batch = {"x": jnp.zeros(2), "weight": jnp.array([1.0, 10.0])}
    found = goal.metrics({"a": jnp.array([2.0, 3.0]), "b": jnp.array([7.0, 8.0])}, batch)
    assert {k: v.tolist() for k, v in found.items()} == {"loss": [2, 30], "count": [1, 1], "b": [7, 8]}


def test_an_objective_of_ones_own_is_used_as_it_is() -> None:
    mine = Objective(lambda outputs, batch: outputs, lambda outputs, batch: {"loss": outputs, "count": outputs})  # noqa: ARG005
    assert objective(mine) is mine


def test_a_loss_for_the_batch_is_not_one_for_each_example() -> None:
    mean = objective(lambda outputs, batch: outputs.mean())  # noqa: ARG005
    with pytest.raises(ArgumentError, match=r"loss must be one number for each example, of shape \(2,\), but is \(\)"):
        mean.loss(jnp.ones(2), {"x": jnp.zeros(2)})


def test_a_loss_that_is_none() -> None:
    with pytest.raises(ArgumentError, match="loss must be a name, an Objective or a function"):
        objective(3)  # type: ignore[arg-type]


def linear(outputs: int, loss: Any, shape: tuple[int, ...] = ()) -> Task:
    init = lambda key: {"w": jnp.zeros((4, outputs))}  # noqa: ARG005, E731
    return fl.tasks.from_function(init, lambda p, x: (x @ p["w"]).reshape(len(x), *(shape or (outputs,))), loss)


@pytest.mark.parametrize(
    ("task", "y", "message"),
    [
        (linear(2, "cross_entropy"), np.arange(6) % 3, r"one number for each of 3 classes.*shape \(2,\)"),
        (linear(6, "cross_entropy", (2, 3)), np.arange(6) % 3, r"of 3 classes, but is .* \(2, 3\)"),
        (linear(2, "squared_error"), np.arange(6) % 3, r"one number for each number, of shape \(\)"),
        (linear(3, "binary_cross_entropy"), np.arange(6) % 2, r"one number for each label, of shape \(\)"),
        (linear(6, "next_token", (2, 3)), np.arange(6) % 3, r"of 3 tokens at each of \(\) places"),
    ],
)
def test_outputs_that_do_not_fit_the_labels(task: Task, y: np.ndarray, message: str) -> None:
    kind = np.int32 if "tokens" in message else np.float32
    data = federated(np.ones((6, 4), kind), y.astype(np.int32))
    with pytest.raises(ArgumentError, match=message):
        fl.run(data, task, fl.fedavg(fraction=1), rounds=1)


def test_several_outputs_need_a_loss_of_ones_own() -> None:
    two = lambda p, x: (x @ p["w"], x @ p["w"])  # noqa: E731
    begin = lambda key: {"w": jnp.zeros((4, 3))}  # noqa: ARG005, E731
    data = federated(np.ones((6, 4), np.float32), (np.arange(6) % 3).astype(np.int32))
    with pytest.raises(ArgumentError, match=r"of 3 classes, but is .* \(\(3,\), \(3,\)\)"):
        fl.run(data, fl.tasks.from_function(begin, two), fl.fedavg(fraction=1), rounds=1)
    own = fl.tasks.from_function(begin, two, lambda outputs, batch: (outputs[0] + outputs[1]).sum(1) + batch["y"])
    run = fl.run(data, own, fl.fedavg(fraction=1, batch_size=None, lr=0.5), rounds=1, evaluate=["test"])
    np.testing.assert_allclose(run.variables.params["w"], -1)  # each weight counts twice: -0.5 · 2
    assert run.history.column("test_loss").tolist() == [1, 1 - 2 * 3 * 4]


def test_what_a_loss_has_beside_is_added_to_every_example_and_not_measured() -> None:
    apply = lambda variables, x, key: ((x * variables.params, jnp.float32(5)), {})  # noqa: ARG005, E731
    begin = lambda key: Variables(jnp.float32(2), {})  # noqa: ARG005, E731
    task = supervised("one", begin, apply, "squared_error", extra=lambda found: found)
    batch = {"x": jnp.array([1.0, 2.0]), "y": jnp.array([0.0, 1.0])}
    assert task.loss(begin(None), batch, jax.random.key(0))[0].tolist() == [9, 14]
    assert task.metrics(begin(None), batch)["loss"].tolist() == [4, 9]
    assert task.outputs is not None
    assert task.outputs(begin(None), batch["x"]).tolist() == [2, 4]


@pytest.mark.parametrize("loss", [lambda o, b: (o[:, None] - b["y"]) ** 2, lambda o, b: ((o - b["y"]) ** 2).mean()])
def test_an_objective_whose_loss_is_not_one_number_for_each_example_is_refused(loss: Any) -> None:
    """Where (batch,) meets (batch, 1) there are batch² numbers, which used to be trained on."""
    metrics = lambda o, b: {"loss": (o - b["y"]) ** 2, "count": jnp.ones(len(o))}  # noqa: E731
    task = fl.tasks.from_function(lambda key: jnp.zeros(2), lambda w, x: x @ w, loss=Objective(loss, metrics))  # noqa: ARG005
    data = federated(np.ones((4, 2), np.float32), np.ones(4, np.float32), classes=1)
    with pytest.raises(ArgumentError, match="loss must be one number for each example"):
        fl.run(data, task, fl.fedavg(fraction=1.0), rounds=1)


def test_metrics_of_an_objective_that_are_one_number_for_a_batch_are_refused() -> None:
    metrics = lambda o, b: {"loss": (o - b["y"]) ** 2, "most": jnp.abs(o - b["y"]).max(), "count": jnp.ones(len(o))}  # noqa: E731
    goal = Objective(lambda o, b: (o - b["y"]) ** 2, metrics)
    task = fl.tasks.from_function(lambda key: jnp.zeros(2), lambda w, x: x @ w, loss=goal)  # noqa: ARG005
    data = federated(np.ones((4, 2), np.float32), np.ones(4, np.float32), classes=1)
    with pytest.raises(ArgumentError, match="metric 'most' has one value for each example"):
        fl.run(data, task, fl.fedavg(fraction=1.0), rounds=1)
