"""Algorithms: a few lines each, made of local work, a weighting and a server's step."""

from fedloom.algorithms.algorithm import Algorithm, ServerState
from fedloom.algorithms.fedavg import fedavg
from fedloom.algorithms.fedsgd import fedsgd
from fedloom.algorithms.personalised import PeerState, Personalised, local_only, personalised
from fedloom.algorithms.server import SERVERS, Server, server

Method = Algorithm | Personalised
"""How experiments learn: one model for all, or one for each."""

__all__ = [
    "SERVERS",
    "Algorithm",
    "Method",
    "PeerState",
    "Personalised",
    "Server",
    "ServerState",
    "fedavg",
    "fedsgd",
    "local_only",
    "personalised",
    "server",
]
