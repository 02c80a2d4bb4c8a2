"""Networks that users bring, as `users_models.py` times them: their inputs, and generated examples that can be learned.

The networks themselves are in `networks_torch.py`, `networks_keras.py` and `networks_flax.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOMENTUM = 0.9
SIGNAL = 0.5  # deviation of a class's pattern in its examples, whose noise has deviation 1
TYPICAL = 0.5  # share of a text's tokens that are typical of its class


@dataclass(frozen=True)
class Network:
    """A network, and the examples that it is timed on.

    Arguments:
        shape: of an example, its channels first.
        classes: of the labels; of a language model, its tokens.
        clients: how many there are, all of which take part in every round.
        examples: how many each client has; multiples of 128 divide into batches of every size.
        libraries: the libraries that it is written in.
        tokens: of how many kinds the inputs are; 0 if they are numbers.
        predicts_next: True if a label is the next token at every place.
        width, layers: of a transformer.
        lr: the learning rate.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    clients: int
    examples: int
    libraries: tuple[str, ...] = ("PyTorch",)
    tokens: int = 0
    predicts_next: bool = False
    width: int = 64
    layers: int = 2
    lr: float = 0.01

    def draw(self, clients: int, examples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs and the labels of every client: (clients, examples, …)."""
        rng, many = np.random.default_rng([seed, 0]), clients * examples
        if self.predicts_next:
            following = rng.permutation(self.tokens).astype(np.int32)
            x = rng.integers(0, self.tokens, (many, *self.shape), np.int32)
            y = following[x]
        else:
            y = rng.integers(0, self.classes, many, np.int32)
            x = self._text(y, rng) if self.tokens else self._numbers(y, rng)
        return x.reshape(clients, examples, *self.shape), y.reshape(clients, examples, *y.shape[1:])

    def _text(self, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        share, size = self.tokens // self.classes, (len(y), *self.shape)
        typical = y[:, None] * share + rng.integers(0, share, size)
        return np.where(rng.random(size) < TYPICAL, typical, rng.integers(0, self.tokens, size)).astype(np.int32)

    def _numbers(self, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal((len(y), *self.shape), np.float32)
        x += SIGNAL * rng.standard_normal((self.classes, *self.shape), np.float32)[y]
        return x


EVERY = ("PyTorch", "Keras", "Flax")
IMAGE, PICTURE = (1, 28, 28), (3, 32, 32)


def networks(device: str) -> dict[str, Network]:
    """Return the networks by name, with so many clients and examples that a round takes about a second in PyTorch.

    Arguments:
        device: ``cpu``, or ``gpu``, where there are more clients, and the GPT-like network is larger.
    """
    large = device == "gpu"
    many = lambda clients: 16 if large else clients  # noqa: E731
    gpt = {"shape": (128,), "width": 384, "layers": 6} if large else {"shape": (64,), "width": 128, "layers": 4}
    every = (
        Network("MLP", (784,), 10, many(8), 2560, EVERY),
        Network("LeNet", IMAGE, 10, many(8), 1280, EVERY),
        Network("ResNet-8, GroupNorm", PICTURE, 10, many(4), 256, EVERY),
        Network("ResNet-8, BatchNorm", PICTURE, 10, many(4), 256),
        Network("ResNet-18, GroupNorm", PICTURE, 10, many(2), 128, lr=0.001),
        Network("depthwise", PICTURE, 10, many(4), 256),
        Network("1-D convolutions", (9, 128), 6, many(8), 512),
        Network("GRU", (40,), 90, many(8), 256, tokens=90, predicts_next=True),
        Network("LSTM", (40,), 90, many(8), 512, tokens=90, predicts_next=True),
        Network("transformer", (64,), 4, many(4), 256, EVERY, tokens=1000),
        Network("GPT-like", classes=65, clients=many(2), examples=128, tokens=65, predicts_next=True, **gpt),  # type: ignore[arg-type]
    )
    return {network.name: network for network in every}
