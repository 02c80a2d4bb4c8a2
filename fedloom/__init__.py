"""fedloom: federated learning, compiled.

>>> import fedloom as fl
>>> data = fl.data.mnist().partition(fl.partition.iid(clients=100))
>>> run = fl.run(data, fl.tasks.logistic(), fl.fedavg(lr=0.1), rounds=3, evaluate=["test"])
>>> run.history.last("test_accuracy") > 0.8
True
"""

from fedloom import algorithms, clients, combine, data, engines, errors, federation, local, mixing, routing, runs, tasks
from fedloom.algorithms import (
    Method,
    ditto,
    dpa_sgd,
    fedavg,
    fedbn,
    fedper,
    fedprox,
    fedrep,
    fedsgd,
    ifca,
    local_only,
    personalised,
    qfedavg,
    scaffold,
    server,
)
from fedloom.data import partition, split
from fedloom.runs import Experiment, History, Run, Users, fine_tune, load, plot, run, sweep
from fedloom.version import VERSION

__version__ = VERSION

__all__ = [
    "Experiment",
    "History",
    "Method",
    "Run",
    "Users",
    "algorithms",
    "clients",
    "combine",
    "data",
    "ditto",
    "dpa_sgd",
    "engines",
    "errors",
    "fedavg",
    "fedbn",
    "federation",
    "fedper",
    "fedprox",
    "fedrep",
    "fedsgd",
    "fine_tune",
    "ifca",
    "load",
    "local",
    "local_only",
    "mixing",
    "partition",
    "personalised",
    "plot",
    "qfedavg",
    "routing",
    "run",
    "runs",
    "scaffold",
    "server",
    "split",
    "sweep",
    "tasks",
]
