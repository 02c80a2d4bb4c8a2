"""Partitions: who gets which examples. One scheme a file; each is a pure function of (labels, random generator)."""

from fedloom.data.partition.iid import iid
from fedloom.data.partition.partition import Partition
from fedloom.data.partition.shards import shards

__all__ = ["Partition", "iid", "shards"]
