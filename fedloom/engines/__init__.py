"""Engines: where and how a round's work is computed."""

from fedloom.engines.clock import Clock, clock
from fedloom.engines.compiled import Compiled, compiled
from fedloom.engines.program import Program

__all__ = ["Clock", "Compiled", "Program", "clock", "compiled"]
