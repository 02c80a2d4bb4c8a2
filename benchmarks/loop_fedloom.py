"""fedloom's runs of users' models, for `users_models.py`: ``fl.run`` through the adapter of a library."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from contenders import Job, Loop

import fedloom as fl


class FedloomRun(Loop):
    """``fl.run``, which evaluates nothing and reads the clock after every program of rounds.

    Arguments:
        library: whose network it trains.
    """

    def __init__(self, library: str) -> None:
        self.library, self.engine = library, fl.engines.compiled()

    def prepare(self, job: Job) -> int:
        """Build the network, the task and the federated data; return how many numbers the model has."""
        jax.clear_caches()
        self.job, network = job, job.described
        self.judging = self._judge()
        numbers = self.judging.prepare(job)
        x, y = job.draw()
        if self.library != "PyTorch":
            x = np.asarray(self.judging.x)
        many = job.clients * job.examples
        columns = {"x": x.reshape(many, *x.shape[2:]), "y": y.reshape(many, *y.shape[2:])}
        starts = np.arange(job.clients, dtype=np.int32) * job.examples
        ranges = fl.data.Ranges(starts, np.full(job.clients, job.examples, np.int32))
        index = np.arange(many, dtype=np.int32)
        self.data = fl.data.FederatedData(network.name, columns, network.classes, index, {"train": ranges}, {})
        self.task = self._task(x[0, 0])
        self.algorithm = fl.fedavg(fraction=1.0, epochs=1, batch_size=job.batch, lr=network.lr, optimizer="momentum")
        return numbers

    def _judge(self) -> Any:
        """Return the library's own loop, which has the network and measures its loss."""
        if self.library == "PyTorch":
            from loop_torch import TorchLoop

            return TorchLoop(device="cpu")  # beside torchax, CUDA's kernels are not found
        if self.library == "Keras":
            from loop_keras import KerasLoop

            return KerasLoop()
        from loop_flax import FlaxLoop

        return FlaxLoop()

    def _task(self, example: np.ndarray) -> Any:
        network = self.job.described
        loss = "next_token" if network.predicts_next else "cross_entropy"
        if self.library == "PyTorch":
            return fl.tasks.from_torch(self.judging.module, loss, name=network.name)
        if self.library == "Keras":
            return fl.tasks.from_keras(self.judging.model, loss, name=network.name)
        import networks_flax

        return fl.tasks.from_flax(networks_flax.build(network), loss, inputs=lambda x: x, like=example)

    def run(self, rounds: int) -> list[float]:
        """Train some rounds from the first weights on; return the seconds of each, the mean over those of a program."""
        settings = {"rounds": rounds, "every": self.job.every, "evaluate": (), "seed": self.job.seed}
        self.result = fl.run(self.data, self.task, self.algorithm, engine=self.engine, **settings)
        seconds = self.result.history.column("seconds")
        return [float(s) for s in np.diff(seconds) / np.diff(self.result.history.column("round"))]

    def loss(self, *, shared: bool = False) -> float:  # noqa: ARG002
        """Return the loss after the last round."""
        back = self.task.give_back(self.result.variables)
        if self.library == "PyTorch":
            return self.judging.judge([t.detach().clone() for t in self.judging.tensors])
        return self.judging.judge(back.get_weights() if self.library == "Keras" else back["params"])

    def first_loss(self) -> float:
        """Return the loss of the first weights."""
        return self.judging.first_loss()
