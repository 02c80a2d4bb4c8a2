"""Algorithms: each is a few lines that put a method together from local work, a routing and a server's step."""

from fedloom.algorithms.dpa_sgd import dpa_sgd
from fedloom.algorithms.fedavg import fedavg
from fedloom.algorithms.fedsgd import fedsgd
from fedloom.algorithms.ifca import ifca
from fedloom.algorithms.method import ClientStates, Method, RoundState
from fedloom.algorithms.multi_task import dpa_sgd_mtl, fedavg_mtl
from fedloom.algorithms.personalised import local_only, personalised
from fedloom.algorithms.push_sum import push_sum
from fedloom.algorithms.server import SERVERS, Server, server
from fedloom.algorithms.variants import ditto, fedbn, fedper, fedprox, fedrep, qfedavg, scaffold

__all__ = [
    "SERVERS",
    "ClientStates",
    "Method",
    "RoundState",
    "Server",
    "ditto",
    "dpa_sgd",
    "dpa_sgd_mtl",
    "fedavg",
    "fedavg_mtl",
    "fedbn",
    "fedper",
    "fedprox",
    "fedrep",
    "fedsgd",
    "ifca",
    "local_only",
    "personalised",
    "push_sum",
    "qfedavg",
    "scaffold",
    "server",
]
