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
from contextlib import closing, contextmanager
from dataclasses import dataclass
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
CONTENDERS = ("fedloom", "loop", "parallel", "compiled", "stacked")
DRAWN = 16  # rounds whose orders of examples are drawn; later rounds begin with the first again
MOST = 200  # rounds in a timing
TOLERANCE = 0.05  # by which losses may differ, of what the first rounds gain
ROUNDING = 0.001  # of the loss, by which rounding may move it: deep networks with small batches amplify it
ONE_THREAD = ("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
AVX2 = {
    "FEDLOOM_KERNELS": "avx2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
"""Environment variables that keep fedloom, XLA and PyTorch from wider instructions than AVX2."""


def contenders(library: str, device: str, processes: int) -> dict[str, Contender]:
    """Return what is timed for a library, by name.

    ``loop`` is the library's own loop in one process; ``parallel`` the same in several; ``compiled`` is what the
    library compiles: ``torch.compile`` in several processes (on a GPU in one), ``fit`` of Keras or the step of Flax in
    one process with all threads; ``stacked`` trains all clients side by side in a CUDA graph.
    """
    gpu = device == "gpu"
    jax = (("JAX_PLATFORMS", "cuda,cpu" if gpu else "cpu"), ("KERAS_BACKEND", "jax"), ("TF_CPP_MIN_LOG_LEVEL", "3"))
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
        self.wrong: list[str] = []

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
        say(f"{self.library}, {job.network}, B = {job.batch}: {job.clients} clients of {job.examples} examples")
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
            self.wrong.append(f"{name} ({self.library}, {job.network}, B = {job.batch})")
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
        self.teams.clear()


def disagreements(before: float, losses: Mapping[str, float]) -> dict[str, str]:
    """Return why contenders are left out that have not learned what the library's own loop has.

    >>> sorted(disagreements(2.0, {"fedloom": 1.501, "loop": 1.5, "compiled": 1.75}))
    ['compiled']
    """
    if not losses:
        return {}
    wanted = losses.get("loop", next(iter(losses.values())))
    margin = TOLERANCE * abs(before - wanted) + ROUNDING * wanted
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


@dataclass
class Record:
    """The file of a table, which is written after every network.

    Args:
        file: where it is written.
        about: the device, the seed and the versions.
        rows: what is measured: (library, network, B) → row.
    """

    file: Path
    about: dict[str, Any]
    rows: dict[tuple[str, str, int], dict[str, Any]]

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Add rows, in the place of earlier ones of the same networks and batch sizes, and write the file."""
        command = shlex.join(["python", "benchmarks/users_models.py", *sys.argv[1:]])
        stamp = {"command": command, "date": datetime.now(UTC).isoformat(timespec="seconds")}
        self.rows |= {identity(row): {**stamp, **row} for row in rows}
        content = {**stamp, **self.about, "rows": list(self.rows.values())}
        self.file.write_text(json.dumps(content, indent=1) + "\n")


def begin(file: Path, about: dict[str, Any], fresh: bool) -> Record:
    """Return the record of a file, with the rows that it has.

    Raises:
        typer.BadParameter: the file has rows of other versions, another device or another seed.
    """
    if fresh or not file.exists():
        return Record(file, about, {})
    old = json.loads(file.read_text())
    shared = sorted(old["versions"].keys() & about["versions"].keys())
    changed = [name for name in shared if old["versions"][name] != about["versions"][name]]
    changed += [name for name in ("device", "seed") if old[name] != about[name]]
    if changed:
        what = f"{file} has rows measured with another {', '.join(changed)}"
        raise typer.BadParameter(f"{what}: begin it anew with --fresh, or choose another file with --output")
    known = {**about, "versions": {**old["versions"], **about["versions"]}}
    return Record(file, known, {identity(row): row for row in old["rows"]})


def identity(row: Mapping[str, Any]) -> tuple[str, str, int]:
    """Return what tells rows apart."""
    return row["library"], row["network"], row["batch"]


def chosen_networks(models: str, device: str) -> dict[str, Network]:
    """Return the networks that were asked for."""
    available = networks(device)
    named = [name.strip() for name in models.split(";") if name.strip()] or list(available)
    for name in named:
        if name not in available:
            raise typer.BadParameter(f"--models: {name!r} is none of: {'; '.join(available)}")
    return {name: available[name] for name in named}


def chosen_libraries(libraries: str) -> list[str]:
    """Return the libraries that were asked for and are installed."""
    chosen = [name.strip() for name in libraries.split(",")]
    for library in list(chosen):
        if library not in LIBRARIES:
            raise typer.BadParameter(f"--libraries: {library!r} is none of: {', '.join(LIBRARIES)}")
        if gone := missing(library):
            say(f"{library} is left out: {' and '.join(gone)} cannot be imported")
            chosen.remove(library)
    return chosen


def jobs(
    network: Network, device: str, batches: str, clients: int | None, every: int, seed: int, quick: bool
) -> list[Job]:
    """Return the work for each batch size."""
    found = []
    for batch in map(int, batches.split(",")):
        many = clients or (2 if quick else network.clients)
        examples = 2 * batch if quick else -(-network.examples // batch) * batch
        found.append(Job(network.name, device, many, examples, batch, every, seed, orders(many, examples, seed)))
    return found


def main(
    models: Annotated[str, typer.Option(help="networks, separated by semicolons; all by default")] = "",
    libraries: Annotated[str, typer.Option(help="libraries, comma-separated")] = ",".join(LIBRARIES),
    batches: Annotated[str, typer.Option(help="batch sizes B, comma-separated")] = "8,32,128",
    only: Annotated[str, typer.Option(help="contenders, comma-separated")] = ",".join(CONTENDERS),
    device: Annotated[str, typer.Option(help="cpu or gpu")] = "cpu",
    processes: Annotated[int | None, typer.Option(help="of contenders with several; one a core by default")] = None,
    clients: Annotated[int | None, typer.Option(help="how many train in a round; by default the network's")] = None,
    every: Annotated[int | None, typer.Option(help="rounds in one program of fedloom [default: 1, on a GPU 5]")] = None,
    seconds: Annotated[float, typer.Option(help="about how long a timing takes")] = 1.0,
    repeat: Annotated[int, typer.Option(help="timings of each, in turns; the median counts")] = 3,
    quick: Annotated[bool, typer.Option(help="two clients, two batches, one timing: does everything work?")] = False,
    avx2: Annotated[bool, typer.Option("--avx2", help="PyTorch and fedloom without AVX-512")] = False,
    output: Annotated[Path | None, typer.Option(help="the file [default: results/users-models-DEVICE.json]")] = None,
    fresh: Annotated[bool, typer.Option(help="begin the file anew")] = False,
    seed: Annotated[int, typer.Option(help="of examples, weights and their order")] = 0,
) -> None:
    """Time every network, and record the seconds a round after each."""
    if device not in ("cpu", "gpu"):
        raise typer.BadParameter(f"--device: {device!r} is neither cpu nor gpu")
    if avx2 and (device, libraries) != ("cpu", "PyTorch"):
        raise typer.BadParameter("--avx2: only with --device cpu and --libraries PyTorch")
    if quick and output is None:
        raise typer.BadParameter("--quick needs --output: its numbers are no measurement")
    where = hardware.cpu() if device == "cpu" else hardware.gpu()
    if where is None:
        raise typer.BadParameter("--device gpu: nvidia-smi shows no GPU")
    os.environ["JAX_PLATFORMS"] = "cpu"  # of this process, which trains nothing; contenders have their own
    chosen, libs = chosen_networks(models, device), chosen_libraries(libraries)
    name = f"users-models-{hardware.slug(where)}{'.avx2' if avx2 else ''}.json"
    file = output or Path(__file__).resolve().parent.parent / "results" / name
    about: dict[str, Any] = {"seed": seed, "device": where, "versions": versions(libs)}
    if avx2:
        os.environ.update(AVX2)
        about["instructions"] = "AVX2"
    record = begin(file, about, fresh)
    every = every or (5 if device == "gpu" and not quick else 1)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder  # nothing is compiled already
        for library in libs:
            with closing(Bench(library, device, processes or hardware.cores(), only.split(","))) as bench:
                for network in (n for n in chosen.values() if library in n.libraries):
                    work = jobs(network, device, batches, clients, every, seed, quick)
                    record.add([bench.row(job, seconds, 1 if quick else repeat) for job in work])
                wrong += bench.wrong
    say(f"wrote {file}")
    if wrong:
        raise SystemExit(f"did not learn what the library's own loop learns: {'; '.join(wrong)}")


if __name__ == "__main__":
    typer.run(main)
