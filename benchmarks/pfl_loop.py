"""Time pfl: its simulation with PyTorch, in one process or several, each of one thread."""

from __future__ import annotations

import os
import sys
import time
from contextlib import redirect_stdout

import torch
from hardware import cpu
from measure import WARMUP, arguments, chosen, tell
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn import functional as F
from torch_parts import Tensors, build, tensors
from workloads import Workload


class Net(nn.Module):
    """A model as pfl wants it: with its loss and its metrics."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def loss(self, x: torch.Tensor, y: torch.Tensor, **_: object) -> torch.Tensor:
        """The mean loss of a batch."""
        return F.cross_entropy(self.model(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor, **_: object) -> dict[str, Weighted]:
        """The loss summed over a batch."""
        return {"loss": Weighted(F.cross_entropy(self.model(x), y, reduction="sum").item(), len(y))}


class Clock(TrainingProcessCallback):
    """Notes the clock before the first round and after each, and how many steps were taken by then."""

    def __init__(self) -> None:
        self.stamps: list[float] = []
        self.marks: list[int] = []
        self.steps = 0

    def note(self) -> None:
        """Now."""
        self.stamps.append(time.perf_counter())
        self.marks.append(self.steps)

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:  # noqa: ARG002
        """Before the first round."""
        self.note()
        return Metrics()

    def after_central_iteration(
        self,
        aggregate_metrics: Metrics,  # noqa: ARG002
        model: PyTorchModel,  # noqa: ARG002
        *,
        central_iteration: int,  # noqa: ARG002
    ) -> tuple[bool, Metrics]:
        """After a round: go on."""
        self.note()
        return False, Metrics()


def federated(workload: Workload, data: Tensors, clock: Clock) -> FederatedDataset:
    """The clients as pfl wants them. It never shuffles, so each client's examples are shuffled when it is drawn."""

    def client(number: int) -> PyTorchTensorDataset:
        x, y = data.client(number)
        clock.steps += workload.steps(len(y))
        order = torch.randperm(len(y))
        return PyTorchTensorDataset((x[order], y[order]), user_id=str(number))

    everybody = list(range(workload.clients))
    work = {number: int(n) for number, n in enumerate(data.size)} if workload.spread > 1 else None
    return FederatedDataset(client, get_user_sampler("random", everybody), work)


def run(workload: Workload, rounds: int, seed: int) -> Clock:
    """Train, watched by a clock."""
    clock, net = Clock(), Net(build(workload.model, seed))
    clients = federated(workload, tensors(workload, seed), clock)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=WARMUP + rounds,
            evaluation_frequency=10**6,
            train_cohort_size=workload.cohort,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=clients, val_data=None, postprocessors=[WeightByDatapoints()]),
        model=PyTorchModel(
            net,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(net.parameters(), lr=1.0),
        ),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=workload.epochs,
            local_learning_rate=workload.lr,
            local_batch_size=workload.batch_size,
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=10_000),
        callbacks=[clock],
    )
    return clock


def spread(processes: int) -> None:
    """Start this script again as so many processes that find each other."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}
    os.execv(sys.executable, [sys.executable, *launcher, *sys.argv])


def main() -> None:
    """Time a workload."""
    parser = arguments(__doc__)
    parser.add_argument("--processes", type=int, default=1, help="each of one thread [default: 1]")
    options = parser.parse_args()
    workload, rounds = chosen(options)
    processes = min(options.processes, workload.cohort)
    if processes > 1 and "TORCHELASTIC_RUN_ID" not in os.environ:
        spread(processes)
    torch.set_num_threads(1)
    with redirect_stdout(sys.stderr):
        clock = run(workload, rounds, options.seed)
    marks = torch.tensor(clock.marks)
    if processes > 1:
        torch.distributed.all_reduce(marks)
    if os.environ.get("RANK", "0") == "0":
        name = "pfl" if processes == 1 else "pfl-parallel"
        packages, steps = ["pfl", "torch", "numpy"], marks.diff().tolist()
        tell(name, workload, clock.stamps, steps, packages=packages, processes=processes, device=cpu())
    if processes > 1:
        torch.distributed.barrier()
        os._exit(0)  # gloo's threads abort now and then when the interpreter winds down


if __name__ == "__main__":
    main()
