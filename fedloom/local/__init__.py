"""Local work: what a client does with the model it receives."""

from fedloom.local.batches import Batches, StepPosition
from fedloom.local.client import Client
from fedloom.local.ditto import Ditto, ditto
from fedloom.local.message import Message, Reply, Sent
from fedloom.local.penalty import LinearPenalty, Penalty, ProximalPenalty, QuadraticPenalty
from fedloom.local.private import Private, private
from fedloom.local.protocol import Local
from fedloom.local.proximal import Proximal, proximal
from fedloom.local.scaffold import Scaffold, scaffold
from fedloom.local.sgd import Sgd, given, sgd
from fedloom.local.work import StepBatch, Work
from fedloom.local.wrapper import LocalWrapper

__all__ = [
    "Batches",
    "Client",
    "Ditto",
    "LinearPenalty",
    "Local",
    "LocalWrapper",
    "Message",
    "Penalty",
    "Private",
    "Proximal",
    "ProximalPenalty",
    "QuadraticPenalty",
    "Reply",
    "Scaffold",
    "Sent",
    "Sgd",
    "StepBatch",
    "StepPosition",
    "Work",
    "ditto",
    "given",
    "private",
    "proximal",
    "scaffold",
    "sgd",
]
