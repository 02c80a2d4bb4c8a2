"""A PyTorch client: an ordinary module and an ordinary training loop."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from fedloom.clients.client import Answer, Broadcast, Weights
from fedloom.clients.inputs import Inputs, looked, takes_integers
from fedloom.clients.judging import judged
from fedloom.tasks.modes import in_eval_mode, restored_modes, train_except
from fedloom.tasks.task import Batch
from fedloom.tasks.user_model import library


class TorchClient:
    """Trains a module by PyTorch's own means.

    Arguments:
        module: the model; its parameters and floating-point buffers are what is exchanged, other buffers begin anew in
            each round. Parts that are in eval mode stay in it; one that is so as a whole is trained in training mode.
        examples: the client's, by part.
        loss: (outputs, labels) → the mean loss; cross-entropy by default.
        optimizer: (parameters, lr) → an optimiser, anew in each round; SGD by default.
        inputs: the shape of an example that the module wants, such as ``(1, 28, 28)`` (colours come first), or a
            function from an array of the column x to what it wants; by default pixels between 0 and 1.
        device: where it is trained.
    """

    def __init__(
        self,
        module: Any,
        examples: dict[str, Batch],
        *,
        loss: Callable[[Any, Any], Any] | None = None,
        optimizer: Callable[[Any, float], Any] | None = None,
        inputs: Inputs = None,
        device: str = "cpu",
    ) -> None:
        self.torch = torch = library("torch", "torch")
        self.module, self.examples, self.device = deepcopy(module).to(device), examples, device
        self.resting = in_eval_mode(self.module)
        self.loss = loss or torch.nn.functional.cross_entropy
        self.optimizer = optimizer or (lambda parameters, lr: torch.optim.SGD(parameters, lr))
        self.inputs = inputs
        self.integers: bool | None = None  # whether the module takes them, once that is known
        self.whole = {n: t.clone() for n, t in self.module.state_dict().items() if not t.is_floating_point()}

    def weights(self) -> Weights:
        """The module's parameters and floating-point buffers."""
        return {n: t.detach().cpu().numpy().copy() for n, t in self._tensors().items()}

    def fit(self, broadcast: Broadcast) -> Answer:
        """SGD over the batches that the broadcast says."""
        self._load(broadcast.weights)
        mine = self.examples["train"]
        x, y = self._batch(mine)
        self.torch.manual_seed(broadcast.seed)
        optimizer = self.optimizer([p for p in self.module.parameters() if p.requires_grad], broadcast.lr)
        train_except(self.module, self.resting)
        for chosen in broadcast.batches(len(y)):
            rows = self.torch.from_numpy(np.array(chosen))
            optimizer.zero_grad()
            self.loss(self.module(x[rows]), y[rows]).backward()
            optimizer.step()
        return Answer(self.weights(), len(y))

    def evaluate(self, broadcast: Broadcast, part: str) -> dict[str, float]:
        """Loss and, where there are classes, accuracy."""
        self._load(broadcast.weights)
        x, y = self._batch(self.examples[part])
        self.module.eval()
        with self.torch.no_grad():
            outputs = self.module(x)
            return judged(float(self.loss(outputs, y)), outputs.cpu().numpy(), y.cpu().numpy())

    def trained(self, weights: Weights) -> Any:
        """A module with these weights."""
        self._load(weights)
        return self.module

    def _tensors(self) -> dict[str, Any]:
        """What is exchanged, by name."""
        state = self.module.state_dict()
        return {n: t for n, t in state.items() if t.is_floating_point()}

    def _load(self, weights: Weights) -> None:
        """The module as it was sent; whole numbers (how many batches were seen) as they were at first."""
        with self.torch.no_grad():
            for n, t in self.module.state_dict().items():
                t.copy_(self.whole[n] if n in self.whole else self.torch.from_numpy(np.array(weights[n])))

    def _batch(self, examples: Batch) -> tuple[Any, Any]:
        x = self._fitting(np.array(looked(examples["x"], self.inputs, channels_first=True)))
        y = self.torch.from_numpy(np.array(examples["y"]))
        whole = y.long() if not y.is_floating_point() else y
        return x.to(self.device), whole.to(self.device)

    def _fitting(self, view: np.ndarray) -> Any:
        """The tensor that the module takes: integers have 64 bits; they are floats where it does not take integers."""
        x = self.torch.from_numpy(view)
        if callable(self.inputs) or view.dtype.kind != "i":
            return x
        if self.integers is None:
            with restored_modes(self.module, False, []), self.torch.no_grad():
                call = lambda rows: self.module(self.torch.from_numpy(rows).long().to(self.device))  # noqa: E731
                self.integers = takes_integers(view, call)
        return x.long() if self.integers else x.float()
