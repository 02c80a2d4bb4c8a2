"""The models, the data and a client's training in PyTorch, for the systems that train with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from workloads import CLASSES, SIDE, Workload


@dataclass(frozen=True)
class Tensors:
    """A workload's examples as tensors, each client's together."""

    x: torch.Tensor
    y: torch.Tensor
    start: np.ndarray
    size: np.ndarray

    def client(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """One client's examples."""
        begin = int(self.start[number])
        end = begin + int(self.size[number])
        return self.x[begin:end], self.y[begin:end]


def tensors(workload: Workload, seed: int, device: str = "cpu") -> Tensors:
    """The workload's examples on a device."""
    drawn = workload.draw(seed)
    x = torch.from_numpy(drawn.floats()).to(device)
    y = torch.from_numpy(drawn.y).long().to(device)
    return Tensors(x, y, drawn.start, drawn.size)


def build(model: str, seed: int) -> nn.Module:
    """A model of McMahan et al. (2017), section 3."""
    torch.manual_seed(seed)
    if model == "2nn":
        return nn.Sequential(
            nn.Linear(SIDE * SIDE, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, CLASSES)
        )
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE, SIDE)),
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (SIDE // 4) ** 2, 512),
        nn.ReLU(),
        nn.Linear(512, CLASSES),
    )


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, workload: Workload) -> None:
    """A client's epochs of SGD, shuffled anew each; the last batch may be short."""
    optimizer = torch.optim.SGD(model.parameters(), lr=workload.lr)
    for _ in range(workload.epochs):
        for batch in torch.randperm(len(y), device=y.device).split(workload.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
