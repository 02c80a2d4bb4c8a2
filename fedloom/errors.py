"""The exceptions and the warning that a user can meet.

FedloomError
├── ArgumentError     a value that cannot be used: names the argument, the requirement and the value
│   └── UnknownName   a name that is not known: lists the choices, or the nearest of very many
├── UnknownDirection  a column that cannot be ranked: says how to declare whether higher or lower is better
├── MissingExtra      a library that is not installed: says which extra brings it
├── DataError         bad data: names the column, the row and the client where known
├── DivergedError     the loss became NaN or infinite: names the round and the learning rate
├── CheckpointError   a checkpoint that is truncated, damaged or from another run
├── IdentityError     keys, certificates or lists of them that cannot be used: says which file, and why
├── PeerError         another rank that has left or does not answer: names it and its workers
└── CrewError         workers that end again and again, or a cluster that does not answer: says what was under way

FedloomWarning        the work goes on, but a result may not be what it looks like: says why, and what to do
"""

import sys
import warnings
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Self, TypeVar

import numpy as np

T = TypeVar("T")
MANY, NEAREST = 60, 6  # names of which only some are listed, and how many


class FedloomError(Exception):
    """Whatever fedloom tells a user about what went wrong; the command line prints it without a traceback."""


class ArgumentError(FedloomError, ValueError):
    """A value that cannot be used."""

    def __init__(self, argument: str, requirement: str, value: object) -> None:
        super().__init__(f"{argument} must be {requirement}, but is {value!r}")
        self.argument, self.requirement, self.value = argument, requirement, value


class Told(str):
    """Words that an error shows without quotation marks in the place of a value.

    >>> str(ArgumentError("epochs", "given for every client", Told("missing for", 2, "clients")))
    'epochs must be given for every client, but is missing for 2 clients'
    """

    def __new__(cls, *words: object) -> Self:
        """Join words by spaces."""
        return super().__new__(cls, " ".join(map(str, words)))

    __repr__ = str.__str__


class UnknownName(ArgumentError):
    """A name that is not known; the message lists those that are, or the nearest where there are very many."""

    def __init__(self, argument: str, name: object, choices: Iterable[str]) -> None:
        known = sorted(choices)
        few = known if len(known) <= MANY else get_close_matches(str(name), known, NEAREST, cutoff=0.0)
        many = f"{len(known)} names, the nearest being " * (len(known) > MANY)
        super().__init__(argument, f"one of {many}{', '.join(few)}", name)


class UnknownDirection(FedloomError, ValueError):
    """A column of a history that cannot be ranked: a cost, or a metric without a declared direction."""


class MissingExtra(FedloomError, ImportError):
    """A library that is not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"this needs {library}: pip install 'fedloom[{extra}]'", name=library)


class DataError(FedloomError, ValueError):
    """Data that cannot be trained on."""


class DivergedError(FedloomError, ArithmeticError):
    """The loss is no longer a number."""


class CheckpointError(FedloomError, RuntimeError):
    """A checkpoint that cannot be continued."""


class IdentityError(FedloomError, RuntimeError):
    """Keys or certificates that prove nobody's identity."""


class PeerError(FedloomError, RuntimeError):
    """Another rank has left, or does not answer."""


class CrewError(FedloomError, RuntimeError):
    """Workers that cannot be kept at work, or cannot be reached."""


class FedloomWarning(UserWarning):
    """Something that may make a result differ from what it looks like."""


def warn(message: str) -> None:
    """Issue a :class:`FedloomWarning` that points at the line of the user's own code.

    In Python it is a standard warning, so ``warnings.filterwarnings("error", category=FedloomWarning)`` makes it an
    error. Commands print it on standard error, also with ``--quiet``, and list it under ``warnings`` with ``--json``.
    """
    frame, depth, package = sys._getframe(1), 2, str(Path(__file__).parent)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, FedloomWarning, stacklevel=depth)


def require(holds: bool, argument: str, requirement: str, value: object) -> None:
    """Raise an :class:`ArgumentError` unless the requirement holds.

    >>> require(1 <= 0, "epochs", "at least 1", 0)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: epochs must be at least 1, but is 0
    """
    if not holds:
        raise ArgumentError(argument, requirement, value)


def whole(argument: str, value: object, least: int, most: int | None = None) -> None:
    """Raise an :class:`ArgumentError` unless the value is a whole number in that range.

    >>> whole("clients", 2.5, 1)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: clients must be a whole number, but is 2.5
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise ArgumentError(argument, "a whole number", value)
    wanted = f"at least {least:,}" if most is None else f"between {least:,} and {most:,}"
    require(least <= int(value) and (most is None or int(value) <= most), argument, wanted, value)


def number(argument: str, value: object, requirement: str, holds: Callable[[float], bool]) -> None:
    """Raise an :class:`ArgumentError` unless the value is a finite number for which something holds.

    >>> number("alpha", float("nan"), "above 0", lambda alpha: alpha > 0)
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: alpha must be above 0, but is nan
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ArgumentError(argument, f"a number {requirement.removeprefix('a number')}".rstrip(), value)
    require(bool(np.isfinite(value)) and holds(float(value)), argument, requirement, value)


def choose(argument: str, name: str, choices: dict[str, T]) -> T:
    """The choice of that name.

    >>> choose("model", "3nn", {"2nn": 1, "cnn": 2})
    Traceback (most recent call last):
    fedloom.errors.UnknownName: model must be one of 2nn, cnn, but is '3nn'
    """
    if name not in choices:
        raise UnknownName(argument, name, choices)
    return choices[name]
