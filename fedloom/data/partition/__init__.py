"""Partitions: who gets which examples. One scheme a file; each is a pure function of (examples, random generator)."""

from fedloom.data.partition.affinity import affinity
from fedloom.data.partition.dirichlet import dirichlet
from fedloom.data.partition.iid import iid
from fedloom.data.partition.labels import labels
from fedloom.data.partition.natural import natural
from fedloom.data.partition.partition import Deal, Examples, Partition
from fedloom.data.partition.quantity import lognormal, power
from fedloom.data.partition.shards import shards
from fedloom.data.partition.skew import noisy, rotated

__all__ = [
    "Deal",
    "Examples",
    "Partition",
    "affinity",
    "dirichlet",
    "iid",
    "labels",
    "lognormal",
    "natural",
    "noisy",
    "power",
    "rotated",
    "shards",
]
