"""Fuzz what a server reads, with atheris where it is installed, and a coordinator's calls in any order."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from timing import keep

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))  # before benchmarks/weather.py


def kinds() -> list[Any]:
    from fedloom.federation import wire_pb2

    names = ("Beat", "Order", "Want", "Chunk", "Place", "Update", "Verdict")
    return [getattr(wire_pb2, name) for name in names]


def seeds() -> list[bytes]:
    """Good messages and files to begin with; the first byte says what the rest is."""
    from fedloom.federation.wire_pb2 import Beat, Chunk, Order, Over, Place, Update, Verdict, Want, Welcome

    file = "0" * 64
    messages = [
        Beat(protocol=1, version="0.2.0", ready=True, examples=9),
        Order(welcome=Welcome(run="r", number=1, about="{}", beat=2.0)), Order(over=Over(model=file, size=3)),
        Want(file=file, start=3), Chunk(file=file, size=3, content=b"abc"), Place(start=9),
        Update(run="r", round=1, file=file, size=3, examples=2, readings={"a": 1.0}, measures={"count": 1.0}),
        Verdict(outcome=2, why="late"),
    ]  # fmt: skip
    found = [bytes([kinds().index(type(message))]) + message.SerializeToString() for message in messages]
    arrays = {"w": np.ones((2, 3), np.float32), "n": np.arange(2, dtype=np.int32)}
    return [*found, b"\xff" + schema().content(arrays)]


def schema() -> Any:
    from fedloom.federation.schema import Schema

    return Schema.of({"w": np.zeros((2, 3), np.float32), "n": np.zeros(2, np.int32)})


def reader() -> Any:
    """What reads bytes as a message or a file: anything but the documented errors is a finding."""
    from fedloom.federation.schema import Unfit
    from fedloom.federation.wire import Malformed, decoded

    every, wanted = kinds(), schema()

    def read(content: bytes) -> str:
        first, rest = content[:1], content[1:]
        try:
            if first and first[0] >= 128:
                arrays = wanted.arrays(rest)
                assert {n: (a.shape, a.dtype.name) for n, a in arrays.items()} == {
                    n: (s, k) for n, s, k in wanted.fields
                }
                return "file accepted"
            decoded(every[first[0] % len(every) if first else 0], rest)
            return "message accepted"
        except Unfit as error:
            assert len(str(error)) <= 300, "an error as long as a file"
            return "file refused"
        except Malformed as error:
            assert len(str(error)) <= 500, "an error as long as a message"
            return "message refused"

    return read


def with_atheris(seconds: int, counts: Path) -> None:
    """Coverage of the decoder guides what is tried; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["fedloom.federation.wire", "fedloom.federation.schema"]):
        import fedloom.federation.schema
        import fedloom.federation.wire  # noqa: F401
    read, done = reader(), Counter[str]()

    def one(content: bytes) -> None:
        done[read(content)] += 1
        if sum(done.values()) % 20_000 == 0:
            counts.write_text(json.dumps(done))

    with tempfile.TemporaryDirectory() as corpus:
        for i, seed in enumerate(seeds()):
            (Path(corpus) / str(i)).write_bytes(seed)
        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=4096", "-verbosity=0", corpus], one)
        atheris.Fuzz()


def mutated(draw: random.Random, content: bytes) -> bytes:
    """A content with something wrong."""
    found = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at = draw.randrange(len(found) + 1)
        what = draw.choice(["flip", "cut", "repeat", "insert", "number", "digit"])
        if what == "flip" and at < len(found):
            found[at] ^= 1 << draw.randrange(8)
        elif what == "cut":
            del found[at : at + draw.choice([1, 2, 9, 99])]
        elif what == "repeat":
            found[at:at] = found[at : at + draw.randrange(1, 50)]
        elif what == "insert":
            found[at:at] = draw.randbytes(draw.choice([1, 3, 10]))
        elif what == "number":
            found[at:at] = draw.choice([b"18446744073709551615", b"-1", b"0", b"1e999", b"\xff\xff\xff\xff\x0f"])
        elif digits := [i for i, b in enumerate(found) if 48 <= b < 58]:
            found[draw.choice(digits)] = draw.randrange(48, 58)
    return bytes(found[:8192])


def blindly(seconds: float, seed: int) -> Counter[str]:
    """Mutations of good messages and files, without knowing what they reach inside protobuf and safetensors; the
    lengths in the headers of files are put right again, or nothing behind them would be reached.
    """
    draw, read, good, done = random.Random(seed), reader(), seeds(), Counter[str]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        content = draw.choice([*good, *good[-1:] * 8])
        if content[0] == 255 and draw.random() < 0.8:
            header = int.from_bytes(content[1:9], "little")
            json_ = mutated(draw, content[9 : 9 + header])
            content = b"\xff" + len(json_).to_bytes(8, "little") + json_ + content[9 + header :]
        else:
            content = content[:1] + mutated(draw, content[1:])
        done[read(content)] += 1
    return done


def disordered(seconds: float, seed: int) -> Counter[str]:
    from disorder import disorder

    done, end = Counter[str](), time.monotonic() + seconds
    while time.monotonic() < end:
        done += disorder(seed, 300)
        seed += 1
    return done


def main(
    seconds: Annotated[int, typer.Option(min=6, help="in all")] = 600,
    seed: Annotated[int, typer.Option(help="of what is tried")] = 0,
    atheris_only: Annotated[int, typer.Option(hidden=True)] = 0,
    counts: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """A third of the time each: the decoder guided by coverage, the decoder blindly, the coordinator."""
    if atheris_only:
        with_atheris(atheris_only, Path(counts))
    third, found = seconds // 3, {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counts.json"
        again = [sys.executable, __file__, "--atheris-only", str(third), "--counts", str(file)]
        process = subprocess.run(again, capture_output=True, text=True, cwd=folder)
        if "No module named 'atheris'" in process.stderr:
            found["guided"] = "atheris is not installed"
        else:
            found["guided"] = {**json.loads(file.read_text()), "exit": process.returncode}
            if process.returncode:
                print(process.stderr[-3000:])
    found["blind"] = dict(blindly(third, seed))
    found["coordinator"] = dict(disordered(third, seed))
    print(json.dumps(found, indent=1))
    keep("fuzz", seconds=seconds, found=found)


if __name__ == "__main__":
    typer.run(main)
