"""What combiners are worth where clients lie: final accuracy, with nobody lying and with ten clients of a hundred that
send back minus ten times what they learned.

MNIST dealt IID or in shards to 100 clients, 2NN, 20 a round, E = 1, B = 10. Who lies is known by having one example
less than the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import timing
import typer

import fedloom as fl
from fedloom.combine import Combiner
from fedloom.data import FederatedData, Ranges
from fedloom.local import Local, LocalWrapper
from fedloom.trees import record, static

CLIENTS, LIARS = 100, 10
SCHEMES = {"IID": fl.partition.iid(CLIENTS), "shards": fl.partition.shards(CLIENTS)}
COMBINERS: dict[str, Combiner] = {
    "mean": fl.combine.mean,
    "clipped(1)": fl.combine.clipped(1.0),
    "trimmed(0.2)": fl.combine.trimmed(0.2),
    "median()": fl.combine.median(),
}


@record
class Lying(LocalWrapper):
    """Work whose reply is multiplied by a factor where the client has so many examples."""

    inner: Local
    factor: Any
    size: int = static()

    def end(self, work: Any, sent: Any, state: Any, client: Any) -> Any:
        """Return the inner reply, or a lie."""
        reply, lies = self.inner.end(work, sent, state, client), client.examples == self.size
        message = jax.tree.map(lambda u: jnp.where(lies, self.factor * u, u), reply.message)
        return replace(reply, message=message)

    def label(self) -> str:
        """Return the name."""
        return "lying"


def dealt(scheme: str, liars: int) -> FederatedData:
    """MNIST, of which so many clients, spread over all, have an example less than the others."""
    data = fl.data.mnist().partition(SCHEMES[scheme])
    whole = data.clients["train"]
    less = np.zeros(CLIENTS, np.int32)
    less[np.arange(liars) * CLIENTS // LIARS] = 1
    data.clients["train"] = Ranges(whole.start, whole.size - less)
    return data


def outcomes(data: FederatedData, combiner: Combiner, rounds: int, seeds: int) -> list[dict[str, Any]]:
    """Each seed's accuracy in the end, and why that was the end."""
    honest = int(data.clients["train"].size.max())
    local = Lying(fl.local.sgd(lr=0.1, epochs=1, batch_size=10), -10.0, honest - 1)
    how = fl.fedavg(fraction=0.2, local=local, combiner=combiner)
    runs = fl.sweep(data, fl.tasks.two_nn(), how, seeds=seeds, rounds=rounds, every=10, evaluate=["test"])
    return [{"accuracy": run.history.last("test_accuracy"), "round": run.history.last("round"), "stopped": run.stopped}
            for run in runs]  # fmt: skip


def main(
    rounds: Annotated[int, typer.Option(help="rounds of each run")] = 30,
    seeds: Annotated[int, typer.Option(help="runs of each")] = 3,
) -> None:
    """Run every combiner, and record what it came to."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for scheme in SCHEMES:
        for liars in (0, LIARS):
            data, where = dealt(scheme, liars), f"{scheme}, {liars or 'nobody'} {'lie' if liars else 'lies'}"
            for name, combiner in COMBINERS.items():
                runs = outcomes(data, combiner, rounds, seeds)
                found.setdefault(name, {})[where] = runs
                print(f"{where:<20} {name:<14}", *(f"{one['accuracy']:.4f}" for one in runs), flush=True)
    timing.keep("liars", rounds=rounds, seeds=seeds, runs=found)


if __name__ == "__main__":
    typer.run(main)
