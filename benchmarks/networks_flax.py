"""Some of the networks of `networks.py` in Flax (Linen), as users write them."""

from __future__ import annotations

from typing import Any

from flax import linen as nn
from networks import Network


class Mlp(nn.Module):
    """The 2NN of McMahan et al. (2017)."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Return logits."""
        for width in (200, 200):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


class LeNet(nn.Module):
    """LeNet-5 with ReLU and max-pooling."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Return logits."""
        for channels in (6, 16):
            x = nn.max_pool(nn.relu(nn.Conv(channels, (5, 5), padding="VALID")(x)), (2, 2), (2, 2))
        x = x.reshape(len(x), -1)
        for width in (120, 84):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    width: int
    stride: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Return the sum of both ways."""
        strides = self.stride, self.stride
        y = nn.Conv(self.width, (3, 3), strides, padding=1, use_bias=False)(x)
        y = nn.relu(nn.GroupNorm(4, epsilon=1e-5)(y))
        y = nn.GroupNorm(4, epsilon=1e-5)(nn.Conv(self.width, (3, 3), padding=1, use_bias=False)(y))
        around = nn.Conv(self.width, (1, 1), strides, use_bias=False)(x) if y.shape != x.shape else x
        return nn.relu(y + around)


class ResNet8(nn.Module):
    """The residual network of three blocks."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Return logits."""
        x = nn.relu(nn.GroupNorm(4, epsilon=1e-5)(nn.Conv(16, (3, 3), padding=1, use_bias=False)(x)))
        for width, stride in ((16, 1), (32, 2), (64, 2)):
            x = Block(width, stride)(x)
        return nn.Dense(10)(x.mean((1, 2)))


class Transformer(nn.Module):
    """An encoder whose outputs are averaged and classified."""

    tokens: int
    classes: int
    width: int
    layers: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Return logits."""
        places = self.param("places", nn.initializers.normal(0.02), (x.shape[1], self.width))
        h = nn.Embed(self.tokens, self.width)(x) + places
        for _ in range(self.layers):
            h += nn.SelfAttention(num_heads=4)(nn.LayerNorm()(h))
            h += nn.Dense(self.width)(nn.relu(nn.Dense(4 * self.width)(nn.LayerNorm()(h))))
        return nn.Dense(self.classes)(h.mean(1))


def build(network: Network) -> nn.Module:
    """Return the network."""
    if network.name == "transformer":
        return Transformer(network.tokens, network.classes, network.width, network.layers)
    return {"MLP": Mlp, "LeNet": LeNet, "ResNet-8, GroupNorm": ResNet8}[network.name]()


def shape(network: Network) -> tuple[int, ...]:
    """Return the shape of an example as Flax wants it: its channels last."""
    return (*network.shape[1:], network.shape[0]) if len(network.shape) == 3 else network.shape
