"""Modes: which parts of a PyTorch module are in eval mode, for the compiled engine and for PyTorch itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedloom.errors import warn

SENSITIVE = ("Norm", "Dropout")
"""What is in the names of layers that do something else when they are trained."""


def in_eval_mode(module: Any) -> list[Any]:
    """Return the parts of a module that stay in eval mode while the others are trained.

    If the whole module is in eval mode, none of them does: that is how libraries hand out trained models, and a
    training loop calls ``module.train()`` first. A warning says so.
    """
    resting = [part for part in module.modules() if not part.training]
    if any(part.training for part in module.modules()):
        return resting
    if any(word in type(part).__name__ for part in resting for word in SENSITIVE):
        warn(
            f"{type(module).__name__} is in eval mode as a whole, and is trained in training mode, with its dropout "
            "and batch norm. Call module.train() to agree, and then eval() on the parts that are to stay in eval mode"
        )
    return []


def train_except(module: Any, resting: list[Any]) -> None:
    """Put a module in training mode, except for some of its parts."""
    module.train()
    for part in resting:
        part.training = False


@contextmanager
def restored_modes(module: Any, training: bool, resting: list[Any]) -> Iterator[None]:
    """Inside, a module is trained, except for some of its parts, or evaluated; after it, each part is as it was."""
    before = {part: part.training for part in module.modules()}
    if training:
        train_except(module, resting)
    else:
        module.eval()
    try:
        yield
    finally:
        for part, mode in before.items():
            part.training = mode
