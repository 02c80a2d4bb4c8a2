"""Routing: which model each client trains, and which models its update reaches."""

from fedloom.routing.clusters import Clusters, clusters
from fedloom.routing.one_server import OneServer, one_server
from fedloom.routing.own_models import OwnModels, own_models
from fedloom.routing.push_sum import PushSumModels
from fedloom.routing.related_outputs import RelatedOutputs
from fedloom.routing.routing import Routing

__all__ = [
    "Clusters",
    "OneServer",
    "OwnModels",
    "PushSumModels",
    "RelatedOutputs",
    "Routing",
    "clusters",
    "one_server",
    "own_models",
]
