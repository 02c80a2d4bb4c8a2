"""Load a model that a run has kept, with nothing but NumPy and safetensors, and read a few digits.

usage: python examples/load_model.py runs/FOLDER/model.safetensors
"""

import sys

import numpy as np
from safetensors.numpy import load_file

import fedloom as fl


def predict(w: dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """The digits that the 2NN sees."""
    h = images.reshape(len(images), -1) / 255
    for layer in ("hidden1", "hidden2"):
        h = np.maximum(h @ w[f"params.{layer}.w"] + w[f"params.{layer}.b"], 0)
    return np.argmax(h @ w["params.output.w"] + w["params.output.b"], axis=1)


data = fl.data.mnist()
images, labels = (data.columns[name][data.test] for name in ("x", "y"))
digits = predict(load_file(sys.argv[1]), images)
print(f"first ten: {digits[:10].tolist()}, labels: {labels[:10].tolist()}")
print(f"test accuracy {np.mean(digits == labels):.2%}")
