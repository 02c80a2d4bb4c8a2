"""Time training steps of users' PyTorch models in float32 and bfloat16, and compare their accuracy.

Speed: a ResNet-18 (GroupNorm, CIFAR's shapes) with B = 50 and B = 250 and a GPT of 10.7 million parameters (T = 128,
B = 16), through ``from_torch`` and the compiled loop, in TFLOP/s: the operations of a training step over its time.
PyTorch's ``FlopCounterMode`` counts the operations of one step of the module itself: two for each multiplication and
addition of a convolution or matrix product, forward and backward; attention counts as if it were not causal.

Accuracy: 20 rounds of federated averaging on MNIST with three seeds, a CNN and a transformer that reads an image row by
row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import timing
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import fedloom as fl

PRECISIONS = ("float32", "bfloat16")
CLIENTS, STEPS = 4, 20  # clients in a round, and the steps of each
TOKENS, PLACES = 65, 128  # of the GPT


class Block(nn.Module):
    """Two convolutions with group norm, and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.GroupNorm(32, after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.GroupNorm(32, after),
        )  # fmt: skip
        plain = stride == 1 and before == after
        conv = nn.Conv2d(before, after, 1, stride, bias=False)
        self.around = nn.Identity() if plain else nn.Sequential(conv, nn.GroupNorm(32, after))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return torch.relu(self.body(x) + self.around(x))


def resnet18() -> nn.Module:
    """The ResNet-18 of He et al. (2016) for images of 32 × 32, with group norm."""
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    blocks = [Block(*w) for w in [*widths, (512, 512, 1)]]
    stem = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(32, 64), nn.ReLU()
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Layer(nn.Module):
    """A layer of the GPT: norm, attention, norm, two dense layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        b, t, w = x.shape
        q, k, v = (a.view(b, t, self.heads, -1).transpose(1, 2) for a in self.qkv(self.norms[0](x)).split(w, 2))
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, w))
        return x + self.dense(self.norms[1](x))


class Gpt(nn.Module):
    """A decoder of characters, as GPT-2 (Radford et al. 2019): 6 layers, width 384, 6 heads."""

    def __init__(self, layers: int = 6, width: int = 384, heads: int = 6) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(PLACES, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(self.layers(h)))


class Rows(nn.Module):
    """A transformer of two layers that reads an image of 28 × 28 row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.places = nn.Linear(28, 64), nn.Parameter(0.02 * torch.randn(28, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.out(self.layers(self.rows(x) + self.places).mean(1))


def cnn() -> nn.Module:
    """McMahan et al.'s CNN."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip


def flops(module: nn.Module, x: Tensor, y: Tensor) -> int:
    """Count the operations of a training step on a batch."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        logits = module(x)
        nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.ravel()).backward()
    module.zero_grad(set_to_none=True)
    return int(counter.get_total_flops())


def images(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (rows, 32, 32, 3), np.uint8), rng.integers(0, 10, rows).astype(np.int32)


def lines(rows: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(0).integers(0, TOKENS, (rows, PLACES + 1)).astype(np.int32)
    return drawn[:, :-1], drawn[:, 1:]


def dealt(x: np.ndarray, y: np.ndarray) -> fl.data.FederatedData:
    """The rows, as many for each client."""
    each = len(x) // CLIENTS
    ranges = fl.data.Ranges(each * np.arange(CLIENTS, dtype=np.int32), np.full(CLIENTS, each, np.int32))
    return fl.data.FederatedData(
        "drawn", {"x": x, "y": y}, TOKENS, np.arange(len(x), dtype=np.int32), {"train": ranges}, {}
    )


SPEED: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Any], int, dict[str, Any]]] = {
    "resnet18-50": (resnet18, images, 50, {"inputs": (3, 32, 32)}),
    "resnet18-250": (resnet18, images, 250, {"inputs": (3, 32, 32)}),
    "gpt-16": (Gpt, lines, 16, {"loss": "next_token"}),
}


def time_steps(name: str, precision: str, lanes: int | None, rounds: int) -> dict[str, Any]:
    """Time the steps of one model in one precision."""
    build, draw, batch, options = SPEED[name]
    torch.manual_seed(0)
    module = build()
    x, y = draw(CLIENTS * STEPS * batch)
    a = torch.tensor(x[:1]).permute(0, 3, 1, 2).float() if x.dtype == np.uint8 else torch.tensor(x[:1]).long()
    work = batch * flops(module, a, torch.tensor(y[:1]).long())
    task = fl.tasks.from_torch(module, precision=precision, **options)
    algorithm = fl.fedavg(fraction=1, epochs=1, batch_size=batch, lr=0.01)
    program = fl.engines.compiled(lanes=lanes).program(dealt(x, y), task, [algorithm], [0])
    state, start = program.init(), time.perf_counter()
    took = []
    for first in range(1 + rounds):
        state, _ = program.advance(state, first, 1)
        jax.block_until_ready(state)
        took.append(time.perf_counter() - start)
        start = time.perf_counter()
    steps = float(program.steps(program.cohorts(0, 1)).sum())
    step = statistics.median(took[1:]) / steps
    found = {
        "part": name, "precision": precision, "lanes": lanes, "parameters": sum(p.numel() for p in module.parameters()),
        "flops_a_step": work, "steps_a_round": steps, "seconds_a_step": step, "tflops": work / step / 1e12,
        "compile_seconds": took[0], "rounds": took[1:],
    }  # fmt: skip
    program.close()
    return found


ACCURACY: dict[str, tuple[Callable[[], nn.Module], dict[str, Any], float]] = {
    "cnn": (cnn, {"inputs": (1, 28, 28)}, 0.1),
    "transformer": (Rows, {"inputs": (28, 28)}, 0.1),
}


def accuracy(name: str, precision: str, rounds: int, seeds: int, clients: int) -> dict[str, Any]:
    """Train a model on MNIST with several seeds."""
    build, options, lr = ACCURACY[name]
    found = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        task = fl.tasks.from_torch(build(), precision=precision, **options)
        data = fl.data.mnist().partition(fl.partition.iid(clients))
        algorithm = fl.fedavg(fraction=10 / clients, epochs=1, batch_size=10, lr=lr)
        run = fl.run(data, task, algorithm, rounds=rounds, evaluate=["test"], every=rounds, seed=seed)
        found.append(float(run.history.last("test_accuracy")))
    return {"part": f"accuracy-{name}", "precision": precision, "rounds": rounds, "clients": clients, "accuracy": found}


def main() -> None:
    """Measure what is asked for, and record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = [*SPEED, *(f"accuracy-{n}" for n in ACCURACY)]
    parser.add_argument("parts", nargs="*", default=parts, metavar="PART", help=f"of {', '.join(parts)} [default: all]")
    parser.add_argument("--precision", choices=PRECISIONS, action="append", help="[default: both]")
    parser.add_argument("--lanes", type=int, action="append", help="clients side by side; 0: as many as fedloom "
                        "chooses; may be repeated [default: 1 and 0]")  # fmt: skip
    parser.add_argument("--rounds", type=int, help="timed rounds of 80 steps [default: 5], or rounds of training [20]")
    parser.add_argument("--seeds", type=int, default=3, help="of the accuracy [default: 3]")
    parser.add_argument("--clients", type=int, default=100, help="that MNIST is dealt to [default: 100]")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for part in options.parts:
        for precision in options.precision or PRECISIONS:
            if part in SPEED:
                for lanes in options.lanes or (1, 0):
                    found.append(time_steps(part, precision, lanes or None, options.rounds or 5))
                    print(json.dumps(found[-1]), flush=True)
            else:
                name = part.removeprefix("accuracy-")
                found.append(accuracy(name, precision, options.rounds or 20, options.seeds, options.clients))
                print(json.dumps(found[-1]), flush=True)
            timing.keep("precision", torch=torch.__version__, measured=found)


if __name__ == "__main__":
    main()
