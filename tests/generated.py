"""Generated data that the tests share."""

import numpy as np

from fedloom.data import FederatedData, Ranges


def make(sizes: list[int], features: int = 4, classes: int = 3, seed: int = 0, test: int = 30) -> FederatedData:
    """Generated examples: client k has sizes[k] of them, and nobody the last ``test``."""
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    x = rng.normal(size=(total + test, features)).astype(np.float32)
    y = np.argmax(x @ rng.normal(size=(features, classes)), axis=1).astype(np.int32)
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    index = rng.permutation(total).astype(np.int32)
    clients = {"train": Ranges(start, np.array(sizes, np.int32))}
    return FederatedData("generated", {"x": x, "y": y}, classes, index, clients, {"test": total + np.arange(test)})


def make_validated(sizes: list[int]) -> FederatedData:
    """Generated data of which each client keeps the last third for validation."""
    data = make(sizes)
    whole = data.clients["train"]
    held = whole.size // 3
    left = whole.size - held
    data.clients["train"] = Ranges(whole.start, left)
    data.clients["validation"] = Ranges(whole.start + left, held)
    return data
