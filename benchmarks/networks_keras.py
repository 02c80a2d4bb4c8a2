"""Some of the networks of `networks.py` in Keras, as users write them."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers
from networks import Network
from networks_flax import shape


def build(network: Network, seed: int = 0) -> Any:
    """Return the network with weights drawn from a seed."""
    keras.utils.set_random_seed(seed)
    given = keras.Input(shape(network), dtype="int32" if network.tokens else "float32")
    return keras.Model(given, BUILDERS[network.name](network, given))


def mlp(_: Network, x: Any) -> Any:
    """The 2NN of McMahan et al. (2017)."""
    for width in (200, 200):
        x = layers.Dense(width, activation="relu")(x)
    return layers.Dense(10)(x)


def lenet(_: Network, x: Any) -> Any:
    """LeNet-5 with ReLU and max-pooling."""
    for channels in (6, 16):
        x = layers.MaxPooling2D(2)(layers.Conv2D(channels, 5, activation="relu")(x))
    x = layers.Flatten()(x)
    for width in (120, 84):
        x = layers.Dense(width, activation="relu")(x)
    return layers.Dense(10)(x)


def resnet8(_: Network, x: Any) -> Any:
    """The residual network of three blocks."""

    def convolved(x: Any, width: int, size: int, stride: int = 1) -> Any:
        return layers.Conv2D(width, size, stride, padding="same", use_bias=False)(x)

    def normalised(x: Any) -> Any:
        return layers.GroupNormalization(4, epsilon=1e-5)(x)

    x = layers.ReLU()(normalised(convolved(x, 16, 3)))
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        y = layers.ReLU()(normalised(convolved(x, width, 3, stride)))
        y = normalised(convolved(y, width, 3))
        around = convolved(x, width, 1, stride) if stride > 1 else x
        x = layers.ReLU()(layers.Add()([y, around]))
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


class Places(layers.Layer):
    """Adds a learned vector to each place."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Draw the vectors."""
        self.places = self.add_weight(shape=input_shape[1:], initializer=keras.initializers.RandomNormal(stddev=0.02))

    def call(self, x: Any) -> Any:
        """Return the sum."""
        return x + self.places


def transformer(network: Network, x: Any) -> Any:
    """An encoder whose outputs are averaged and classified."""
    width = network.width
    h = Places()(layers.Embedding(network.tokens, width)(x))
    for _ in range(network.layers):
        y = layers.LayerNormalization(epsilon=1e-6)(h)
        h = layers.Add()([h, layers.MultiHeadAttention(4, width // 4)(y, y)])
        y = layers.Dense(4 * width, activation="relu")(layers.LayerNormalization(epsilon=1e-6)(h))
        h = layers.Add()([h, layers.Dense(width)(y)])
    return layers.Dense(network.classes)(layers.GlobalAveragePooling1D()(h))


BUILDERS = {"MLP": mlp, "LeNet": lenet, "ResNet-8, GroupNorm": resnet8, "transformer": transformer}
