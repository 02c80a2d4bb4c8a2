"""Engines: where and how a round's work is computed."""

from fedloom.engines.compiled import Compiled, Program, compiled

__all__ = ["Compiled", "Program", "compiled"]
