"""The same weights as Flower: train one model on the same batches with both, and compare every weight after each round.

Flower runs its own server loop and its own FedAvg, with clients in NumPy, in an environment of its own: each system is
imported where it is used. Writes results/agreement.json and the table of docs/agreement.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from hardware import cores, cpu
from measure import release

if TYPE_CHECKING:
    from flwr.common import FitIns, FitRes
    from jaxtyping import Float, Int, UInt8

    from fedloom.algorithms import Method
    from fedloom.data import FederatedData
    from fedloom.engines.program import Program

    Layers = list[np.ndarray]  # W, b, W, b, W, b
    Seen = Float[np.ndarray, "1+rounds weights"]  # all weights, in the beginning and after every round

ROOT = Path(__file__).resolve().parent.parent
RECORD, PAGE = ROOT / "results" / "agreement.json", ROOT / "docs" / "agreement.md"
PEER = ROOT / ".peers" / "flower" / "bin" / "python"
MARKS = "<!-- agreement -->", "<!-- /agreement -->"
TYPES = ("float64", "float32")
LAYOUTS = {"one core": {"devices": 1}, "two cores": {"devices": 2}, "two lanes": {"devices": 1, "lanes": 2}}
SHAPES = {"hidden1": (784, 200), "hidden2": (200, 200), "output": (200, 10)}
CLIENTS, EXAMPLES, FRACTION, EPOCHS, BATCH = 10, 1000, 0.5, 2, 10


@dataclass(frozen=True)
class Case:
    """What Flower needs to do what fedloom did."""

    x: UInt8[np.ndarray, "n 28 28"]  # images, client after client
    y: Int[np.ndarray, " n"]
    sizes: Int[np.ndarray, " clients"]  # how many examples each client has
    counts: Int[np.ndarray, " clients"]  # how many it says it has
    cohorts: Int[np.ndarray, "rounds m"]
    orders: Int[np.ndarray, "rounds m epochs largest"]  # which example comes when; past a client's size, none
    start: Float[np.ndarray, " weights"]
    lr: Float[np.ndarray, ""]
    batch: Int[np.ndarray, ""]


def mistaken(case: Case) -> dict[str, Case]:
    """Mistakes that the comparison must see: clients that all count the same, examples that are not shuffled."""
    unshuffled = np.broadcast_to(np.arange(case.orders.shape[-1]), case.orders.shape)
    equal = np.ones_like(case.counts)
    return {"equal weights": replace(case, counts=equal), "not shuffled": replace(case, orders=unshuffled)}


def flat(layers: Layers, kind: str) -> Float[np.ndarray, " weights"]:
    """All weights in a row; an error where one is of another type."""
    return np.concatenate([a.ravel() for a in layers], dtype=kind, casting="no")


def unflat(weights: Float[np.ndarray, " weights"]) -> Layers:
    """Layer after layer, from a row."""
    shapes = [shape for w in SHAPES.values() for shape in (w, w[1:])]
    parts = np.split(weights, np.cumsum([np.prod(shape) for shape in shapes])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


# ---- in fedloom


def unequal(seed: int) -> FederatedData:
    """The first thousand images of MNIST, dealt to ten clients of very different sizes."""
    import fedloom as fl

    digits = fl.data.mnist()
    few = replace(digits, train=digits.train[:EXAMPLES])
    return few.partition(fl.partition.lognormal(clients=CLIENTS, sigma=0.8, least=BATCH + 1), seed=seed)


def train(program: Program, kind: str, rounds: int) -> Seen:
    """Train with fedloom, in a type."""
    state = program.init()
    cast = {layer: {k: a.astype(kind) for k, a in state.variables.params[layer].items()} for layer in SHAPES}
    states = [program.place(replace(state, variables=replace(state.variables, params=cast)))]
    for r in range(rounds):
        states.append(program.advance(states[-1], r, 1)[0])
    models = [state.variables.params for state in states]
    return np.stack([flat([np.asarray(p[layer][k][0]) for layer in SHAPES for k in "wb"], kind) for p in models])


def orders(program: Program, cohorts: Int[np.ndarray, "rounds m"]) -> Int[np.ndarray, "rounds m epochs largest"]:
    """Which of its examples each of a cohort takes, one after another: fedloom's shuffle."""
    import jax
    import jax.numpy as jnp

    from fedloom.engines.schedule import client_key
    from fedloom.shuffle import shuffle, words

    sizes, epochs, seed = program.data.clients["train"].size, program.method.local.batches.epochs[0], program.seeds[0]

    def one(r: jax.Array, k: jax.Array, n: jax.Array) -> jax.Array:
        key, places = words(client_key(seed, r, k)), jnp.arange(sizes.max())
        return jax.vmap(lambda epoch: shuffle(places, n, key, epoch))(jnp.arange(int(epochs)))

    every = jax.jit(jax.vmap(jax.vmap(one, (None, 0, 0))))
    return np.asarray(every(np.arange(len(cohorts), dtype=np.int32), cohorts, sizes[cohorts]))


def case(program: Program, start: Float[np.ndarray, " weights"], rounds: int, lr: float, batch: int) -> Case:
    """What a program was given."""
    data, cohorts = program.data, program.cohorts(0, rounds)[:, 0]
    sizes, rows = data.clients["train"].size, np.concatenate([data.examples("train", k) for k in range(len(data))])
    x, y, taken = data.columns["x"][rows], data.columns["y"][rows], orders(program, cohorts)
    return Case(x, y, sizes, sizes, cohorts, taken, start, np.array(lr), np.array(batch))


def ours(kind: str, layouts: list[str], rounds: int, seed: int, lr: float) -> tuple[dict[str, Seen], dict[str, Case]]:
    """The weights in every layout, and in a round in which all take one step; and what Flower is to do."""
    import jax

    import fedloom as fl

    jax.config.update("jax_enable_x64", kind == "float64")
    several = fl.fedavg(fraction=FRACTION, epochs=EPOCHS, batch_size=BATCH, lr=lr)
    single = fl.fedavg(fraction=1.0, epochs=1, batch_size=EXAMPLES, lr=lr)

    def program(layout: str, algorithm: Method) -> Program:
        return fl.engines.compiled(**LAYOUTS[layout]).program(unequal(seed), fl.tasks.two_nn(), [algorithm], [seed])

    programs = {layout: program(layout, several) for layout in layouts}
    step = program("one core", single)
    seen = {layout: train(p, kind, rounds) for layout, p in programs.items()} | {"one step": train(step, kind, 1)}
    whole = case(programs["one core"], seen["one core"][0], rounds, lr, BATCH)
    cases = {"one core": whole, "one step": case(step, seen["one step"][0], 1, lr, EXAMPLES)}
    return seen, cases | (mistaken(whole) if kind == "float64" else {})


# ---- in Flower, with NumPy


def gradient(layers: Layers, x: np.ndarray, y: np.ndarray) -> Layers:
    """∇ of the batch's mean cross-entropy, for h₁ = relu(x·W₁ + b₁), h₂ = relu(h₁·W₂ + b₂), logits = h₂·W₃ + b₃."""
    w1, b1, w2, b2, w3, b3 = layers
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    logits = h2 @ w3 + b3
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    d3 = e / e.sum(axis=1, keepdims=True)
    d3[np.arange(len(y)), y] -= 1
    d3 /= len(y)
    d2 = (d3 @ w3.T) * (h2 > 0)
    d1 = (d2 @ w2.T) * (h1 > 0)
    return [x.T @ d1, d1.sum(axis=0), h1.T @ d2, d2.sum(axis=0), h2.T @ d3, d3.sum(axis=0)]


@dataclass(frozen=True)
class Client:
    """One of a round's cohort, as Flower's server sees it."""

    case: Case
    round: int
    place: int

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:  # noqa: ARG002
        """W ← W - η ∇ℓ(W; b) for every batch b of every epoch."""
        from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays

        case, k, kind = self.case, self.case.cohorts[self.round, self.place], self.case.start.dtype.type
        layers, first = parameters_to_ndarrays(ins.parameters), case.sizes[:k].sum()
        for order in case.orders[self.round, self.place, :, : case.sizes[k]]:
            for rows in np.split(first + order, range(case.batch, len(order), case.batch)):
                x = case.x[rows].reshape(len(rows), -1).astype(kind) / 255
                layers = [w - kind(case.lr) * g for w, g in zip(layers, gradient(layers, x, case.y[rows]), strict=True)]
        return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(layers), int(case.counts[k]), {})


def federate(case: Case) -> Seen:
    """Train with Flower's server loop and its FedAvg."""
    from flwr.common import FitIns, ndarrays_to_parameters
    from flwr.server import Server, SimpleClientManager
    from flwr.server.strategy import FedAvg

    class Given(FedAvg):
        """FedAvg of the given cohorts; adds replies up in order, not as they come; no failure passes."""

        def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:  # noqa: ARG002
            places = range(case.cohorts.shape[1])
            return [(Client(case, server_round - 1, place), FitIns(parameters, {})) for place in places]

        def aggregate_fit(self, server_round: int, results: list[Any], failures: list[Any]) -> Any:
            if failures:
                raise SystemExit(f"a client of Flower failed: {failures[0]!r}")
            return super().aggregate_fit(server_round, sorted(results, key=lambda r: r[0].place), failures)

    seen: list[np.ndarray] = []
    strategy = Given(
        fraction_evaluate=0.0,
        initial_parameters=ndarrays_to_parameters(unflat(case.start)),
        evaluate_fn=lambda _, layers, __: seen.append(flat(layers, str(case.start.dtype))),
    )
    Server(client_manager=SimpleClientManager(), strategy=strategy).fit(num_rounds=len(case.cohorts), timeout=None)
    return np.stack(seen)


def flower(folder: Path) -> None:
    """Do the folder's cases, NAME.npz, and leave their weights in NAME.npy; to be called in Flower's environment."""
    import flwr  # noqa: F401  # which sets its logger to tell everything

    logging.getLogger("flwr").setLevel(logging.ERROR)
    for file in folder.glob("*.npz"):
        with np.load(file) as arrays:
            np.save(file.with_suffix(".npy"), federate(Case(**arrays)))


def theirs(python: Path, cases: dict[str, Case]) -> dict[str, Seen]:
    """Flower's weights in every case."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, given in cases.items():
            np.savez(folder / f"{name}.npz", **vars(given))
        words = "import pathlib, sys, agreement; agreement.flower(pathlib.Path(sys.argv[1]))"
        subprocess.run([python, "-c", words, folder], check=True, cwd=Path(__file__).parent)
        return {name: np.load(folder / f"{name}.npy") for name in cases}


# ---- the comparison


def apart(one: Seen, other: Seen) -> list[float]:
    """The largest difference of any weight, after each round."""
    return np.abs(one.astype(np.float64) - other).max(axis=1)[1:].tolist()


def compared(ours: dict[str, Seen], theirs: dict[str, Seen]) -> dict[str, Any]:
    """How far fedloom is from Flower; one core from two; Flower's end from its start, and from that with a mistake."""
    flower, layouts = theirs["one core"], [name for name in ours if name in LAYOUTS]
    return {
        "after_one_step": apart(ours["one step"], theirs["one step"])[0],
        "after_each_round": {name: apart(ours[name], flower) for name in layouts},
        "one_core_against_two": apart(ours["one core"], ours["two cores"]) if "two cores" in ours else [],
        "moved": apart(flower, flower[:1]),
        "mistakes": {name: apart(theirs[name], flower) for name in theirs if name not in ours},
    }


def table(record: dict[str, Any]) -> str:
    """The record's numbers as a table, for the page."""
    rounds, (wide, narrow) = record["setting"]["rounds"], (record[kind] for kind in TYPES)
    rows = {f"{kind}: fedloom, {layout}, and Flower": numbers
            for kind in TYPES for layout, numbers in record[kind]["after_each_round"].items()}  # fmt: skip
    rows["float32: fedloom, one core, and fedloom, two cores"] = narrow["one_core_against_two"]
    rows |= {f"float64: Flower, and Flower with a mistake ({name})": n for name, n in wide["mistakes"].items()}
    rows["how far training has moved a weight, at most"] = wide["moved"]
    cells = [["largest difference of a weight after round", *map(str, range(1, rounds + 1))], ["---"] * (1 + rounds)]
    cells += [[name, *(f"{n:.1e}" for n in numbers)] for name, numbers in rows.items() if numbers]
    steps = ", ".join(f"{record[kind]['after_one_step']:.1e} in {kind}" for kind in TYPES)
    used = "; ".join(f"{name}: " + ", ".join(map(" ".join, v.items())) for name, v in record["versions"].items())
    about = f"Recorded {record['date'][:10]}, seed {record['seed']}, on {record['device']}: `{record['command']}`."
    lines = ["| " + " | ".join(line) + " |" for line in cells]
    return "\n".join([*lines, "", f"After one step: at most {steps}.", "", f"{about} Versions: {used}."])


def measured(python: Path, layouts: list[str], rounds: int, seed: int, lr: float) -> dict[str, Any]:
    """The record: both systems, in both types."""
    import fedloom as fl

    ask = [python, "-c", "from importlib.metadata import version; print(version('flwr'), version('numpy'))"]
    told = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.split()
    used = {"fedloom": fl.__version__} | {name: release(name) for name in ("jax", "jaxlib", "numpy")}
    record: dict[str, Any] = {
        "command": shlex.join(["python", "benchmarks/agreement.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "device": cpu(),
        "versions": {"fedloom": used, "Flower": dict(zip(("flwr", "numpy"), told, strict=True))},
    }
    for kind in TYPES:
        seen, cases = ours(kind, layouts, rounds, seed, lr)
        record[kind] = compared(seen, theirs(python, cases))
    given = cases["one core"]
    work = {"fraction": FRACTION, "epochs": EPOCHS, "batch_size": BATCH, "lr": lr, "rounds": rounds}
    about = {"model": "2nn", "weights": given.start.size, "data": "mnist", "client_sizes": given.sizes.tolist()}
    return record | {"setting": about | work}


def main() -> None:
    """Train with both, compare every weight, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds to compare [default: 5]")
    parser.add_argument("--seed", type=int, default=0, help="of the clients, cohorts, batches, weights [default: 0]")
    parser.add_argument("--lr", type=float, default=0.1, help="the clients' learning rate [default: 0.1]")
    parser.add_argument("--quick", action="store_true", help="fedloom on one core only; print, but write nothing")
    options = parser.parse_args()
    python = Path(sys.executable) if find_spec("flwr") else PEER
    if not python.exists():
        parser.error("Flower must be installed in .peers/flower or beside fedloom, but is not: run benchmarks/peers.sh")
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "FLWR_TELEMETRY_ENABLED": "0", "JAX_PLATFORMS": "cpu"}
    layouts = ["one core"] if options.quick else [name for name, how in LAYOUTS.items() if how["devices"] <= cores()]
    text = json.dumps(record := measured(python, layouts, options.rounds, options.seed, options.lr), indent=1)
    print(text)
    if not options.quick:
        RECORD.write_text(text + "\n")
        before, rest = PAGE.read_text().split(MARKS[0])
        PAGE.write_text(f"{before}{MARKS[0]}\n{table(record)}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    main()
