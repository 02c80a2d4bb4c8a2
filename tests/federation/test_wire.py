import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.federation import wire_pb2
from fedloom.federation.wire import CHUNK, LARGEST, Malformed, decoded
from fedloom.federation.wire_pb2 import (
    Beat,
    Chunk,
    Order,
    Over,
    Place,
    Refusal,
    Update,
    Verdict,
    Want,
    Welcome,
    Work,
)

FILE = "0123456789abcdef" * 4
KINDS = (Beat, Order, Want, Chunk, Place, Update, Verdict)


@pytest.mark.parametrize(
    "message",
    [
        Beat(protocol=1, version="0.2.0", ready=True, examples=2**64 - 1),
        Want(file=FILE, start=2**64 - 1),
        Chunk(file=FILE, content=bytes(CHUNK)),
        Chunk(content=b"x"),
        Update(file=FILE, readings={"accuracy": 1e300}, measures={str(i): 0.0 for i in range(64)}),
        Order(welcome=Welcome(run="a", about="{}", beat=2.0)),
        Order(work=Work(round=3, model=FILE)),
        Order(over=Over(model=FILE)),
        Order(refusal=Refusal(why="no", again=30.0)),
        Order(),
    ],
)
def test_what_can_be_meant_is_read(message: Beat) -> None:
    assert decoded(type(message), message.SerializeToString()) == message


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Beat(version="x" * 201), "too long"),
        (Beat(version="\x1b[31m"), "cannot be printed"),
        (Want(), "no SHA-256"),
        (Want(file="../" * 20 + "etc/"), "no SHA-256"),
        (Want(file=FILE + "\n"), "no SHA-256"),
        (Want(file=FILE.upper()), "no SHA-256"),
        (Chunk(content=bytes(CHUNK + 1)), "a chunk of more"),
        (Chunk(file="x"), "no SHA-256"),
        (Update(file=FILE, run="x" * 201), "too long"),
        (Update(file=FILE, run="a\nb"), "cannot be printed"),
        (Update(file=FILE, readings={"x": math.nan}), "not finite"),
        (Update(file=FILE, measures={"x": math.inf}), "not finite"),
        (Update(file=FILE, measures={"x\u2028": 0.0}), "cannot be printed"),
        (Update(file=FILE, readings={str(i): 0.0 for i in range(65)}), "more than 64"),
        (Order(work=Work(model="../../x")), "no SHA-256"),
        (Order(over=Over(model="/tmp/x")), "no SHA-256"),
        (Order(welcome=Welcome(run="a", beat=0.0)), "signs of life"),
        (Order(welcome=Welcome(run="a", beat=math.nan)), "signs of life"),
        (Order(welcome=Welcome(run="a", beat=2.0, number=2**32 - 1)), "too large"),
        (Order(refusal=Refusal(again=math.inf)), "a return"),
        (Order(refusal=Refusal(again=-1.0)), "a return"),
    ],
)
def test_what_cannot_be_meant_is_refused(message: Beat, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        decoded(type(message), message.SerializeToString())


def test_a_message_that_is_too_large_is_not_even_read() -> None:
    with pytest.raises(Malformed, match="the largest has"):
        decoded(Beat, bytes(LARGEST + 1))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(KINDS), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(kind: type[Beat], content: bytes) -> None:
    try:
        decoded(kind, content)
    except Malformed as error:
        assert len(str(error)) < 500


def test_the_compiled_messages_are_those_of_the_proto_file() -> None:
    """`make wire` was run after the last change: the same messages, names of fields and numbers."""
    text = (Path(wire_pb2.__file__).parent / "wire.proto").read_text()
    written: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        if begun := re.match(r"message (\w+) {", line):
            fields = written[begun[1]] = {}
        elif field := re.match(r"\s+(?:map<string, double>|\w+) (\w+) = (\d+);", line):
            fields[field[1]] = int(field[2])
    found = wire_pb2.DESCRIPTOR.message_types_by_name
    assert {name: {f.name: f.number for f in kind.fields} for name, kind in found.items()} == written
