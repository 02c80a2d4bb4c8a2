"""The methods, their variants and the layouts whose numbers the golden gate binds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
from generated import make_validated

import fedloom as fl

ROUNDS = 3
SEEDS = (1, 2)
SIZES = (7, 12, 3, 10, 16, 4)
PLAIN = fl.tasks.two_nn(inputs=4, hidden=5, classes=3)
WORK = {"fraction": 0.7, "epochs": 2, "batch_size": 4, "lr": 0.2}
WHOLE_SETS = {**WORK, "batch_size": None}
STEPS = {"period": 3, "batch_size": 4, "lr": 0.2}
LAMBDAS = (0.01, 0.02, 0.003, 0.004)


def normalised() -> fl.tasks.Task:
    """Return a model with batch normalisation: 4 inputs, 5 units, 3 classes."""

    def init(key: jax.Array) -> tuple[Any, Any]:
        first, second = jax.random.split(key)
        params = {
            "hidden": {"w": jax.random.normal(first, (4, 5)) / 2},
            "norm": {"scale": jnp.ones(5), "shift": jnp.zeros(5)},
            "output": {"w": jax.random.normal(second, (5, 3)) / 2, "b": jnp.zeros(3)},
        }
        return params, {"norm": {"mean": jnp.zeros(5), "variance": jnp.ones(5)}}

    def apply(params: Any, state: Any, x: jax.Array, key: jax.Array | None) -> tuple[jax.Array, Any]:
        h, moments = x @ params["hidden"]["w"], state["norm"]
        if key is not None:
            batch = {"mean": h.mean(0), "variance": h.var(0)}
            state = {"norm": jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, moments, batch)}
            moments = batch
        h = (h - moments["mean"]) / jnp.sqrt(moments["variance"] + 0.1)
        h = jax.nn.relu(params["norm"]["scale"] * h + params["norm"]["shift"])
        return h @ params["output"]["w"] + params["output"]["b"], state

    return fl.tasks.from_function(init, apply, stateful=True, name="normalised")


@dataclass(frozen=True)
class Case:
    """A method or a variant of one, with the options of ``fl.run`` that it needs.

    No two cases share a compiled program, so that each can be measured in any order.

    Args:
        method: the method.
        task: the model.
        sizes: the number of examples of each client.
        options: further options of ``fl.run`` and ``fl.sweep``.
    """

    method: Any
    task: fl.tasks.Task = PLAIN
    sizes: tuple[int, ...] = SIZES
    options: Mapping[str, Any] = field(default_factory=dict)


NORMALISED = normalised()
METHODS = {
    "fedavg": Case(fl.fedavg(**WORK)),
    "fedsgd": Case(fl.fedsgd(fraction=0.7, lr=0.2)),
    "fedprox": Case(fl.fedprox(0.3, **WORK)),
    "scaffold": Case(fl.scaffold(**WORK)),
    "qfedavg": Case(fl.qfedavg(2.0, **WORK)),
    "ditto": Case(fl.ditto(0.3, **WORK)),
    "fedper": Case(fl.fedper("output", **WORK)),
    "fedrep": Case(fl.fedrep("output", 1, **WORK)),
    "fedbn": Case(fl.fedbn(**WORK), NORMALISED),
    "ifca": Case(fl.ifca(2, **WORK)),
    "personalised": Case(fl.personalised(**WORK)),
    "dpa-sgd": Case(fl.algorithms.dpa_sgd("ring", **STEPS)),
    "dpa-sgd-mtl": Case(fl.algorithms.dpa_sgd_mtl("ring", lambdas=LAMBDAS, upper="hidden2", **STEPS)),
    "push-sum": Case(fl.algorithms.push_sum("ring", **STEPS)),
    "fedavg-mtl": Case(fl.algorithms.fedavg_mtl(lambdas=LAMBDAS, upper="hidden2", epochs=2, batch_size=4, lr=0.2)),
    "local": Case(fl.local_only(**WORK)),
    "central": Case(fl.fedavg(**{**WORK, "fraction": 1.0}), sizes=(sum(SIZES),)),
}
VARIANTS = {
    "server momentum": Case(fl.fedavg(server=fl.server("momentum", lr=0.7), **WORK)),
    "server adam": Case(fl.fedavg(server=fl.server("adam"), **WORK)),
    "median": Case(fl.fedavg(combiner=fl.combine.median(), **WORK)),
    "trimmed mean": Case(fl.fedavg(combiner=fl.combine.trimmed(0.3), **WORK)),
    "clipping": Case(fl.fedavg(combiner=fl.combine.clipped(0.2), **WORK)),
    "weights by validation loss": Case(fl.fedavg(weighting=fl.combine.by_loss(0.5), **WORK)),
    "personalised by validation loss": Case(fl.personalised(weighting=fl.combine.by_loss(0.5), **WORK)),
    "personalised with two nearest peers": Case(fl.personalised(peers=2, peers_by="nearest", **WORK)),
    "dpa-sgd along random pairs": Case(fl.algorithms.dpa_sgd("random-pairs", **STEPS)),
    "whole sets as batches": Case(fl.fedprox(0.3, **WHOLE_SETS)),
    "batch norm": Case(fl.fedavg(**WORK), NORMALISED),
    "client momentum": Case(fl.fedavg(optimizer="momentum", decay=0.9, **WORK)),
    "measured clients": Case(fl.fedavg(**WORK), options={"users": True}),
    "lost clients": Case(
        fl.scaffold(server=fl.server("momentum"), **WORK),
        options={"clock": fl.engines.clock("lognormal:1:1", latency=0.5, bandwidth=1000, lost=0.3, deadline=9)},
    ),
}
CASES = METHODS | VARIANTS


@dataclass(frozen=True)
class Layout:
    """A way in which the compiled engine lays out a round.

    Args:
        engine: the arguments of ``fl.engines.compiled``.
        evaluate: the parts of the data on which models are evaluated.
        experiments: the number of experiments in one program.
        backend: the name of the backend for which a step is written.
    """

    engine: Mapping[str, int]
    evaluate: tuple[str, ...] = ("test",)
    experiments: int = 1
    backend: str = "cpu"


LAYOUTS = {
    "one lane": Layout({"devices": 1}, ("train", "validation", "test")),
    "three lanes": Layout({"devices": 1, "lanes": 3}),
    "two devices": Layout({"devices": 2}),
    "two experiments": Layout({"devices": 1, "lanes": 1}, experiments=2),
    "accelerator's step": Layout({"devices": 1, "lanes": 2}, backend="gpu"),
}


@cache
def data(sizes: tuple[int, ...]) -> fl.data.FederatedData:
    """Return generated data of which each client keeps a third for validation."""
    return make_validated(list(sizes))


def train(case: Case, layout: Layout) -> list[fl.Run]:
    """Run the experiments of a layout for a few rounds.

    The model has a name of its own for each backend, so that JAX traces the programs of each.
    """
    task = replace(case.task, name=f"{case.task.name} on {layout.backend}")
    common = {"rounds": ROUNDS, "evaluate": layout.evaluate, "engine": fl.engines.compiled(**layout.engine)}
    with patch.object(jax, "default_backend", lambda: layout.backend):
        if layout.experiments == 1:
            return [fl.run(data(case.sizes), task, case.method, seed=SEEDS[0], **common, **case.options)]
        return fl.sweep(data(case.sizes), task, case.method, seeds=SEEDS, **common, **case.options)
