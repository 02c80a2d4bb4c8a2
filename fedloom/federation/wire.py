"""Wire: messages as bytes, and what is checked of them before anything is done with them."""

from __future__ import annotations

import math
import re
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from fedloom.federation.wire_pb2 import Beat, Chunk, Update, Want

PROTOCOL = 1
CHUNK = 2**18  # bytes of a file in one message; copies of larger ones take new pages from the system every time
LARGEST = CHUNK + 2**16  # bytes of a message
TEXT = 200  # characters of a name or a reason
NUMBERS = 64  # readings and measures of one update
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
    """Raise :class:`Malformed` for names that are none, texts that are too long and numbers that are not finite."""
    if isinstance(message, Beat):
        _require(len(message.version) <= TEXT, "a version of fedloom that is too long")
    if isinstance(message, Want):
        _require(bool(FILE.fullmatch(message.file)), "a file that is no SHA-256")
    if isinstance(message, Chunk):
        _require(not message.file or bool(FILE.fullmatch(message.file)), "a file that is no SHA-256")
        _require(len(message.content) <= CHUNK, f"a chunk of more than {CHUNK:,} bytes")
    if isinstance(message, Update):
        _require(bool(FILE.fullmatch(message.file)), "a file that is no SHA-256")
        _require(len(message.run) <= TEXT, "a run with too long a name")
        for numbers in (message.readings, message.measures):
            _require(len(numbers) <= NUMBERS, f"more than {NUMBERS} numbers")
            for name, value in numbers.items():
                _require(len(name) <= TEXT, "a number with too long a name")
                _require(math.isfinite(value), f"{name} that is not finite")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Malformed(what)
