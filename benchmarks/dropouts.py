"""Kill three in ten participants with `kill -9` at random moments of every second round, and start them again after it:
how long rounds take with and without, side by side in one run over loopback with mutual TLS.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from served import Event, free_port, keys, said
from timing import keep

from fedloom.federation.joining import Way, joined
from fedloom.federation.outbox import Trained
from fedloom.federation.rules import Rules
from fedloom.federation.schema import Schema
from fedloom.federation.wire_pb2 import Welcome

SIZE = 10_000  # numbers of the model


def nothing(*_: Any) -> Any:
    """Never called: participants only pretend to train."""
    raise AssertionError


def serve(folder: Path, proof: Path, port: int, fraction: float, rules: Rules, rounds: int) -> None:
    """The server."""
    import jax.numpy as jnp

    import fedloom as fl
    from fedloom.federation import serve
    from fedloom.runs.stopping import Stop
    from fedloom.tasks.task import Task, Variables

    task = Task("pretended", lambda key: Variables({"w": jnp.zeros(SIZE)}, {}), nothing, nothing)  # noqa: ARG005
    serve(task, fl.fedavg(fraction=fraction), folder=folder, address=f"127.0.0.1:{port}", keys=proof, rules=rules,
          stop=Stop(rounds))  # fmt: skip


@dataclass
class Pretended:
    """Local work that only takes time: some seconds, more or less by a share."""

    seconds: float
    spread: float
    number: int = -1
    examples: int = 10
    model_schema = Schema.of({"variables.params.w": np.zeros(SIZE, np.float32)})
    update_schema = Schema.of({"update.params.w": np.zeros(SIZE, np.float32)})

    def prepare(self, welcome: Welcome) -> None:
        """Know one's number."""
        self.number = welcome.number

    def train(
        self,
        round: int,
        model: Mapping[str, np.ndarray],  # noqa: ARG002
        kept: Mapping[str, np.ndarray],  # noqa: ARG002
        seconds: float | None = None,  # noqa: ARG002
    ) -> Trained:
        """Take some time."""
        draw = np.random.default_rng([self.number, round])
        time.sleep(self.seconds * (1 + self.spread * draw.uniform(-1, 1)))
        return Trained({"update.params.w": draw.normal(size=SIZE).astype(np.float32)}, 10, {}, {}, {})


def participate(server: str, folder: Path, proof: Path, seconds: float, spread: float) -> None:
    """A participant."""
    asyncio.run(joined(Pretended(seconds, spread), Way(server, folder, proof), "a benchmark"))


class Crowd:
    """Participants, each a process of its own, forked from one that has imported everything."""

    def __init__(self, home: Path, port: int, names: list[str], seconds: float, spread: float) -> None:
        self.context: ForkServerContext = multiprocessing.get_context("forkserver")
        path = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))  # where the process that is forked finds this
        self.context.set_forkserver_preload(["dropouts"])
        self.home, self.port, self.work = home, port, (seconds, spread)
        self.processes: dict[str, ForkServerProcess] = {}
        for name in names:
            self.start(name)

    def start(self, name: str) -> None:
        """Start one, or start it again."""
        arguments = (f"localhost:{self.port}", self.home / "joined" / name, self.home / "keys" / name, *self.work)
        self.processes[name] = process = self.context.Process(target=participate, args=arguments, daemon=True)
        process.start()

    def kill(self, name: str) -> None:
        """End one without any farewell."""
        self.processes[name].kill()
        self.processes[name].join()


def opened(events: list[Event]) -> dict[int, Event]:
    """The first beginning of each round, by number."""
    return {event["round"]: event for event in reversed(events) if event["event"] == "round"}


def disturbed(folder: Path, crowd: Crowd, rounds: int, share: float, seconds: float, draw: random.Random) -> list[int]:
    """Wait for the end; in every second round, kill a share of all participants. How many it was, round by round."""
    hit = []
    for number in range(rounds):
        while number not in opened(said(folder)):
            time.sleep(0.005)
        if number % 2 == 0:
            continue
        began = opened(said(folder))[number]["time"]
        doomed = draw.sample(sorted(crowd.processes), round(share * len(crowd.processes)))
        for moment, name in sorted((draw.uniform(0, 0.9 * seconds), name) for name in doomed):
            time.sleep(max(0.0, began + moment - time.time()))
            crowd.kill(name)
        hit.append(len(doomed))
        while not any(event["event"] == "closed" and event["round"] == number + 1 for event in said(folder)):
            time.sleep(0.005)
        for name in doomed:
            crowd.start(name)
    return hit


def measured(events: list[Event], rounds: int, warm: int) -> dict[str, Any]:
    """Seconds of rounds with and without kills: from their beginning to their end, and to the beginning of the next."""
    began, found = opened(events), dict[str, Any]()
    ended = {event["round"] - 1: event for event in events if event["event"] == "closed"}
    for name, odd in (("undisturbed", 0), ("disturbed", 1)):
        which = [number for number in range(warm, rounds - 1) if number % 2 == odd]
        found[name] = {
            "rounds": len(which),
            "seconds": statistics.median(ended[n]["time"] - began[n]["time"] for n in which),
            "seconds_until_the_next": statistics.median(began[n + 1]["time"] - began[n]["time"] for n in which),
            "longest": max(began[n + 1]["time"] - began[n]["time"] for n in which),
            "updates": statistics.mean(ended[n]["replies"] for n in which),
            "asked": statistics.mean(ended[n]["asked"] for n in which),
        }
    for name in ("seconds", "seconds_until_the_next"):
        found[f"{name}_ratio"] = round(found["disturbed"][name] / found["undisturbed"][name], 3)
    found["void"] = sum(event["event"] == "void" for event in events)
    return found


def main(
    participants: Annotated[int, typer.Option(help="how many")] = 10,
    fraction: Annotated[float, typer.Option(help="of them that a round needs")] = 0.7,
    over: Annotated[float, typer.Option(help="how many more are asked, as a factor")] = 1.3,
    share: Annotated[float, typer.Option(help="of all that are killed in every second round")] = 0.3,
    seconds: Annotated[float, typer.Option(help="that local work takes")] = 5.0,
    spread: Annotated[float, typer.Option(help="by which it is longer or shorter, as a share")] = 0.1,
    rounds: Annotated[int, typer.Option(help="half of them with kills")] = 40,
    seed: Annotated[int, typer.Option(help="of who is killed when")] = 0,
    recorded: Annotated[bool, typer.Option(help="record what is found")] = True,
) -> None:
    """Measure rounds with and without dropouts."""
    rules = Rules(begin=participants, over=over)
    with tempfile.TemporaryDirectory() as temporary:
        home, port = Path(temporary), free_port()
        names = [f"p{i}" for i in range(participants)]
        proof = keys(home / "keys", names) / "server"
        server = multiprocessing.get_context("spawn").Process(
            target=serve, args=(home / "served", proof, port, fraction, rules, rounds), daemon=True
        )
        server.start()
        crowd = Crowd(home, port, names, seconds, spread)
        try:
            hit = disturbed(home / "served", crowd, rounds, share, seconds, random.Random(seed))
            server.join(120)
            found = measured(said(home / "served"), rounds, warm=2)
        finally:
            for name in names:
                crowd.kill(name)
            server.kill()
    load = round(os.getloadavg()[0], 1)
    print(found)
    if recorded:
        keep("dropouts", participants=participants, fraction=fraction, over=over, share=share, seconds=seconds,
             spread=spread, rounds=rounds, killed=sum(hit), load=load, **found)  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
