"""The networks of `networks.py` in PyTorch, as users write them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from networks import Network
from torch import Tensor, nn
from torch.nn import functional as F
from torch_parts import build as mcmahan

Norm = Callable[[int], nn.Module]


def build(network: Network, seed: int = 0) -> nn.Module:
    """Return the network with weights drawn from a seed."""
    if network.name == "MLP":
        return mcmahan("2nn", seed)
    torch.manual_seed(seed)
    return BUILDERS[network.name](network)


def lenet(_: Network) -> nn.Module:
    """LeNet-5 with ReLU and max-pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, before: int, after: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), norm(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), norm(after)
        same = stride == 1 and before == after
        self.around = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of both ways."""
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.around(x))


def resnet(widths: tuple[int, ...], blocks: int, norm: Norm) -> nn.Module:
    """A residual network for images of 32 × 32; each width but the first begins with a stride of 2."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, 1, 1, bias=False), norm(widths[0]), nn.ReLU()]
    before = widths[0]
    for i, width in enumerate(widths):
        for j in range(blocks):
            layers.append(Block(before, width, 2 if i and not j else 1, norm))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


def groups(many: int) -> Norm:
    """Group norm of so many groups."""
    return lambda channels: nn.GroupNorm(many, channels)


def depthwise(_: Network) -> nn.Module:
    """A small MobileNet: pairs of a depthwise and a 1 × 1 convolution, with batch norm."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    for before, after, stride in ((16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)):
        layers += [
            nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False),
            nn.BatchNorm2d(before),
            nn.ReLU(),
        ]
        layers += [nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def sensors(network: Network) -> nn.Module:
    """Convolutions along the time of several sensors."""
    return nn.Sequential(
        nn.Conv1d(network.shape[0], 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(64, 64, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(64, network.classes),
    )


class Recurrent(nn.Module):
    """A language model of one recurrent layer."""

    def __init__(self, layer: type[nn.GRU] | type[nn.LSTM], network: Network) -> None:
        super().__init__()
        self.embed = nn.Embedding(network.tokens, 32)
        self.recurrent = layer(32, 128, batch_first=True)
        self.head = nn.Linear(128, network.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits at each place."""
        return self.head(self.recurrent(self.embed(x))[0])


class Transformer(nn.Module):
    """PyTorch's own encoder, whose outputs are averaged and classified."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        width, places = network.width, network.shape[0]
        self.embed = nn.Embedding(network.tokens, width)
        self.places = nn.Parameter(0.02 * torch.randn(places, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, network.layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, network.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.head(self.encoder(self.embed(x) + self.places).mean(1))


class CausalBlock(nn.Module):
    """Attention to the places before, and a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the inputs and what both parts add to them."""
        batch, places, width = x.shape
        split = lambda t: t.view(batch, places, self.heads, width // self.heads).transpose(1, 2)  # noqa: E731
        q, k, v = map(split, self.attend(self.norm1(x)).chunk(3, dim=-1))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(found.transpose(1, 2).reshape(batch, places, width))
        return x + self.perceptron(self.norm2(x))


class Gpt(nn.Module):
    """A language model like GPT-2."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        width, places = network.width, network.shape[0]
        self.embed = nn.Embedding(network.tokens, width)
        self.places = nn.Parameter(0.02 * torch.randn(places, width))
        self.blocks = nn.Sequential(*(CausalBlock(width, max(1, width // 64)) for _ in range(network.layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, network.classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits at each place."""
        return self.head(self.norm(self.blocks(self.embed(x) + self.places)))


BUILDERS: dict[str, Callable[[Network], nn.Module]] = {
    "LeNet": lenet,
    "ResNet-8, GroupNorm": lambda _: resnet((16, 32, 64), 1, groups(4)),
    "ResNet-8, BatchNorm": lambda _: resnet((16, 32, 64), 1, nn.BatchNorm2d),
    "ResNet-18, GroupNorm": lambda _: resnet((64, 128, 256, 512), 2, groups(32)),
    "depthwise": depthwise,
    "1-D convolutions": sensors,
    "GRU": lambda network: Recurrent(nn.GRU, network),
    "LSTM": lambda network: Recurrent(nn.LSTM, network),
    "transformer": Transformer,
    "GPT-like": Gpt,
}


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy, over all places where there are several."""
    return F.cross_entropy(outputs.flatten(0, -2), labels.flatten())
