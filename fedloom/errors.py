"""The exceptions a user can meet.

FedloomError
├── ArgumentError     a value that cannot be used: names the argument, the requirement and the value
│   └── UnknownName   a name that is not known: lists the choices
├── DataError         bad data: names the column, the row and the client where known
├── DivergedError     the loss became NaN or infinite: names the round and the learning rate
└── CheckpointError   a checkpoint that is truncated, damaged or from another run
"""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class FedloomError(Exception):
    """Whatever fedloom tells a user about what went wrong; the command line prints it without a traceback."""


class ArgumentError(FedloomError, ValueError):
    """A value that cannot be used."""

    def __init__(self, argument: str, requirement: str, value: object) -> None:
        super().__init__(f"{argument} must be {requirement}, but is {value!r}")


class UnknownName(ArgumentError):
    """A name that is not known; the message lists those that are."""

    def __init__(self, argument: str, name: object, choices: Iterable[str]) -> None:
        super().__init__(argument, "one of " + ", ".join(sorted(choices)), name)


class DataError(FedloomError, ValueError):
    """Data that cannot be trained on."""


class DivergedError(FedloomError, ArithmeticError):
    """The loss is no longer a number."""


class CheckpointError(FedloomError, RuntimeError):
    """A checkpoint that cannot be continued."""


def require(holds: bool, argument: str, requirement: str, value: object) -> None:
    """Raise an :class:`ArgumentError` unless the requirement holds.

    >>> require(1 <= 0, "epochs", "at least 1", 0)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: epochs must be at least 1, but is 0
    """
    if not holds:
        raise ArgumentError(argument, requirement, value)


def choose(argument: str, name: str, choices: dict[str, T]) -> T:
    """The choice of that name.

    >>> choose("model", "3nn", {"2nn": 1, "cnn": 2})
    Traceback (most recent call last):
    fedloom.errors.UnknownName: model must be one of 2nn, cnn, but is '3nn'
    """
    if name not in choices:
        raise UnknownName(argument, name, choices)
    return choices[name]
