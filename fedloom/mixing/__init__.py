"""Mixing: whose models make up whose, as a matrix M whose rows sum to one: X ← M·X over all clients' models."""

from fedloom.mixing.gossip import Gossip, Push, Topology, from_matrix, gossip, one_peer_exponential, pushed, topology
from fedloom.mixing.graph import GRAPHS, Graph, from_networkx, graph
from fedloom.mixing.matching import Matcha, matcha, random_pairs
from fedloom.mixing.matrix import WEIGHTS, keeps_mean, weights, zeta
from fedloom.mixing.mixer import Mixer, Personal, identity, personal
from fedloom.mixing.neighbours import Neighbours, neighbours

__all__ = [
    "GRAPHS",
    "WEIGHTS",
    "Gossip",
    "Graph",
    "Matcha",
    "Mixer",
    "Neighbours",
    "Personal",
    "Push",
    "Topology",
    "from_matrix",
    "from_networkx",
    "gossip",
    "graph",
    "identity",
    "keeps_mean",
    "matcha",
    "neighbours",
    "one_peer_exponential",
    "personal",
    "pushed",
    "random_pairs",
    "topology",
    "weights",
    "zeta",
]
