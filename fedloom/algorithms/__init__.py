"""Algorithms: a few lines each, made of local work, a weighting and a server's step."""

from fedloom.algorithms.algorithm import Algorithm, Kept, ServerState
from fedloom.algorithms.clustered import Clustered, ClusterState, ifca
from fedloom.algorithms.dpa_sgd import dpa_sgd
from fedloom.algorithms.fedavg import fedavg
from fedloom.algorithms.fedsgd import fedsgd
from fedloom.algorithms.multi_task import MultiTask, dpa_sgd_mtl, fedavg_mtl
from fedloom.algorithms.personalised import PeerState, Personalised, local_only, personalised
from fedloom.algorithms.push_sum import PushSum, push_sum
from fedloom.algorithms.server import SERVERS, Server, server
from fedloom.algorithms.variants import ditto, fedbn, fedper, fedprox, fedrep, qfedavg, scaffold

Method = Algorithm | Personalised | Clustered
"""How experiments learn: one model for all, one for each, or a few."""

__all__ = [
    "SERVERS",
    "Algorithm",
    "ClusterState",
    "Clustered",
    "Kept",
    "Method",
    "MultiTask",
    "PeerState",
    "Personalised",
    "PushSum",
    "Server",
    "ServerState",
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
