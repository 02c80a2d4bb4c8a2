import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from broadcasts import in_either_order, near, told

import fedloom as fl
from fedloom.clients import TensorflowClient
from fedloom.errors import ArgumentError, MissingExtra

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what it imports
    tf = pytest.importorskip("tensorflow")


class Line(tf.Module):
    """ℓ = ½ (w·x + b - y)², with steps that are the smaller, the more of them it has counted."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable([1.0, 0.0], name="w")
        self.b = tf.Variable(0.0, name="b")
        self.seen = tf.Variable(0, name="seen", trainable=False)

    def error(self, x, y):
        return tf.linalg.matvec(x, self.w) + self.b - y

    def train_step(self, x, y, lr):
        error = self.error(x, y)
        self.seen.assign_add(1)
        rate = lr / tf.cast(self.seen, tf.float32)  # smaller with every step of a round
        self.w.assign_sub(rate * tf.linalg.matvec(x, error, transpose_a=True) / len(y))
        self.b.assign_sub(rate * tf.reduce_mean(error))

    def test_step(self, x, y):
        error = self.error(x, y)
        return {"loss": tf.reduce_mean(error**2) / 2, "error": tf.reduce_mean(tf.abs(error))}


X, Y = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([2.0, 1.0], np.float32)


def test_its_own_steps_are_taken() -> None:
    client = TensorflowClient(Line(), {"train": {"x": X, "y": Y}})
    answer = client.fit(told(client.weights(), batch_size=None, epochs=2))
    w, b = np.array([1.0, 0.0]), 0.0
    for step in (1, 2):
        error = X @ w + b - Y
        w, b = w - 0.1 / step * X.T @ error / 2, b - 0.1 / step * error.mean()
    near(answer.weights, dict(zip(answer.weights, (b, w), strict=True)), 1e-6)
    assert list(answer.weights) == ["0.b", "1.w"]
    assert answer.examples == 2


def test_it_judges_by_its_own_test_step_in_sums() -> None:
    client = TensorflowClient(Line(), {"test": {"x": X, "y": Y}})  # errors -1 and 2
    assert client.evaluate(told(client.weights()), "test") == pytest.approx({"loss": 2.5, "error": 3.0, "count": 2.0})


def test_nothing_is_remembered_from_another_client_or_round() -> None:
    module = Line()
    in_either_order(
        lambda mine: TensorflowClient(module, mine), {"train": {"x": X, "y": Y}}, {"train": {"x": X[:1], "y": Y[:1]}}
    )


def test_the_module_itself_is_given_back() -> None:
    module = Line()
    task = fl.clients.task(TensorflowClient, module)
    variables = fl.tasks.Variables({"0.b": np.float32(5), "1.w": np.zeros(2, np.float32)}, {})
    assert task.give_back(variables) is module
    assert module.b.numpy() == 5


def test_what_is_missing_is_told(monkeypatch) -> None:
    with pytest.raises(ArgumentError, match="module must be one with a method train_step, but is 'Module'"):
        TensorflowClient(tf.Module(), {})
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(MissingExtra, match=r"this needs tensorflow: pip install 'fedloom\[tensorflow\]'"):
        TensorflowClient(Line(), {})


REMEMBERS = """
import keras, numpy as np, tensorflow as tf
from fedloom.clients import Broadcast, TensorflowClient

class Line(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(0.0)
        self.optimizer = keras.optimizers.Adam()

    @tf.function
    def train_step(self, x, y, lr):
        self.optimizer.learning_rate = lr
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.w * x - y) ** 2)
        self.optimizer.apply_gradients([(tape.gradient(loss, self.w), self.w)])

    def test_step(self, x, y):
        return {}

module, x = Line(), np.ones(4, np.float32)
client = TensorflowClient(module, {"train": {"x": x, "y": x}})
told = Broadcast(client.weights(), 0, 0.1, 2, 2, (1, 2))
steps = [float(*client.fit(told).weights.values()) for _ in range(2)]
print(steps[0] == steps[1] > 0, int(module.optimizer.iterations))
"""


@pytest.mark.slow
def test_an_optimiser_of_its_own_begins_anew() -> None:
    environment = os.environ | {"KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(
        [sys.executable, "-c", REMEMBERS], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "True 4", done.stderr[-2000:]
