import os
import subprocess
import sys

import numpy as np
import pytest
from broadcasts import compiled_round, first_round, in_either_order, near, of, told

import fedloom as fl
from fedloom.clients import KerasClient
from fedloom.errors import ArgumentError

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
layers = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' variables


def perceptron(*more, optimizer="sgd"):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(5, activation="tanh"), *more, layers.Dense(3)])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_it_learns_what_the_compiled_engine_does(generated) -> None:
    data, model = generated([12]), perceptron(layers.BatchNormalization())
    client = KerasClient(model, of(data))
    begun = client.weights()
    found = client.fit(first_round(data, begun)).weights
    client.trained(begun)
    near(found, compiled_round(data, fl.tasks.from_keras(model)))


def test_it_learns_what_train_on_batch_does(generated) -> None:
    examples, model = of(generated([7])), perceptron()
    client = KerasClient(model, examples)
    broadcast = told(client.weights(), lr=0.5)
    found = client.fit(broadcast).weights
    model = perceptron(optimizer=keras.optimizers.SGD(0.5))
    for rows in broadcast.batches(7):
        model.train_on_batch(examples["train"]["x"][rows], examples["train"]["y"][rows])
    near(found, dict(zip(found, model.get_weights(), strict=True)), 0)


def test_nothing_is_remembered_from_another_client_or_round(generated) -> None:
    data = generated([8, 6])
    model = perceptron(layers.BatchNormalization(), layers.Dropout(0.5), optimizer="adam")
    in_either_order(lambda mine: KerasClient(model, mine), of(data, 0), of(data, 1), lr=0.01)


def test_dropout_draws_from_the_key_and_differs_between_layers(generated) -> None:
    model = perceptron(layers.Dropout(0.5), layers.Dropout(0.5))
    client = KerasClient(model, of(generated([8])))
    seeds = lambda: [np.array(v).tolist() for v in model.variables if "seed" in v.path]  # noqa: E731
    begun, found = client.weights(), []
    for key in ((1, 2), (3, 4), (1, 2)):
        client.fit(told(begun, epochs=1, key=key))
        found += seeds()
    assert len({tuple(seed) for seed in found}) == 4
    assert found[:2] == found[4:]


def test_a_model_that_was_trained_before_begins_with_a_fresh_optimiser(generated) -> None:
    examples, fresh, old = of(generated([8])), perceptron(optimizer="adam"), perceptron(optimizer="adam")
    old.fit(examples["train"]["x"], examples["train"]["y"], verbose=0)
    old.set_weights(fresh.get_weights())
    one, other = (KerasClient(model, examples) for model in (fresh, old))
    found = [client.fit(told(client.weights())).weights.values() for client in (one, other)]
    for mine, wanted in zip(*found, strict=True):
        assert np.array_equal(mine, wanted)


def test_it_judges_by_sums() -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(2, use_bias=False), layers.Dropout(0.9)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = np.array([[3, 0], [0, 1], [1, 0]], np.float32), np.array([0, 1, 1], np.int32)
    client = KerasClient(model, {"test": {"x": x, "y": y}})
    [name] = client.weights()
    found = client.evaluate(told({name: np.eye(2, dtype=np.float32)}), "test")
    assert (found["accuracy"], found["count"]) == (2, 3)
    assert found["loss"] == pytest.approx(sum(np.log1p(np.exp(-d)) for d in (3, 1, -1)), rel=1e-5)


def test_pixels_take_the_shape_that_the_model_says() -> None:
    model = keras.Sequential([keras.Input((2, 2, 1)), layers.Flatten(), layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse")
    client = KerasClient(model, {"train": {"x": np.full((1, 2, 2), 255, np.uint8), "y": np.ones(1, np.float32)}})
    [name] = client.weights()
    after = client.fit(told({name: np.zeros((4, 1), np.float32)})).weights[name]
    np.testing.assert_allclose(after, np.full((4, 1), 0.1 * 2), rtol=1e-6)


def test_the_model_itself_is_given_back_with_the_trained_weights() -> None:
    model = perceptron()
    task = fl.clients.task(KerasClient, model)
    doubled = {n: 2 * w for n, w in KerasClient(model, {}).weights().items()}
    assert task.give_back(fl.tasks.Variables(doubled, {})) is model
    near(KerasClient(model, {}).weights(), doubled, 0)


def test_what_cannot_be_trained_is_told() -> None:
    with pytest.raises(ArgumentError, match=r"model must be compiled: model.compile\(optimizer, loss\)"):
        KerasClient(keras.Sequential([keras.Input((2,)), layers.Dense(1)]), {})
    shapeless = keras.Sequential([layers.Dense(1)])
    shapeless.compile("sgd", "mse")
    with pytest.raises(ArgumentError, match="model must be built"):
        KerasClient(shapeless, {})


OTHER = """
import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, numpy as np
from fedloom.clients import Broadcast, KerasClient
assert keras.backend.backend() == "tensorflow"
layers = [keras.Input((4,)), keras.layers.Dense(5), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
model = keras.Sequential(layers)
model.compile("adam", "mse")
x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
client = KerasClient(model, {"train": {"x": x, "y": x[:, 0]}})
told = Broadcast(client.weights(), 0, 0.01, 1, 3, (1, 2))
one, two = client.fit(told).weights, client.fit(told).weights
assert all(np.array_equal(one[n], two[n]) for n in one)
print(sorted(client.evaluate(told, "train")), all(np.abs(one[n] - told.weights[n]).max() > 0 for n in one))
"""


@pytest.mark.slow
def test_another_backend_trains_it_too() -> None:
    pytest.importorskip("tensorflow")
    done = subprocess.run([sys.executable, "-c", OTHER], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['count', 'loss'] True"
