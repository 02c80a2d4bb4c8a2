"""Engines: where and how a round's work is computed."""

from fedloom.engines.clock import Clock, clock
from fedloom.engines.compiled import Compiled, compiled
from fedloom.engines.processes import ProcessEngine, processes
from fedloom.engines.program import Program
from fedloom.engines.ray import RayEngine, ray
from fedloom.engines.spreading import Spreading

Engine = Compiled | Spreading

__all__ = [
    "Clock",
    "Compiled",
    "Engine",
    "ProcessEngine",
    "Program",
    "RayEngine",
    "Spreading",
    "clock",
    "compiled",
    "processes",
    "ray",
]
