"""Runs: from an experiment to a history, a checkpoint, a model, a table and a figure."""

from fedloom.runs.experiment import Experiment
from fedloom.runs.fitting import fine_tune
from fedloom.runs.history import History
from fedloom.runs.plot import plot
from fedloom.runs.result import Run, load
from fedloom.runs.runner import run
from fedloom.runs.stopping import Stop
from fedloom.runs.sweep import sweep
from fedloom.runs.users import Users

__all__ = ["Experiment", "History", "Run", "Stop", "Users", "fine_tune", "load", "plot", "run", "sweep"]
