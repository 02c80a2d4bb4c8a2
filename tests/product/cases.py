"""The product of methods and engines: all methods, all engines, and the expected outcome of each pair.

A method is a name and a function that builds it. An engine is a name and a function from a :class:`Case` to a run.
Adding either is one line here; :data:`EXPECTED` says which pairs run and which are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from product.engines import Case, Engine, mpi, network, peers, ray, simulate

import fedloom as fl
from fedloom.algorithms import Method, dpa_sgd_mtl, fedavg_mtl, push_sum
from fedloom.data import FederatedData, Ranges

SEED, ROUNDS, FEATURES, CLASSES = 0, 3, 4, 3
SIZES, HELD_OUT = (7, 12, 20, 9, 16), 4  # examples: for training of each client, and for validation and test of each

WORK = {"lr": 0.2, "batch_size": 4, "epochs": 2}
SAMPLED = {**WORK, "fraction": 0.8}  # four of five clients
STEPS = {"lr": 0.2, "batch_size": 4, "period": 3}
RELATED = {"lambdas": (0.05, 0.01, 0.01, 0.0)}
METHODS: dict[str, Callable[[], Method]] = {
    "fedavg": partial(fl.fedavg, **SAMPLED),
    "fedsgd": partial(fl.fedsgd, lr=0.2, fraction=0.8),
    "fedprox": partial(fl.fedprox, 0.5, **SAMPLED),
    "scaffold": partial(fl.scaffold, **SAMPLED),
    "qfedavg": partial(fl.qfedavg, 1.0, **SAMPLED),
    "ditto": partial(fl.ditto, 0.5, **SAMPLED),
    "fedper": partial(fl.fedper, **SAMPLED),
    "fedrep": partial(fl.fedrep, **SAMPLED),
    "fedbn": partial(fl.fedbn, **SAMPLED),
    "ifca": partial(fl.ifca, 2, **SAMPLED),
    "personalised": partial(fl.personalised, weighting=fl.combine.by_loss(), **SAMPLED),
    "dpa-sgd": partial(fl.dpa_sgd, "ring", **STEPS),
    "dpa-sgd-mtl": partial(dpa_sgd_mtl, "ring", **RELATED, **STEPS),
    "push-sum": partial(push_sum, "line", **STEPS),
    "fedavg-mtl": partial(fedavg_mtl, **RELATED, **WORK),
    "local": partial(fl.local_only, **SAMPLED),
    "central": partial(fl.fedavg, fraction=1.0, **WORK),
}
"""Method → the function that builds it."""

REFERENCE = partial(simulate, partial(fl.engines.compiled, devices=1))
"""The engine that all others are compared with: compiled, one client after another on one device."""
ENGINES: dict[str, Engine] = {
    "reference": partial(simulate, fl.engines.reference),
    "3 lanes": partial(simulate, partial(fl.engines.compiled, devices=1, lanes=3)),
    "2 devices": partial(simulate, partial(fl.engines.compiled, devices=2)),
    "processes": partial(simulate, partial(fl.engines.processes, 2)),
    "Ray": ray,
    "MPI": mpi,
    "MPI peers": peers,
    "network": network,
}
"""Engine → the function that runs a case on it."""

RUNS = "runs"
EVERY = dict.fromkeys(METHODS, RUNS)
MPI_KNOWS = r"^algorithm must be dpa-sgd along a topology that is not drawn anew, local, fedavg, fedsgd or fedprox,"
NETWORK_KNOWS = r"^algorithm must be one with a server and one model for all, or layers of one"
EXPECTED: dict[str, dict[str, str]] = {
    "reference": EVERY,
    "3 lanes": EVERY,
    "2 devices": EVERY,
    "processes": EVERY,
    "Ray": EVERY,
    "MPI": EVERY,
    "MPI peers": {
        **dict.fromkeys(METHODS, MPI_KNOWS),
        **dict.fromkeys(["fedavg", "fedsgd", "fedprox", "dpa-sgd", "local"], RUNS),
        "central": r"^ranks must be at most as many as there are workers, 1, but is 2$",
    },
    "network": {
        **EVERY,
        **dict.fromkeys(
            ["ifca", "personalised", "dpa-sgd", "dpa-sgd-mtl", "push-sum", "fedavg-mtl", "local"], NETWORK_KNOWS
        ),
    },
}
"""Engine → method → :data:`RUNS`, or a regular expression of the sentence that refuses the pair."""

TOLERANCE = 1e-6
EQUAL_BITS: dict[str, tuple[str, ...]] = {
    "network": ("fedavg", "fedprox", "ditto", "fedper", "fedrep", "fedbn", "central"),
}
"""Engine → the methods whose models are the reference's bit for bit; others may differ by :data:`TOLERANCE`."""
NOT_COMPARED: dict[str, tuple[str, ...]] = {"MPI peers": ("consensus", "mean_*"), "network": ("bytes_*", "own_*")}
"""Engine → patterns of columns of the reference's history that the engine lacks, or in which it counts something else.
No rank has all models, so none measures their mean. Over the network, bytes are those of files with their headers, and
participants measure their own models before their work."""


def case(method: str) -> Case:
    """Return the case of a method, which any engine can run."""
    data = make_data()
    return Case(method, data.union() if method == "central" else data, TASK, METHODS[method](), ROUNDS, SEED)


@cache
def reference(method: str) -> fl.Run:
    """Return what the reference computes."""
    return REFERENCE(case(method))


@cache
def make_data() -> FederatedData:
    """Return five clients of unequal sizes, whose labels follow one of two rules."""
    draw, sizes = np.random.default_rng(SEED), np.array(SIZES, np.int32)
    all_sizes = sizes + 2 * HELD_OUT
    x = draw.normal(size=(all_sizes.sum(), FEATURES)).astype(np.float32)
    rule = np.repeat(np.arange(len(sizes)) % 2, all_sizes)
    y = (np.argmax(x @ draw.normal(size=(FEATURES, CLASSES)), axis=1) + rule) % CLASSES
    start, few = (np.cumsum(all_sizes) - all_sizes).astype(np.int32), np.full(len(sizes), HELD_OUT, np.int32)
    parts = {
        "train": Ranges(start, sizes),
        "validation": Ranges(start + sizes, few),
        "test": Ranges(start + sizes + HELD_OUT, few),
    }
    columns = {"x": x, "y": y.astype(np.int32)}
    return FederatedData("generated", columns, CLASSES, np.arange(len(x), dtype=np.int32), parts, {})


def initial(key: Any) -> dict[str, Any]:
    """Return the parameters of a logistic regression on inputs that a layer has scaled."""
    weights = 0.5 * jax.random.normal(key, (FEATURES, CLASSES))
    norm = {"scale": jnp.ones(FEATURES), "shift": jnp.zeros(FEATURES)}
    return {"norm": norm, "output": {"w": weights, "b": jnp.zeros(CLASSES)}}


def scores(params: dict[str, Any], x: Any) -> Any:
    """Return the score of each class."""
    norm, output = params["norm"], params["output"]
    return (x * norm["scale"] + norm["shift"]) @ output["w"] + output["b"]


TASK = fl.tasks.from_function(initial, scores, name="scaled logistic regression")
