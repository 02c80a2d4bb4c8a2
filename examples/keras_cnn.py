"""A Keras CNN of one's own, trained by clients with two digits each, and given back as the Keras model that it is.

usage: python examples/keras_cnn.py [ROUNDS [CLIENTS]]
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"  # before keras is imported

import keras
from keras import layers

import fedloom as fl

given = sys.argv[1:]
rounds, clients = map(int, [*given, *["12", "200"][len(given) :]])
engine = fl.engines.compiled()  # before anything computes, so that JAX shows every core
keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.Input((28, 28, 1)),
    layers.Conv2D(8, 5, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(16, 5, activation="relu"),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dropout(0.2),
    layers.Dense(10),
])  # fmt: skip

data = fl.data.mnist().partition(fl.partition.shards(clients, per_client=2))
task = fl.tasks.from_keras(model)
algorithm = fl.fedavg(fraction=10 / clients, epochs=2, batch_size=20, lr=0.1)
run = fl.run(data, task, algorithm, rounds=rounds, evaluate=["test"], every=5, engine=engine)
print(f"test accuracy {run.history.last('test_accuracy'):.2%} after {rounds} rounds")

task.give_back(run.variables).save("mnist.keras")  # the model above, with the trained weights
pixels, labels = (fl.data.mnist().columns[name][-1000:] for name in ("x", "y"))
guesses = keras.saving.load_model("mnist.keras").predict(pixels[..., None] / 255, verbose=0).argmax(axis=1)
print(f"mnist.keras on the last thousand digits: {(guesses == labels).mean():.2%}")
