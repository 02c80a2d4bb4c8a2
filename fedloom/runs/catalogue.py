"""Catalogue: the names by which the command line and experiment files know things."""

from __future__ import annotations

from collections.abc import Callable

from fedloom.algorithms import SERVERS
from fedloom.combine import WEIGHTINGS
from fedloom.data import Dataset, mnist
from fedloom.local.sgd import OPTIMIZERS
from fedloom.tasks import Task, cnn, logistic, two_nn

DATA: dict[str, Callable[[], Dataset]] = {"mnist": mnist}
MODELS: dict[str, Callable[[], Task]] = {"2nn": two_nn, "cnn": cnn, "logistic": logistic}

LISTING: dict[str, dict[str, str]] = {
    "data": {"mnist": "60,000 + 10,000 handwritten digits, shipped with fedloom"},
    "partition": {
        "iid": "shuffle everything, deal it out evenly",
        "shards": "sort by label, cut into shards, deal a few to each client (McMahan's non-IID)",
    },
    "model": {
        "2nn": "two hidden layers of 200 ReLU units; 199,210 parameters",
        "cnn": "two 5×5 convolutions, pooling, 512 ReLU units; 1,663,370 parameters",
        "logistic": "multinomial logistic regression; 7,850 parameters",
    },
    "algorithm": {
        "fedavg": "clients train E epochs with batches of B, the server averages",
        "fedsgd": "one gradient step on all the cohort's examples (E = 1, B = all)",
    },
    "optimizer": dict.fromkeys(OPTIMIZERS, "a client's optimiser (optax)"),
    "weighting": {name: (rule.__doc__ or "").split("(")[0].strip(". ") for name, rule in WEIGHTINGS.items()},
    "server": {
        "average": "w + server_lr · mean update",
        "momentum": "the mean update with momentum",
        "adagrad": "FedAdagrad (Reddi et al. 2021)",
        "adam": "FedAdam (Reddi et al. 2021)",
        "yogi": "FedYogi (Reddi et al. 2021)",
    },
}
"""What can be named, and what each name means: `fedloom list` prints it."""

assert LISTING["server"].keys() == SERVERS.keys()
assert LISTING["model"].keys() == MODELS.keys()
assert LISTING["data"].keys() == DATA.keys()
