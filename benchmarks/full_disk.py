"""A server's disk is full at every single change of a file: Python's and SQLite's calls of the system are refused in
turn, fully or in the middle. Each time, there is room later: the run must end with the same model, and nothing
unreadable may be there at any moment. Needs a C compiler.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from timing import keep

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
LOADED = "FEDLOOM_FULL_DISK"  # the library, in the process that it is loaded into
MANNERS = {"one call": (1, 0), "one call, halfway": (2, 1), "thirty calls, halfway": (30, 1)}


def again(folder: Path) -> int:
    """The same program once more, with the library before all others."""
    library = folder / "full_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "full_disk.c", "-ldl"], check=True)
    told = {"LD_PRELOAD": str(library), LOADED: str(library)}
    return subprocess.run([sys.executable, *sys.argv], env=os.environ | told).returncode


def lived(shim: ctypes.CDLL, folder: Path, first: int, many: int, half: int) -> tuple[Any, int, int]:
    """A run on a disk that is full for some calls: its world, and how many calls there were and were refused."""
    from ground import Grounded

    from fedloom.federation.log import lines, several

    class Logged(Grounded):
        """A server that writes a log on the same disk."""

        def note(self, event: str, **fields: Any) -> None:
            tell(event, **fields)
            self.hit = bool(shim.full_disk_hit())
            super().note(event, **fields)

        def readable(self) -> None:
            shim.full_disk_sleep(1)
            super().readable()
            shim.full_disk_sleep(0)

    world = Logged(folder, lambda name: None)  # noqa: ARG005
    with (folder / "log.jsonl").open("a", encoding="utf-8") as file:
        tell = several(lines(file))
        shim.full_disk(str(folder).encode(), ctypes.c_long(first), ctypes.c_long(many), ctypes.c_long(half))
        try:
            world.run()
            return world, shim.full_disk_seen(), shim.full_disk_hit()
        finally:
            shim.full_disk(b"", 0, 0, 0)


def tried(shim: ctypes.CDLL, home: Path, calls: int, many: int, half: int) -> dict[str, Any]:
    """The disk full at every call in turn."""
    import numpy as np
    from ground import ROUNDS
    from weather import expected, tiny

    wanted = expected(tiny(1.0), [[0, 1, 2]] * ROUNDS, 3)
    found: Counter[str] = Counter()
    broken: list[dict[str, Any]] = []
    for first in range(calls):
        try:
            with tempfile.TemporaryDirectory(dir=home) as folder:
                world, _, refused = lived(shim, Path(folder), first, many, half)
                shim.full_disk_sleep(0)
                world.readable()
            assert np.array_equal(world.finals[0], wanted), "another model"
            found.update(calls=1, refused=refused, starts_again=world.crashed, void=world.coordinator.journal.voided())
            names = [event for _, event, _ in world.events if event in ("serve", "crash", "came")]
            found["ended_while_serving"] += "came crash" in " ".join(names)
        except Exception as error:
            broken.append({"call": first, "why": f"{type(error).__name__}: {error}"})
            print(broken[-1])
    return {**found, "broken": broken}


def main(
    home: Annotated[Path, typer.Option(help="where the runs are; memory is quickest")] = Path("/dev/shm"),
) -> None:
    """Fill the disk at every call."""
    if LOADED not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            raise typer.Exit(again(Path(folder)))
    shim = ctypes.CDLL(os.environ[LOADED])
    with tempfile.TemporaryDirectory(dir=home) as folder:
        _, calls, _ = lived(shim, Path(folder), -1, 0, 0)
    print(f"{calls} calls change files in a run without trouble")
    found = {}
    for manner, (many, half) in MANNERS.items():
        found[manner] = tried(shim, home, calls, many, half)
        print(manner, found[manner], flush=True)
    keep("full_disk", calls=calls, **found)
    raise typer.Exit(any(one["broken"] for one in found.values()))


if __name__ == "__main__":
    typer.run(main)
