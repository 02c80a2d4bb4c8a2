"""Wire: messages as bytes, and what is checked of them before anything is done with them."""

from __future__ import annotations

import math
import re
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Update, Want

PROTOCOL = 1
CHUNK = 2**18  # bytes of a file in one message; copies of larger ones take new pages from the system every time
LARGEST = CHUNK + 2**16  # bytes of a message
TEXT = 200  # characters of a name or a reason
NUMBERS = 64  # readings and measures of one update
MOST = 1e15  # a number beyond this is none that is meant: squares and sums of such numbers are still finite
DAY = 86_400.0  # seconds; nobody waits longer
FILE = re.compile(r"[0-9a-f]{64}")

M = TypeVar("M", bound=Message)


class Malformed(ValueError):
    """A message that cannot be meant."""


def decoded(kind: type[M], content: bytes) -> M:
    """A participant's message, if it is one of that kind and holds what it may hold."""
    if len(content) > LARGEST:
        raise Malformed(f"a message of {len(content):,} bytes; the largest has {LARGEST:,}")
    message = kind()
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise Malformed(f"not a {kind.__name__}: {error}") from None
    check(message)
    return message


def check(message: Message) -> None:
    """Raise :class:`Malformed` for names that are none, texts that are too long and numbers that cannot be meant."""
    if isinstance(message, Beat):
        _text(message.version, "a version of fedloom")
    if isinstance(message, Want):
        _file(message.file)
    if isinstance(message, Chunk):
        _require(len(message.content) <= CHUNK, f"a chunk of more than {CHUNK:,} bytes")
        if message.file:
            _file(message.file)
    if isinstance(message, Update):
        _file(message.file)
        _text(message.run, "a run")
        for numbers in (message.readings, message.measures):
            _require(len(numbers) <= NUMBERS, f"more than {NUMBERS} numbers")
            for name, value in numbers.items():
                _text(name, "a number's name")
                _require(math.isfinite(value), f"{name} that is not finite")
        _require(message.steps <= MOST, f"{message.steps} steps")
    if isinstance(message, Order):
        _order(message)


def _order(order: Order) -> None:
    """What a server may say: a participant names files by it, and waits as long as it says."""
    if order.HasField("welcome"):
        _text(order.welcome.run, "a run")
        _require(order.welcome.number < 2**31, "a number of a participant that is too large")
        _require(0.01 <= order.welcome.beat <= DAY, f"{order.welcome.beat:g} seconds between two signs of life")
    if order.HasField("work"):
        _file(order.work.model)
        _require(order.work.round < 2**31, "a round that is too large")
    if order.HasField("over"):
        _file(order.over.model)
    if order.HasField("refusal"):
        _require(0 <= order.refusal.again <= DAY, f"a return after {order.refusal.again:g} seconds")


def _file(name: str) -> None:
    _require(bool(FILE.fullmatch(name)), "a file that is no SHA-256")


def _text(text: str, what: str) -> None:
    _require(len(text) <= TEXT, f"{what} that is too long")
    _require(text.isprintable(), f"{what} that cannot be printed")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Malformed(what)
