"""PyTorch's own loop over clients, eager or compiled, and clients stacked in one CUDA graph, for `users_models.py`."""

from __future__ import annotations

import copy
from typing import Any

import networks_torch
import numpy as np
import torch
from contenders import Job, Loop
from networks import MOMENTUM
from torch import Tensor, nn
from torch.nn import functional as F

Weights = list[Tensor]
WRONG = 0.01  # relative error of a gradient that is no rounding


def learned(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and the floating-point buffers of a module by name: what is averaged."""
    return {name: tensor for name, tensor in module.state_dict(keep_vars=True).items() if tensor.is_floating_point()}


class TorchLoop(Loop):
    """The loop that everybody writes.

    Arguments:
        compiled: whether the module is compiled by ``torch.compile``.
        device: where it trains; where the job says by default.
    """

    def __init__(self, compiled: bool = False, device: str | None = None) -> None:
        torch.set_num_threads(1)
        torch.backends.cuda.matmul.allow_tf32 = True  # as JAX multiplies on a GPU
        self.compiled, self.on = compiled, device

    def prepare(self, job: Job) -> int:
        """Build the network and place the examples; return how many numbers the model has."""
        self.job, self.device = job, self.on or {"gpu": "cuda", "cpu": "cpu"}[job.device]
        network = job.described
        self.lr = network.lr
        self.module = networks_torch.build(network, job.seed).to(self.device)
        x, y = (torch.from_numpy(a).to(self.device) for a in job.draw())
        self.x, self.y = x.long() if network.tokens else x, y.long()
        self.tensors = list(learned(self.module).values())
        self.start = self.weights = [t.detach().clone() for t in self.tensors]
        self.forward: Any = None if self.compiled else self.module
        return sum(t.numel() for t in self.tensors)

    def compile(self) -> Any:
        """Return the compiled module; without the optimisation of layouts if gradients are wrong with it."""
        gradient = self.gradient(self.module)
        for options in ({}, {"layout_optimization": False}):
            torch.compiler.reset()
            compiled = torch.compile(self.module, dynamic=False, options=options)
            if float((self.gradient(compiled) - gradient).norm() / gradient.norm()) < WRONG:
                break
        return compiled

    def gradient(self, forward: Any) -> Tensor:
        """Return the gradient of the first batch at the first weights, by a function of its inputs."""
        self.load(self.start)
        self.module.train()
        self.module.zero_grad()
        x, y = self.x[0][: self.job.batch], self.y[0][: self.job.batch]
        networks_torch.loss(forward(x), y).backward()
        return torch.cat([p.grad.flatten() for p in self.module.parameters()])

    def load(self, weights: Weights) -> None:
        """Put weights into the module."""
        with torch.no_grad():
            for mine, given in zip(self.tensors, weights, strict=True):
                mine.copy_(given)

    def train(self, weights: Weights, client: int, order: np.ndarray) -> Weights:
        """Return the weights after a client's epoch; they are the module's own, which the next client changes."""
        self.load(weights)
        self.module.train()
        x, y = self.x[client], self.y[client]
        optimizer = torch.optim.SGD(self.module.parameters(), lr=self.lr, momentum=MOMENTUM)
        for rows in torch.from_numpy(order).to(self.device).split(self.job.batch):
            optimizer.zero_grad()
            networks_torch.loss(self.forward(x[rows]), y[rows]).backward()
            optimizer.step()
        return self.tensors

    def total(self, weights: Weights, round: int, clients: Any) -> Weights:
        """Return the sum of the weights of some clients after their work."""
        if self.forward is None:
            self.forward = self.compile()
        total = [torch.zeros_like(t) for t in weights]
        for client in clients:
            trained = self.train(weights, client, self.job.order(round, client))
            with torch.no_grad():
                torch._foreach_add_(total, trained)
        return total

    def divide(self, total: Weights, by: int) -> Weights:
        """Return the quotient."""
        torch._foreach_div_(total, by)
        return total

    def wait(self) -> None:
        """Return when the GPU has done its work."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def flat(self, weights: Weights) -> np.ndarray:
        """Return weights as one array of float32."""
        flat: np.ndarray = torch.cat([t.detach().flatten() for t in weights]).cpu().numpy()
        return flat

    def parts(self, flat: np.ndarray) -> Weights:
        """Return weights that were flattened."""
        whole = torch.from_numpy(np.array(flat)).to(self.device)
        pieces = whole.split([t.numel() for t in self.start])
        return [piece.view_as(t) for piece, t in zip(pieces, self.start, strict=True)]

    def judge(self, weights: Weights) -> float:
        """Return the loss of the first client's examples in evaluation mode."""
        self.load(weights)
        self.module.eval()
        with torch.no_grad():
            return float(networks_torch.loss(self.module(self.x[0]), self.y[0]))


class StackedBatchNorm(nn.BatchNorm2d):
    """Batch norm that moves its statistics by operations that ``torch.func.vmap`` can stack."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by the batch, and remember its mean and unbiased variance."""
        with torch.no_grad():
            variance, mean = torch.var_mean(x, (0, 2, 3))
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(variance, alpha=self.momentum)
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0.0, self.eps)


class StackedClients(TorchLoop):
    """All clients side by side by ``torch.func.vmap``; a step is one CUDA graph, which is captured once.

    On a CPU the step is called as it is, which is for testing.
    """

    def prepare(self, job: Job) -> int:
        """Build the network, stack its weights and capture the step."""
        numbers = super().prepare(job)
        clients = job.clients
        self.names = list(learned(self.module))
        trained = {name for name, p in self.module.named_parameters() if p.requires_grad}
        self.stacked = {n: t.expand(clients, *t.shape).clone() for n, t in zip(self.names, self.start, strict=True)}
        self.memory = {name: torch.zeros_like(self.stacked[name]) for name in trained}
        self.rest = {n: b for n, b in self.module.named_buffers() if n not in self.stacked}
        self.lanes = torch.arange(clients, device=self.device)[:, None]
        self.rows = torch.zeros(clients, job.batch, dtype=torch.long, device=self.device)
        self.module.train()
        self.stackable = copy.deepcopy(self.module)
        for part in self.stackable.modules():
            if type(part) is nn.BatchNorm2d:
                part.__class__ = StackedBatchNorm
        self.graph = self._captured() if self.device == "cuda" else None
        return numbers

    def _captured(self) -> Any:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # PyTorch wants some steps before it captures one
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        return graph

    def _step(self) -> None:
        """One step of SGD of every client, in its place."""
        x, y = self.x[self.lanes, self.rows], self.y[self.lanes, self.rows]
        params = {name: self.stacked[name] for name in self.memory}
        buffers = {name: t for name, t in self.stacked.items() if name not in self.memory}

        def loss(params: Any, buffers: Any, x: Tensor, y: Tensor) -> Any:
            state = dict(buffers)
            rest = {name: b.clone() for name, b in self.rest.items()}
            outputs = torch.func.functional_call(self.stackable, {**params, **state, **rest}, (x,))
            return networks_torch.loss(outputs, y), state

        gradients, after = torch.func.vmap(torch.func.grad(loss, has_aux=True))(params, buffers, x, y)
        with torch.no_grad():
            for name, memory in self.memory.items():
                memory.mul_(MOMENTUM).add_(gradients[name])
                self.stacked[name].add_(memory, alpha=-self.lr)
            for name, value in after.items():
                self.stacked[name].copy_(value)

    def total(self, weights: Weights, round: int, clients: Any) -> Weights:
        """Return the sum of the weights of all clients after their work."""
        with torch.no_grad():
            for stacked, given in zip(self.stacked.values(), weights, strict=True):
                stacked.copy_(given)
            for memory in self.memory.values():
                memory.zero_()
        order = np.stack([self.job.order(round, client) for client in clients])
        for rows in torch.from_numpy(order).to(self.device).split(self.job.batch, dim=1):
            self.rows.copy_(rows)
            if self.graph:
                self.graph.replay()
            else:
                self._step()
        return [stacked.sum(0) for stacked in self.stacked.values()]
