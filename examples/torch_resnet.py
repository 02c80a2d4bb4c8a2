"""A PyTorch ResNet-18 with batch norm, compiled, and trained by clients whose classes differ: on CIFAR-10 if that is in
the data folder (FEDLOOM_DATA), else on MNIST, which is inside the package. ResNet-18 itself has width 64.

usage: python examples/torch_resnet.py [ROUNDS [WIDTH]]
"""

import sys

import torch
from torch import nn

import fedloom as fl


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        first = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
        self.body = nn.Sequential(*first, nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.around = nn.Identity() if stride == 1 else nn.Conv2d(before, after, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return torch.relu(self.body(x) + self.around(x))


given = sys.argv[1:]
rounds, w = map(int, [*given, *["4", "4"][len(given) :]])
try:
    data, shape = fl.data.cifar10(), (3, 32, 32)
except fl.errors.DataError as error:
    print(f"On MNIST: {error}")
    data, shape = fl.data.mnist(), (1, 28, 28)
torch.manual_seed(0)
stem = nn.Conv2d(shape[0], w, 3, 1, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU()
blocks = [Block(w * a // b, w * a, b) for a, b in [(1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1), (8, 2), (8, 1)]]
module = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * w, 10))
task = fl.tasks.from_torch(module, inputs=shape, name="ResNet-18")
clients = data.partition(fl.partition.dirichlet(clients=200, alpha=0.5))
algorithm = fl.fedavg(fraction=0.02, epochs=1, batch_size=20, lr=0.1)
run = fl.run(clients, task, algorithm, rounds=rounds, evaluate=["test"], every=rounds)
print(f"test accuracy {run.history.last('test_accuracy'):.2%} after {rounds} rounds")
torch.save(task.give_back(run.variables).state_dict(), "resnet.pt")
