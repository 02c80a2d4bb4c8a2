"""Use an installed fedloom for real: the core, or one of its extras.

usage: python smoke.py core    (or the name of an extra)

Each function trains a tiny model through the library that its extra brings. ``lowest.sh``, ``extras.sh`` and
``flower.sh`` run this file in fresh environments.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli import app
from fedloom.trees import flatten

CLIENTS, ROWS, FEATURES, CLASSES = 4, 48, 6, 3
PLAIN = fl.fedavg(fraction=1.0, epochs=2, batch_size=4, lr=0.1)
COMMANDS = "run sweep resume peers reproduce plot list topology data server client status keys"


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    """Training and test examples whose labels a linear model can learn."""
    weights, rng = np.random.default_rng(7).normal(size=(FEATURES, CLASSES)), np.random.default_rng(seed)
    made = {f"x_{part}": rng.normal(size=(ROWS, FEATURES)).astype(np.float32) for part in ("train", "test")}
    return made | {f"y_{part}": np.argmax(made[f"x_{part}"] @ weights, axis=1) for part in ("train", "test")}


def data(clients: int = CLIENTS, seed: int = 0) -> Any:
    """The same, dealt to clients."""
    return fl.data.from_arrays("drawn", arrays(seed)).partition(fl.partition.iid(clients=clients))


def train(task: Any, given: Any = None, algorithm: Any = PLAIN, metric: str = "test_loss", **more: Any) -> fl.Run:
    """Train for two rounds; the loss on the test examples must fall."""
    run = fl.run(given or data(), task, algorithm, rounds=2, evaluate=["test"], **more)
    losses = run.history.column(metric)
    assert np.isfinite(losses).all() and losses[-1] < losses[0], losses
    return run


def fedloom(line: str) -> str:
    """Run a command as a user does, and return what it printed."""
    done = subprocess.run([sys.executable, "-m", "fedloom", *line.split()], capture_output=True, text=True)
    assert done.returncode == 0, f"fedloom {line}: {done.stdout}{done.stderr}"
    return done.stdout


def core() -> None:
    """Use the command line, files, figures, a sweep, a saved model, and clients in processes."""
    assert fedloom("--version").strip() == fl.__version__
    for name in COMMANDS.split():
        assert "Usage" in CliRunner().invoke(app, [name, "--help"], catch_exceptions=False).output
    assert "did 2 rounds" in fedloom("run --model logistic --rounds 2 --target none --out run")
    assert {"figure.png", "model.safetensors", "history.json"} <= {path.name for path in Path("run").iterdir()}
    fedloom("resume run --rounds 3 --quiet")
    fedloom("plot run")
    train(fl.tasks.logistic(FEATURES, CLASSES), algorithm=fl.scaffold(fraction=1.0, lr=0.1)).save("model.safetensors")
    fl.sweep(data(), fl.tasks.logistic(FEATURES, CLASSES), PLAIN, lr=[0.1, 0.2], rounds=1)
    train(fl.clients.task(Centroids), engine=fl.engines.processes(1))


class Centroids:
    """A client with code of its own, in NumPy: one step of softmax regression for each batch."""

    def __init__(self, examples: Any) -> None:
        self.examples = examples

    def weights(self) -> dict[str, np.ndarray]:
        """Zeros."""
        return {"w": np.zeros((FEATURES, CLASSES), np.float32)}

    def fit(self, broadcast: Any) -> fl.clients.Answer:
        """Gradient steps on the training examples."""
        x, y, w = self.examples["train"]["x"], self.examples["train"]["y"], broadcast.weights["w"].copy()
        for rows in broadcast.batches(len(y)):
            w -= broadcast.lr * x[rows].T @ (softmax(x[rows] @ w) - np.eye(CLASSES)[y[rows]]) / len(rows)
        return fl.clients.Answer({"w": w}, len(y))

    def evaluate(self, broadcast: Any, part: str) -> dict[str, float]:
        """The loss and the number of examples."""
        x, y = self.examples[part]["x"], self.examples[part]["y"]
        p = softmax(x @ broadcast.weights["w"])
        return {"loss": float(-np.log(p[np.arange(len(y)), y]).sum()), "count": float(len(y))}


def softmax(z: np.ndarray) -> np.ndarray:
    """Return softmax over the last axis."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def hdf5() -> None:
    """Read the examples from an HDF5 file."""
    import h5py

    with h5py.File("a.h5", "w") as file:
        file.update(arrays())
    train(fl.tasks.logistic(FEATURES, CLASSES), fl.data.hdf5("a.h5").partition(fl.partition.iid(clients=CLIENTS)))


def topology() -> None:
    """Train on a random topology and draw it."""
    graph = fl.dpa_sgd("regular:3", period=5, lr=0.1)
    train(fl.tasks.logistic(FEATURES, CLASSES), data(6), graph, metric="mean_test_loss")
    fedloom("topology regular:3 ring --workers 8")


def mpi() -> None:
    """Train workers on two ranks."""
    peers = "peers --model logistic --algorithm dpa-sgd --topology ring --clients 4 --rounds 1 --target none --quiet"
    launcher = [str(Path(sys.executable).with_name("mpirun")), "-n", "2"]
    subprocess.run([*launcher, sys.executable, "-m", "fedloom", *peers.split()], check=True, timeout=300)


def keras() -> None:
    """Train a Keras model compiled, and by its own code in a process."""
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras as library

    model = library.Sequential([library.Input((FEATURES,)), library.layers.Dense(CLASSES)])
    train(fl.tasks.from_keras(model))
    model.compile("sgd", library.losses.SparseCategoricalCrossentropy(from_logits=True))
    train(fl.clients.task(fl.clients.KerasClient, model), engine=fl.engines.processes(1))


def torch() -> None:
    """Train a PyTorch module compiled, and by its own code in a process."""
    from torch import nn

    train(fl.tasks.from_torch(nn.Sequential(nn.Linear(FEATURES, CLASSES))))
    train(fl.clients.task(fl.clients.TorchClient, nn.Linear(FEATURES, CLASSES)), engine=fl.engines.processes(1))


def flax() -> None:
    """Train a Linen and an NNX module."""
    from flax import linen, nnx

    train(fl.tasks.from_flax(linen.Dense(CLASSES), inputs=(FEATURES,)))
    train(fl.tasks.from_flax(nnx.Linear(FEATURES, CLASSES, rngs=nnx.Rngs(0)), inputs=(FEATURES,)))


def equinox() -> None:
    """Train an Equinox module."""
    import equinox as library
    import jax

    train(fl.tasks.from_equinox(library.nn.Linear(FEATURES, CLASSES, key=jax.random.key(0))))


def sklearn() -> None:
    """Train a scikit-learn estimator in a process."""
    from sklearn.linear_model import SGDClassifier

    kind, model = fl.clients.SklearnClient, SGDClassifier(loss="log_loss")
    train(fl.clients.task(kind, model, features=FEATURES, classes=CLASSES), engine=fl.engines.processes(1))


def tensorflow_client(examples: Any) -> Any:
    """Return a client whose module takes its own steps."""
    import tensorflow as tf

    class Linear(tf.Module):  # type: ignore[misc]
        """Softmax regression."""

        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(tf.zeros((FEATURES, CLASSES)))

        def train_step(self, x: Any, y: Any, lr: Any) -> None:
            with tf.GradientTape() as tape:
                loss = self.test_step(x, y)["loss"]
            self.w.assign_sub(lr * tape.gradient(loss, self.w))

        def test_step(self, x: Any, y: Any) -> dict[str, Any]:
            return {"loss": tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ self.w))}

    return fl.clients.TensorflowClient(Linear(), examples)


def tensorflow() -> None:
    """Train a TensorFlow module in a process."""
    train(fl.clients.task(tensorflow_client), engine=fl.engines.processes(1))


def ray() -> None:
    """Spread a compiled run over an actor."""
    train(fl.tasks.logistic(FEATURES, CLASSES), engine=fl.engines.ray(1))


def federation() -> None:
    """Serve two participants with certificates until the run is over."""
    for line in ("init keys --name Test", "issue keys server --server localhost", "issue keys a", "issue keys b"):
        fedloom(f"keys {line}")
    task, rules = fl.tasks.logistic(FEATURES, CLASSES), fl.federation.Rules(begin=2, beat=0.2, pause=0.05)
    found = []
    with ThreadPoolExecutor(2) as pool:

        def started(port: int, _: int | None) -> None:
            for seed, name in enumerate("ab"):
                where = {"folder": Path(f"at-{name}"), "keys": Path("keys", name)}
                given = data(1, seed)
                found.append(pool.submit(fl.federation.take_part, f"localhost:{port}", task, PLAIN, given, **where))

        stop = fl.runs.stopping.Stop(rounds=2)
        where = {"folder": "served", "address": "localhost:0", "page": "localhost:0", "keys": "keys/server"}
        served = fl.federation.serve(task, PLAIN, data=data(1, 2), stop=stop, rules=rules, started=started, **where)
    losses = served.history.column("test_loss")
    assert losses[-1] < losses[0], losses
    for one in found:
        model = one.result()
        assert model is not None
        for name, array in flatten(model).items():
            np.testing.assert_array_equal(array, flatten(served.variables)[name])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        globals()[sys.argv[1]]()
    print(f"{sys.argv[1]} works")
