"""Local work: what a client does with the model it was sent."""

from fedloom.local.ditto import Ditto, ditto
from fedloom.local.local import Around, Local, Step, Turn, Work
from fedloom.local.messages import Reply, Sent
from fedloom.local.private import Private, private
from fedloom.local.proximal import Proximal, proximal
from fedloom.local.scaffold import Scaffold, scaffold
from fedloom.local.sgd import Sgd, given, sgd

__all__ = [
    "Around",
    "Ditto",
    "Local",
    "Private",
    "Proximal",
    "Reply",
    "Scaffold",
    "Sent",
    "Sgd",
    "Step",
    "Turn",
    "Work",
    "ditto",
    "given",
    "private",
    "proximal",
    "scaffold",
    "sgd",
]
