"""Load a 2NN that a run has kept, with nothing but NumPy and safetensors, and read a few digits.

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


kept = load_file(sys.argv[1])
wanted = {f"params.{layer}.{part}" for layer in ("hidden1", "hidden2", "output") for part in ("w", "b")}
if set(kept) != wanted or kept["params.hidden1.w"].shape[0] != 784:
    sys.exit(f"{sys.argv[1]} is no 2NN for MNIST, which is all that this example computes; it has {', '.join(kept)}")
data = fl.data.mnist()
images, labels = (data.columns[name][data.test] for name in ("x", "y"))
digits = predict(kept, images)
print(f"first ten: {digits[:10].tolist()}, labels: {labels[:10].tolist()}")
print(f"test accuracy {np.mean(digits == labels):.2%}")
