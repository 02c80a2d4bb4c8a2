"""The command line: run, sweep, resume, plot, list, data."""

from fedloom.cli.app import app, main

__all__ = ["app", "main"]
