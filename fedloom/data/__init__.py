"""Data: sources give a Dataset, a partition deals it to clients, a split cuts what each has: FederatedData."""

from fedloom.data import partition, saved, split
from fedloom.data.dataset import Dataset
from fedloom.data.description import Description, describe
from fedloom.data.federated import FederatedData, Ranges
from fedloom.data.picture import picture
from fedloom.data.read_as import ReadAs
from fedloom.data.sources.arrays import from_arrays, hdf5, npz
from fedloom.data.sources.cifar10 import cifar10
from fedloom.data.sources.csv import csv
from fedloom.data.sources.emnist import emnist
from fedloom.data.sources.fashion_mnist import fashion_mnist
from fedloom.data.sources.frame import frame
from fedloom.data.sources.hugging_face import hugging_face
from fedloom.data.sources.images import images
from fedloom.data.sources.leaf import leaf
from fedloom.data.sources.mnist import mnist
from fedloom.data.sources.mnist_writers import mnist_writers
from fedloom.data.sources.shakespeare import shakespeare

__all__ = [
    "Dataset",
    "Description",
    "FederatedData",
    "Ranges",
    "ReadAs",
    "cifar10",
    "csv",
    "describe",
    "emnist",
    "fashion_mnist",
    "frame",
    "from_arrays",
    "hdf5",
    "hugging_face",
    "images",
    "leaf",
    "mnist",
    "mnist_writers",
    "npz",
    "partition",
    "picture",
    "saved",
    "shakespeare",
    "split",
]
