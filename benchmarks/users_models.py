"""Time rounds of models that users bring: ``fl.run`` through the adapters, and the loops of the same libraries.

Every contender trains the same clients on the same batches with SGD and momentum, in processes of its own that start
before anything is timed. Before it times, the script compares the losses after the first rounds: a contender that does
not learn what the library's own loop learns is left out, and the command fails in the end.

usage: python benchmarks/users_models.py [--quick] [--models LeNet,GRU] [--batches 8,32] [--device gpu]
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import hardware
import numpy as np
import typer
from contenders import Contender, Failed, Job, Team
from measure import release
from networks import Network, networks

LIBRARIES = {
    "PyTorch": ("torch", "torchax"),
    "Keras": ("keras",),
    "Flax": ("flax",),
}
"""Library → the packages that are needed."""
DRAWN = 16  # rounds whose orders of examples are drawn; later rounds begin with the first again
MOST = 200  # rounds in a timing
TOLERANCE = 0.05  # by which losses may differ, of what the first rounds gain
ROUNDING = 1e-4  # by which they may differ in any case
ONE_THREAD = ("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")


def contenders(library: str, device: str, processes: int) -> dict[str, Contender]:
    """Return what is timed for a library, by name.

    ``loop`` is the library's own loop in one process; ``parallel`` the same in several; ``compiled`` is what the
    library compiles: ``torch.compile`` in several processes (on a GPU in one), ``fit`` of Keras or the step of Flax in
    one process with all threads; ``stacked`` trains all clients side by side in a CUDA graph.
    """
    gpu = device == "gpu"
    jax = (("JAX_PLATFORMS", "cuda" if gpu else "cpu"), ("KERAS_BACKEND", "jax"))
    lazy = ("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    found = {"fedloom": Contender("loop_fedloom:FedloomRun", 1, (("library", library),), (*jax, lazy))}
    if library == "PyTorch":
        kind = "loop_torch:TorchLoop"
        found["loop"], found["parallel"] = Contender(kind), Contender(kind, processes)
        found["compiled"] = Contender(kind, 1 if gpu else processes, (("compiled", True),))
        if gpu:
            found["stacked"] = Contender("loop_torch:StackedClients")
        return found
    kind = {"Keras": "loop_keras:KerasLoop", "Flax": "loop_flax:FlaxLoop"}[library]
    alone = (*jax, lazy, ONE_THREAD)
    found["loop"] = Contender(kind, environment=alone)
    found["parallel"] = Contender(kind, processes, environment=alone)
    if library == "Keras" or not gpu:
        fits = (("fits", True),) if library == "Keras" else ()
        found["compiled"] = Contender(kind, 1, fits, (*jax, lazy))
    return found


def orders(clients: int, examples: int, seed: int) -> np.ndarray:
    """Return the orders in which fedloom takes the examples: (rounds, clients, examples)."""
    import jax.numpy as jnp

    from fedloom.clients.client import Broadcast
    from fedloom.engines.schedule import client_key
    from fedloom.shuffle import words

    def order(round: int, client: int) -> np.ndarray:
        high, low = np.asarray(words(client_key(jnp.uint32(seed), jnp.int32(round), jnp.int32(client)))).tolist()
        return next(Broadcast({}, round, 0.0, 1, examples, (high, low)).batches(examples))

    return np.array([[order(round, client) for client in range(clients)] for round in range(DRAWN)])


class Bench:
    """The contenders of one library, which stay from network to network.

    Args:
        library: the library.
        device: ``cpu`` or ``gpu``.
        processes: of the contenders with several.
        only: the names of the contenders.
    """

    def __init__(self, library: str, device: str, processes: int, only: list[str]) -> None:
        made = contenders(library, device, processes)
        self.library, self.made = library, {name: one for name, one in made.items() if name in only}
        self.teams: dict[str, Team] = {}

    @contextmanager
    def fresh(self, left_out: dict[str, str], name: str) -> Iterator[None]:
        """Inside, a contender that fails is left out, with its error, and its processes end."""
        try:
            yield
        except Failed as error:
            left_out[name] = str(error)
            say(f"  {name} is left out: {error}")
            self.teams.pop(name).close()

    def row(self, job: Job, seconds: float, repeat: int) -> dict[str, Any]:
        """Time one network with one batch size."""
        left_out: dict[str, str] = {}
        first: dict[str, float] = {}
        losses: dict[str, float] = {}
        numbers, before = 0, float("nan")
        for name, contender in self.made.items():
            if name not in self.teams:
                self.teams[name] = Team(contender)
            with self.fresh(left_out, name):
                numbers = self.teams[name].prepare(job)
                before = self.teams[name].first("first_loss")
                begun = time.perf_counter()
                self.teams[name].run(job.every)
                first[name] = time.perf_counter() - begun
                losses[name] = self.teams[name].loss()
                say(f"  {name:<9} ready after {first[name]:.1f} s, loss {before:.4f} → {losses[name]:.4f}")
        for name, why in disagreements(before, losses).items():
            left_out[name] = why
            say(f"  {name} is left out: {why}")
        rounds = self.calibrated(job, seconds, left_out)
        times = self.timings(rounds, repeat, left_out)
        compiling = {name: max(0.0, first[name] - job.every * statistics.median(each)) for name, each in times.items()}
        return {
            "library": self.library,
            "network": job.network,
            "batch": job.batch,
            "clients": job.clients,
            "examples": job.examples,
            "steps_a_round": job.clients * -(-job.examples // job.batch),
            "parameters": numbers,
            "seconds_a_round": times,
            "rounds_a_timing": {name: rounds[name] for name in times},
            "compile_seconds": compiling,
            "processes": {name: self.made[name].processes for name in times},
            "loss_before": before,
            "loss_rounds": job.every,
            "loss": losses,
            "left_out": left_out,
        }

    def calibrated(self, job: Job, seconds: float, left_out: dict[str, str]) -> dict[str, int]:
        """Return how many rounds of each contender take about so many seconds; those are not timed yet."""
        rounds = {}
        for name in self.made:
            if name not in left_out:
                step = job.every if name == "fedloom" else 1
                with self.fresh(left_out, name):
                    each = statistics.median(self.teams[name].run(step))
                    rounds[name] = min(MOST, step * max(1, round(seconds / (each * step))))
        return rounds

    def timings(self, rounds: Mapping[str, int], repeat: int, left_out: dict[str, str]) -> dict[str, list[float]]:
        """Return the seconds a round of every contender, in turns: A B C A B C …"""
        times: dict[str, list[float]] = {name: [] for name in rounds}
        for turn in range(repeat):
            for name, many in rounds.items():
                if name not in left_out:
                    with self.fresh(left_out, name):
                        times[name].append(statistics.mean(self.teams[name].run(many)))
            shown = "  ".join(f"{name} {each[-1]:.4f}" for name, each in times.items() if each)
            say(f"  {turn + 1} of {repeat}, s a round: {shown}")
        return {name: each for name, each in times.items() if name not in left_out}

    def close(self) -> None:
        """End all processes."""
        for team in self.teams.values():
            team.close()


def disagreements(before: float, losses: Mapping[str, float]) -> dict[str, str]:
    """Return why contenders are left out that have not learned what the library's own loop has.

    >>> sorted(disagreements(2.0, {"fedloom": 1.501, "loop": 1.5, "compiled": 1.75}))
    ['compiled']
    """
    if not losses:
        return {}
    wanted = losses.get("loop", next(iter(losses.values())))
    margin = TOLERANCE * abs(before - wanted) + ROUNDING
    return {name: f"its loss is {loss:.5f} and not {wanted:.5f}, from {before:.5f}"
            for name, loss in losses.items() if not abs(loss - wanted) <= margin}  # fmt: skip


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def missing(library: str) -> list[str]:
    """Return the packages of a library that are not installed."""
    return [package for package in LIBRARIES[library] if importlib.util.find_spec(package) is None]


def versions(libraries: list[str]) -> dict[str, str]:
    """Return the versions of what is timed."""
    packages = ["fedloom", "jax", "jaxlib", "numpy", *(p for name in libraries for p in LIBRARIES[name])]
    packages += ["llvmlite"] if importlib.util.find_spec("llvmlite") else []
    return {package: release(package) for package in packages}


def record(file: Path, device: str, seed: int, libraries: list[str], rows: list[dict[str, Any]], fresh: bool) -> None:
    """Write rows to a file; rows of other networks, libraries and batch sizes that it has stay, if they are comparable.

    Raises:
        typer.BadParameter: the file has rows of other versions or another device.
    """
    command = shlex.join(["python", "benchmarks/users_models.py", *sys.argv[1:]])
    about = {"seed": seed, "device": device, "versions": versions(libraries)}
    kept: list[dict[str, Any]] = []
    if file.exists() and not fresh:
        old = json.loads(file.read_text())
        shared = old["versions"].keys() & about["versions"].keys()
        changed = [name for name in sorted(shared) if old["versions"][name] != about["versions"][name]]
        if changed or (old["device"], old["seed"]) != (device, seed):
            what = f"other versions of {', '.join(changed)}" if changed else "another device or seed"
            raise typer.BadParameter(f"{file} has rows of {what}: give --fresh to begin it anew, or another --output")
        about["versions"] = {**old["versions"], **about["versions"]}
        mine = {identity(row) for row in rows}
        kept = [row for row in old["rows"] if identity(row) not in mine]
    stamped = [{"command": command, "date": datetime.now(UTC).isoformat(timespec="seconds"), **row} for row in rows]
    content = {"command": command, "date": datetime.now(UTC).isoformat(timespec="seconds"), **about}
    file.write_text(json.dumps({**content, "rows": kept + stamped}, indent=1) + "\n")


def identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells rows apart."""
    return row["library"], row["network"], row["batch"]


def main(
    models: Annotated[str, typer.Option(help="networks, separated by semicolons; all by default")] = "",
    libraries: Annotated[str, typer.Option(help="libraries, comma-separated")] = ",".join(LIBRARIES),
    batches: Annotated[str, typer.Option(help="batch sizes B, comma-separated")] = "8,32,128",
    only: Annotated[
        str, typer.Option(help="contenders, comma-separated")
    ] = "fedloom,loop,parallel,compiled,stacked",
    device: Annotated[str, typer.Option(help="cpu or gpu")] = "cpu",
    processes: Annotated[int | None, typer.Option(help="of contenders with several; one a core by default")] = None,
    clients: Annotated[int | None, typer.Option(help="as the network says by default")] = None,
    every: Annotated[int | None, typer.Option(help="rounds in one program of fedloom; 1, on a GPU 5")] = None,
    seconds: Annotated[float, typer.Option(help="about how long a timing takes")] = 1.0,
    repeat: Annotated[int, typer.Option(help="timings of each, in turns; the median counts")] = 3,
    quick: Annotated[bool, typer.Option(help="two clients, two batches, one timing: does everything work?")] = False,
    output: Annotated[Path | None, typer.Option(help="the file [default: results/users-models-DEVICE.json]")] = None,
    fresh: Annotated[bool, typer.Option(help="begin the file anew")] = False,
    seed: Annotated[int, typer.Option(help="of examples, weights and their order")] = 0,
) -> None:
    """Time every network, and record the seconds a round after each."""
    every = every or (5 if device == "gpu" and not quick else 1)
    where = (hardware.gpu() if device == "gpu" else hardware.cpu()) or "a GPU"
    file = output or Path(__file__).resolve().parent.parent / f"results/users-models-{hardware.slug(where)}.json"
    if quick and output is None:
        raise typer.BadParameter("--quick needs --output: its numbers are no measurement")
    os.environ["JAX_PLATFORMS"] = "cpu"  # of this process, which only draws; contenders have their own
    available = networks(device)
    named = [name.strip() for name in models.split(";") if name.strip()] or list(available)
    for name in named:
        if name not in available:
            raise typer.BadParameter(f"--models: {name!r} is none of: {'; '.join(available)}")
    chosen = [name.strip() for name in libraries.split(",")]
    for library in list(chosen):
        if library not in LIBRARIES:
            raise typer.BadParameter(f"--libraries: {library!r} is none of: {', '.join(LIBRARIES)}")
        if gone := missing(library):
            say(f"{library} is left out: {' and '.join(gone)} cannot be imported")
            chosen.remove(library)
    bad = False
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder  # nothing is compiled already
        for library in chosen:
            bench = Bench(library, device, processes or hardware.cores(), [name.strip() for name in only.split(",")])
            opened.callback(bench.close)
            for name in (name for name in named if library in available[name].libraries):
                rows = [bench.row(job, seconds, 1 if quick else repeat)
                        for job in jobs(available[name], library, device, batches, clients, every, seed, quick)]  # fmt: skip
                record(file, where, seed, chosen, rows, fresh)
                fresh = False
                bad |= any("its loss is" in why for row in rows for why in row["left_out"].values())
            bench.close()
    say(f"wrote {file}")
    if bad:
        raise SystemExit("some contenders did not learn what the library's own loop learns")


def jobs(
    network: Network,
    library: str,
    device: str,
    batches: str,
    clients: int | None,
    every: int,
    seed: int,
    quick: bool,
) -> Iterator[Job]:
    """Yield the work for each batch size."""
    for batch in map(int, batches.split(",")):
        many = clients or (2 if quick else network.clients)
        examples = 2 * batch if quick else -(-network.examples // batch) * batch
        say(f"{library}, {network.name}, B = {batch}: {many} clients of {examples} examples")
        yield Job(network.name, device, many, examples, batch, every, seed, orders(many, examples, seed))


if __name__ == "__main__":
    typer.run(main)
