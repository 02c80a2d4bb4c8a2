"""Keras models: the same numbers as Keras itself."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from user_models import LR, close, drawn, federated, stepped

import fedloom as fl
from fedloom.errors import ArgumentError
from fedloom.tasks import Variables
from fedloom.tasks.from_keras import called

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
if keras.backend.backend() != "jax":
    pytest.skip("keras was imported with another backend", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' variables

BATCHES = drawn((6, 6, 1))


@pytest.fixture
def model() -> Any:
    """A convolution, batch norm, pooling, and a dense layer with weight decay; always the same weights."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            layers.Conv2D(4, 3, strides=2, padding="same", use_bias=False, name="convolution"),
            layers.BatchNormalization(name="norm", momentum=0.9),
            layers.ReLU(),
            layers.MaxPooling2D(2, strides=1),
            layers.Flatten(),
            layers.Dense(3, name="output", kernel_regularizer=keras.regularizers.L2(0.1)),
        ]
    )


def copied(model: Any) -> Any:
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    copy.compile(keras.optimizers.SGD(LR), loss)
    return copy


def same(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    """Two models' weights, running statistics among them."""
    for a, b in zip(found.get_weights(), wanted.get_weights(), strict=True):
        close(a, b, tolerance)


def test_an_epoch_is_that_of_keras_with_statistics_and_weight_decay(model: Any) -> None:
    copy = copied(model)
    for batch in BATCHES:
        copy.train_on_batch(batch["x"], batch["y"])
    before = model.get_weights()
    task = fl.tasks.from_keras(model)
    assert task.give_back is not None
    trained = task.give_back(stepped(task, BATCHES))
    assert trained is model
    same(model, copy)
    assert all(np.abs(a - b).max() > 1e-3 for a, b in zip(before, model.get_weights(), strict=True))


def test_a_round_of_one_client_is_a_step_of_keras_and_the_model_is_saved_and_goes_on(
    model: Any, tmp_path: Path
) -> None:
    copy, task, batch = copied(model), fl.tasks.from_keras(model), BATCHES[0]
    assert task.give_back is not None
    assert task.outputs is not None
    copy.train_on_batch(batch["x"], batch["y"])
    run = fl.run(
        federated(batch["x"], batch["y"]), task, fl.fedavg(fraction=1, batch_size=None, lr=LR), rounds=1,
        evaluate=["test"], directory=tmp_path / "run",
    )  # fmt: skip
    same(task.give_back(run.variables), copy)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    same(again, model, 0)
    begun = fl.tasks.from_keras(again).init(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, begun, jax.tree.map(np.asarray, run.variables))
    model.set_weights([0 * w for w in model.get_weights()])
    same(task.give_back(fl.load(tmp_path / "run").variables), again, 0)
    correct = np.argmax(np.asarray(again(batch["x"], training=False)), axis=1) == batch["y"]
    assert run.history.last("test_accuracy") == pytest.approx(correct.mean())


def test_variables_of_another_model(model: Any) -> None:
    task = fl.tasks.from_keras(model)
    begun = task.init(jax.random.key(0))
    assert task.give_back is not None
    with pytest.raises(ArgumentError, match=r"with params.output.bias of shape \(3,\), but is of shape \(2,\)"):
        task.give_back(Variables({**begun.params, "output.bias": np.zeros(2)}, begun.state))
    with pytest.raises(ArgumentError, match=r"variables must be those of this model, but is with params.more"):
        task.give_back(Variables({**begun.params, "more": np.zeros(2)}, begun.state))


def test_layers_and_state_are_kept_by_their_names(model: Any) -> None:
    begun = fl.tasks.from_keras(model).init(jax.random.key(0))
    hidden = lambda layers: set(fl.local.private(layers, fl.local.sgd()).private_leaves(begun))  # noqa: E731
    statistics = {"state.norm.moving_mean", "state.norm.moving_variance"}
    assert hidden("norm*") == {"params.norm.gamma", "params.norm.beta"} | statistics  # as fl.fedbn()
    assert hidden("state") == statistics
    assert hidden("output") == {"params.output.kernel", "params.output.bias"}


def test_layers_of_functional_models_have_their_names() -> None:
    x = keras.Input((4,))
    h = keras.layers.Dense(3, name="a")(x)
    functional = keras.Model(x, keras.layers.Dense(2, name="b")(h), name="whole")
    assert called(functional.trainable_variables, "whole") == ["a.kernel", "a.bias", "b.kernel", "b.bias"]
    inner = keras.Sequential([keras.layers.Dense(3, name="a")], name="inner")
    outer = keras.Sequential([keras.Input((4,)), inner], name="outer")
    assert called(outer.trainable_variables, "outer") == ["inner.a.kernel", "inner.a.bias"]


def texts() -> Any:
    """Embedding, LSTM, GRU and attention; two outputs, the second of a layer that is used twice; and dropout."""
    layers = keras.layers
    x = keras.Input((5,), dtype="int32")
    h = layers.Embedding(7, 4)(x)
    h = layers.LSTM(4, return_sequences=True)(layers.Dropout(0.5)(h))
    h = layers.MultiHeadAttention(2, 2, name="attention")(h, h)
    shared = layers.Dense(3, name="shared")
    last = layers.GRU(3)(h)
    return keras.Model(x, [layers.Dense(3, name="first", trainable=False)(last), shared(shared(last))])


def test_text_dropout_frozen_and_shared_layers_and_several_outputs() -> None:
    keras.utils.set_random_seed(2)
    model, rng = texts(), np.random.default_rng(0)
    both = lambda outputs, batch: fl.tasks.objective("cross_entropy").loss(outputs[0] + outputs[1], batch)  # noqa: E731
    task = fl.tasks.from_keras(model, both)
    batch = {"x": rng.integers(0, 7, (6, 5)), "y": rng.integers(0, 3, 6)}
    begun = task.init(jax.random.key(0))
    assert set(begun.state) == {"first.kernel", "first.bias"}
    assert sum(n.startswith("shared") for n in begun.params) == 2
    given = ([v.value for v in vs] for vs in (model.trainable_variables, model.non_trainable_variables))
    plain = lambda: model.stateless_call(*given, batch["x"], training=False)[0]  # noqa: E731
    train = lambda params, key: task.loss(Variables(params, begun.state), batch, key)[0]  # noqa: E731

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def every(keys: Any) -> Any:
        slope = jax.grad(lambda params: train(params, keys[0]).mean())(begun.params)
        return plain(), task.metrics(begun, batch)["loss"], [train(begun.params, key) for key in keys], slope

    wanted, measured, (one, same, other), slope = every([jax.random.key(k) for k in (1, 1, 2)])
    close(measured, both(wanted, batch))  # without dropout
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    assert all(np.abs(g).max() > 0 for n, g in slope.items() if n != "attention.key.bias")  # which softmax ignores


def test_models_that_cannot_be_used(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"model must be a keras\.Model, but is 3"):
        fl.tasks.from_keras(3)
    with pytest.raises(ArgumentError, match="model must be built: give it an Input, or call it once on a batch"):
        fl.tasks.from_keras(keras.Sequential([keras.layers.Dense(3)]))
    task = fl.tasks.from_keras(model)
    with pytest.raises(ArgumentError, match=r"a shape that examples of shape \(5,\) can take, but is \(6, 6, 1\)"):
        fl.run(federated(np.ones((4, 5), np.float32), np.zeros(4, np.int32)), task, fl.fedavg(fraction=1), rounds=1)
    monkeypatch.setattr(keras.backend, "backend", lambda: "tensorflow")
    with pytest.raises(ArgumentError, match=r"set KERAS_BACKEND=jax before keras is imported.*but is 'tensorflow'"):
        fl.tasks.from_keras(model)


@pytest.mark.parametrize("first", ["embedding", "dense"])
def test_tokens_of_any_type_are_integers(first: str) -> None:
    layers, rng = keras.layers, np.random.default_rng(0)
    tokens, y = rng.integers(0, 201, (6, 5)), rng.integers(0, 3, 6).astype(np.int32)
    x = keras.Input((5,), dtype="int32" if first == "embedding" else "float32")
    h = layers.Embedding(201, 4)(x) if first == "embedding" else layers.Embedding(201, 4)(layers.Identity()(x))
    model = keras.Model(x, layers.Dense(3)(layers.GlobalAveragePooling1D()(h)))
    task = fl.tasks.from_keras(model)
    assert task.outputs is not None
    for kind in (np.uint8, np.int64):
        close(
            task.outputs(task.init(jax.random.key(0)), federated(tokens.astype(kind), y).columns["x"][:6]),
            model(tokens),
        )


def test_fractions_are_not_rounded_to_tokens() -> None:
    model = keras.Sequential([keras.Input((5,)), keras.layers.Embedding(7, 4, name="e"), keras.layers.Flatten(),
                              keras.layers.Dense(3)])  # fmt: skip
    data = federated(np.full((4, 5), 0.5, np.float32), np.zeros(4, np.int32))
    with pytest.raises(ArgumentError, match=r"x must be integers, which the first layer of sequential.* takes for"):
        fl.run(data, fl.tasks.from_keras(model), fl.fedavg(fraction=1), rounds=1, evaluate=["train"])


def test_pixels_are_not_scaled_twice() -> None:
    layers = keras.layers
    model = keras.Sequential([keras.Input((4, 4)), layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(3)])
    data = federated(np.full((4, 4, 4), 200, np.uint8), np.zeros(4, np.int32))
    with pytest.raises(ArgumentError, match="without its Rescaling layer, for images are 0 to 1 already"):
        fl.run(data, fl.tasks.from_keras(model), fl.fedavg(fraction=1), rounds=1, evaluate=["train"])
    raw = fl.tasks.from_keras(model, inputs=lambda x: x)
    assert raw.outputs is not None
    close(raw.outputs(raw.init(jax.random.key(0)), data.columns["x"]), model(data.columns["x"]))


def test_frozen_layers_stay_as_they_are() -> None:
    layers = keras.layers
    model = keras.Sequential([keras.Input((4,)), layers.BatchNormalization(momentum=0.9), layers.Dense(5),
                              layers.BatchNormalization(momentum=0.9, trainable=False), layers.Dense(3)])  # fmt: skip
    batch = drawn((4,), batches=1)[0]
    wanted = copied(model)
    wanted.train_on_batch(batch["x"], batch["y"])
    task = fl.tasks.from_keras(model)
    same(task.give_back(stepped(task, [batch])), wanted)
    assert not np.any(np.asarray(model.layers[2].moving_mean))
    assert np.all(np.asarray(model.layers[0].moving_mean))
