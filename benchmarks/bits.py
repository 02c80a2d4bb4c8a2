"""Three participants and a server, each a process, train MNIST to 97 % over loopback with mutual TLS; and the compiled
engine the same, client after client on the same CPU: are the models the same, bit for bit?
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from crashes import gather
from safetensors.numpy import load_file
from served import Served, keys
from timing import keep

import fedloom as fl
from fedloom.trees import flatten, member

NAMES = ["a", "b", "c"]


def served(home: Path, target: float) -> tuple[dict[str, np.ndarray], int, float]:
    """The final model of the run over the network, its rounds, and its seconds."""
    options = ["--fraction", "1", "--begin", "3", "--quorum", "1", "--rounds", "100", "--target", str(target)]
    data = ["--data", "mnist", "--partition", "iid", "--clients", "3"]
    run = Served(home / "run", keys(home / "keys", NAMES), options, data)
    try:
        run.serve(cold=True)
        run.until(lambda events: any(e["event"] == "serving" for e in events) or None)
        start = time.perf_counter()
        gather(run, NAMES)
        assert not any(run.end()["codes"].values()), "somebody did not end well"
        closed = [event for event in run.events() if event["event"] == "closed"]
        print(f"{len(closed)} rounds, test accuracy {closed[-1]['test_accuracy']:.4f}")
        return load_file(home / "run" / "served" / "model.safetensors"), len(closed), time.perf_counter() - start
    finally:
        run.stop()


def compiled(rounds: int) -> dict[str, np.ndarray]:
    """The model after as many rounds in one program, client after client."""
    data = fl.data.mnist().partition(fl.partition.iid(3))
    program = fl.engines.compiled(devices=1).program(data, fl.tasks.two_nn(), [fl.fedavg(fraction=1.0)], [0])
    state, _ = program.advance(program.init(), 0, rounds)
    return flatten(member(state.variables, 0))


def main(target: Annotated[float, typer.Option(help="test accuracy")] = 0.97) -> None:
    """Train twice, compare, and record."""
    with tempfile.TemporaryDirectory() as home:
        model, rounds, seconds = served(Path(home), target)
    wanted = compiled(rounds)
    differ = {name: int((model[name] != wanted[name]).sum()) for name in wanted}
    apart = max(float(np.abs(model[name] - wanted[name]).max()) for name in wanted)
    print(f"numbers that differ: {differ}; largest difference {apart:g}")
    keep("bits", target=target, rounds=rounds, seconds=seconds, differ=differ, largest_difference=apart)


if __name__ == "__main__":
    typer.run(main)
