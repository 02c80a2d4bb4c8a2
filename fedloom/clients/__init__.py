"""Clients: participants that train and judge by code of their own, in whatever library."""

from fedloom.clients.client import Answer, Broadcast, Client, Weights
from fedloom.clients.keras_client import KerasClient
from fedloom.clients.sklearn_client import SklearnClient
from fedloom.clients.task import task
from fedloom.clients.tensorflow_client import TensorflowClient
from fedloom.clients.torch_client import TorchClient

__all__ = [
    "Answer",
    "Broadcast",
    "Client",
    "KerasClient",
    "SklearnClient",
    "TensorflowClient",
    "TorchClient",
    "Weights",
    "task",
]
