"""Data: sources give a Dataset, a partition deals it to clients, a split cuts what each has: FederatedData."""

from fedloom.data import partition, split
from fedloom.data.dataset import Dataset
from fedloom.data.federated import FederatedData, Ranges
from fedloom.data.sources.mnist import mnist

__all__ = ["Dataset", "FederatedData", "Ranges", "mnist", "partition", "split"]
