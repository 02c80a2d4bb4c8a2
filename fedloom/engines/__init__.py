"""Engines: where and how a round's work is computed."""

from fedloom.engines.clock import Clock, clock
from fedloom.engines.compiled import Compiled, compiled
from fedloom.engines.engine import Engine
from fedloom.engines.mpi import MpiEngine, mpi, mpi_rank
from fedloom.engines.processes import ProcessEngine, processes
from fedloom.engines.program import Program
from fedloom.engines.ray import RayEngine, ray
from fedloom.engines.reference import Reference, reference
from fedloom.engines.spreading import Spreading

__all__ = [
    "Clock",
    "Compiled",
    "Engine",
    "MpiEngine",
    "ProcessEngine",
    "Program",
    "RayEngine",
    "Reference",
    "Spreading",
    "clock",
    "compiled",
    "mpi",
    "mpi_rank",
    "processes",
    "ray",
    "reference",
]
