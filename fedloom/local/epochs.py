"""Epochs: how many passes over its examples each client makes in a round, where clients differ."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.data.files import opened
from fedloom.errors import ArgumentError, Told, require, whole
from fedloom.quantity import DRAWN, quantity

if TYPE_CHECKING:
    from jaxtyping import Int

MOST = 2**31 - 1
FORMS = "a whole number, lognormal:MEDIAN:SPREAD, uniform:LOW:HIGH, or a CSV file with the columns client and epochs"
HEAD = ("client", "epochs")


@dataclass(frozen=True)
class Epochs:
    """A description of every client's epochs: a distribution, or a file.

    What is drawn depends on the number of the client alone, so that a client makes as many passes with every seed, on
    every engine, and however many clients there are. Drawn numbers are rounded, and are at least 1.

    Arguments:
        text: ``lognormal:2:0.5`` (the median, and the spread of the logarithm), ``uniform:1:5``, or a CSV file.
    """

    text: str

    def of(self, clients: int, names: Sequence[str] = ()) -> Int[np.ndarray, " clients"]:
        """Return the epochs of each client.

        Arguments:
            clients: the number of clients.
            names: of the clients, if they have names; in a file they may stand for the numbers.

        >>> Epochs("uniform:1:5").of(4).tolist()
        [4, 2, 1, 1]
        """
        if self.text.endswith(".csv"):
            return listed(Path(self.text), clients, names)
        return checked(np.maximum(1, np.rint(quantity("epochs", self.text).of(clients, 0, [0]))))

    def one(self, client: int, name: str = "") -> int:
        """Return the epochs of a client by its number and its name, where it is not known how many clients there are.

        >>> Epochs("uniform:1:5").one(1)
        2
        """
        if not self.text.endswith(".csv"):
            return int(self.of(client + 1)[client])
        path = Path(self.text)
        lines = list(rows(path))
        of = name if any(who == name for who, _ in lines) else str(client)
        given = [epochs for who, epochs in lines if who == of]
        need = f"given once for {name or f'client {client}'} ({path})"
        require(len(given) == 1, "epochs", need, Told(f"given {len(given)} times"))
        require(given[0].isdigit(), "epochs", f"a whole number ({path})", given[0])
        whole("epochs", int(given[0]), 1, MOST)
        return int(given[0])

    def __str__(self) -> str:
        return self.text


def parsed(given: Any) -> Any:
    """Return a number, an array of each client's number, or a description.

    >>> parsed("3"), parsed("lognormal:2:0.5"), parsed([1, 2])
    (3, Epochs(text='lognormal:2:0.5'), array([1, 2], dtype=int32))
    >>> parsed("several")
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: epochs must be a whole number, lognormal:MEDIAN:SPREAD, uniform:LOW:HIGH, or a CSV \
file with the columns client and epochs, but is 'several'
    """
    if isinstance(given, str):
        kind = given.split(":")[0]
        if given.endswith(".csv"):
            return Epochs(given)
        if kind in DRAWN:
            quantity("epochs", given)
            return Epochs(given)
        require(given.lstrip("-").isdigit(), "epochs", FORMS, given)
        return int(given)
    if isinstance(given, Sequence) or (isinstance(given, np.ndarray) and given.ndim):
        require(np.ndim(given) == 1 and len(given) > 0, "epochs", "one number for each client", given)
        return checked(np.asarray(given))
    return given


def checked(values: np.ndarray) -> Int[np.ndarray, " clients"]:
    """Return the numbers of the clients in 32 bits if each is a whole number from 1 on."""
    good = np.issubdtype(values.dtype, np.number) and bool(np.all((values == np.rint(values)) & (values >= 1)))
    require(good, "epochs", "whole numbers of at least 1", values.tolist()[:5])
    require(bool(values.max() <= MOST), "epochs", f"at most {MOST:,}", float(values.max()))
    return values.astype(np.int32)


def listed(path: Path, clients: int, names: Sequence[str]) -> Int[np.ndarray, " clients"]:
    """Return each client's epochs from a file whose lines name all clients, by number or by name.

    Raises:
        ArgumentError: a line names a client that does not exist, names one twice, or has no whole number; or a client
            has no line.
    """
    known = {str(i): i for i in range(clients)} | {name: i for i, name in enumerate(names)}
    found: dict[int, int] = {}
    for line, (client, epochs) in enumerate(rows(path), 2):
        where = f"{path}, line {line}"
        if client not in known:
            example = f" or names such as {names[0]}" if len(names) else ""
            raise ArgumentError("epochs", f"for clients that exist (0 to {clients - 1:,}{example}; {where})", client)
        require(known[client] not in found, "epochs", f"given once for each client ({where})", client)
        try:
            found[known[client]] = int(epochs)
        except ValueError as error:
            raise ArgumentError("epochs", f"a whole number ({where})", epochs) from error
        whole(f"epochs ({where})", found[known[client]], 1, MOST)
    lacking = [i for i in range(clients) if i not in found]
    if lacking:
        more = f" and {len(lacking) - 1:,} more" if len(lacking) > 1 else ""
        raise ArgumentError(
            "epochs", f"given for every client ({path})", Told(f"missing for client {lacking[0]}{more}")
        )
    return np.array([found[i] for i in range(clients)], np.int32)


def rows(path: Path) -> Iterable[tuple[str, str]]:
    """Return the lines of a file below its head: the client and its epochs."""
    require(path.is_file(), "epochs", "a CSV file that exists", str(path))
    with opened(path, "rt") as file:
        lines = [tuple(cell.strip() for cell in row) for row in csv.reader(file) if row]
    head = lines[0] if lines else ()
    require(head == HEAD, "epochs", f"a file with the columns {' and '.join(HEAD)} ({path})", ", ".join(head))
    wrong = next((row for row in lines[1:] if len(row) != len(HEAD)), None)
    require(wrong is None, "epochs", f"two values in each line ({path})", ", ".join(wrong or ()))
    return [(row[0], row[1]) for row in lines[1:]]


def described(epochs: Any) -> int | str:
    """Return epochs for a table: the number, the description, or the range of each client's and their checksum.

    >>> described(np.array([1, 3], np.int32))
    '1 to 3 (bb3d7019)'
    """
    if isinstance(epochs, Epochs):
        return epochs.text
    if np.ndim(epochs) == 0:
        return int(epochs)
    values = np.asarray(epochs)
    return f"{values.min()} to {values.max()} ({zlib.crc32(values.astype('<i4').tobytes()):08x})"
