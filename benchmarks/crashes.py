"""Kill a server with `kill -9` at every named moment and at random ones, and participants too; compare every round with
the run left alone.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from served import Served, keys
from timing import keep

NAMES = ["a", "b", "c"]
EXPERIMENT = ["--model", "logistic", "--batch-size", "100", "--fraction", "1", "--server", "momentum",
              "--server-lr", "0.5", "--target", "none"]  # fmt: skip
RULES = ["--begin", "3", "--quorum", "1"]
DATA = ["--data", "mnist", "--partition", "iid", "--clients", "3"]
JOINING = "a participant joins"
STARTING = ("the journal is made", "the run begins", JOINING)  # of a run, or of every life of its server
WINDOW = 1.0  # seconds of work, within which the random moments are
STARTUP = 2.0  # seconds of starting, within which some of them are
console = Console()


def federation(home: Path, name: str, rounds: int) -> Served:
    """A run that has not begun."""
    return Served(home / name, home / "keys", [*EXPERIMENT, *RULES, "--rounds", str(rounds)], DATA)


def gather(run: Served, names: list[str]) -> None:
    """Let participants come, one after the other, so that their numbers are always the same."""
    for name in names:
        run.join(name)
        run.until(lambda events, name=name: any(e["event"] == "came" and e["name"] == name for e in events) or None)


def left_alone(home: Path, rounds: int) -> tuple[dict[int, tuple[str, str]], Counter[str], float]:
    """The run without any crash: what it has after each round, which moments come how often, and seconds a round."""
    run = federation(home, "alone", rounds)
    try:
        run.serve(points=home / "moments")
        run.until(lambda events: any(e["event"] == "serving" for e in events) or None)
        gather(run, NAMES)
        check(run.end())
        times = [event["time"] for event in run.events() if event["event"] == "closed"]
        spacing = statistics.median(b - a for a, b in pairwise(times))
        return run.rounds(), Counter((home / "moments").read_text().splitlines()), spacing
    finally:
        run.stop()


def check(end: dict[str, Any]) -> None:
    """Everybody must have ended well, with the same model."""
    assert not any(end["codes"].values()) and end["models"] == 1, end


def named(points: Counter[str], draw: random.Random) -> list[str]:
    """Moments in the order in which they can be tried in one run: each at its first time, and at a later one."""
    begin = [f"before {STARTING[0]}", f"after {STARTING[0]}"]
    files = [name for name in points if name.startswith("a file ")]
    begin += [*files, f"before {STARTING[1]}", f"after {STARTING[1]}"]
    begin += [f"before {JOINING}", f"after {JOINING}", f"before {JOINING}@2", f"after {JOINING}"]
    rest = [name for name in points if not name.endswith(STARTING)]
    return begin + [f"{name}{time}" for name in rest for time in ("", f"@{draw.randint(2, 7)}")]


def crash_at_points(run: Served, cases: list[str]) -> list[dict[str, Any]]:
    """A run whose server crashes at one moment after another."""
    found: list[dict[str, Any]] = []
    here = 0
    for case in cases:
        run.serve(crash=case)
        if here < len(NAMES) and JOINING in case:
            wanted = [NAMES[here]] if "@2" not in case else NAMES[here : here + 2]
            run.until(lambda events: any(e["event"] == "serving" for e in events) or None)
            for name in wanted:
                if name not in run.clients:
                    run.join(name)
                    run.until(lambda events, name=name: any(
                        e["event"] == "came" and e["name"] == name for e in events) or None)  # fmt: skip
            here += len(wanted) - case.startswith("before")
        assert run.server is not None
        code = run.server.wait(300)
        found.append({"moment": case, "code": code, "seconds": run.on(run.now()), "round": len(safe_rounds(run))})
        console.print(found[-1])
        assert code == -9, f"{case} never came"
    run.serve()
    return found


def safe_rounds(run: Served) -> dict[int, tuple[str, str]]:
    """The rounds so far; none before there is a journal."""
    import sqlite3

    try:
        return run.rounds()
    except sqlite3.OperationalError:
        return {}


def crash_at_random(run: Served, kills: int, draw: random.Random) -> list[dict[str, Any]]:
    """A run whose server is killed while it works or, one time in five, while it starts."""
    found: list[dict[str, Any]] = []
    run.serve()
    run.until(lambda events: any(e["event"] == "serving" for e in events) or None)
    gather(run, NAMES)
    cold = False
    for i in range(kills):
        starting = i % 5 == 4
        moment = draw.uniform(0, STARTUP if starting else WINDOW)
        seconds = None
        if starting:
            time.sleep(max(0.0, run.spawned + moment - time.time()))
        else:
            seconds = run.until(run.on)
            assert seconds is not None, "the run was over before its last kill: more rounds are needed"
            time.sleep(moment)
        before = len(safe_rounds(run))
        run.kill()
        found.append({"while": "starting" if starting else "working", "after": round(moment, 3), "round": before,
                      "cold": cold, "seconds": seconds if i else None})  # fmt: skip
        console.print(found[-1])
        cold = i % 10 == 6
        run.serve(cold=cold)
    found.append({"while": "left alone", "cold": cold, "seconds": run.until(run.on)})
    return found


def crash_participants(run: Served, kills: int, draw: random.Random) -> list[dict[str, Any]]:
    """A run whose participants are killed, one after the other."""
    found: list[dict[str, Any]] = []
    run.serve()
    run.until(lambda events: any(e["event"] == "serving" for e in events) or None)
    gather(run, NAMES)
    run.until(run.on)
    for _ in range(kills):
        time.sleep(draw.uniform(0, WINDOW))
        name, seen = draw.choice(NAMES), len(run.now())
        run.clients[name].kill()
        run.clients[name].wait()
        start = time.time()
        run.join(name)

        def back(events: list[dict[str, Any]], name: str = name, seen: int = seen) -> float | None:
            at = [i for i, e in enumerate(events) if i >= seen and e["event"] == "came" and e["name"] == name]
            later = [e["time"] for e in events[at[-1] :] if e["event"] == "closed"] if at else []
            return later[0] if later else None

        on = run.until(back)
        assert on is not None, "the run was over before its last kill: more rounds are needed"
        found.append({"name": name, "seconds": round(on - start, 2), "round": len(run.rounds())})
        console.print(found[-1])
    return found


def ended(run: Served, reference: dict[int, tuple[str, str]]) -> dict[str, Any]:
    """The run's end, compared with that of the run left alone."""
    check(run.end())
    rounds = run.rounds()
    same = rounds == reference
    redone = {name: run.trained(name) - len(rounds) for name in run.names}
    begun = max(run.attempts().values())
    model = rounds[max(rounds)][1]
    found = {"same": same, "model": model, "begun_at_most": begun, "local_work_redone": redone}
    console.print(found)
    return found


def summary(seconds: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Median and largest."""
    if not seconds:
        return {}
    return {
        name: {"median": statistics.median(s[name] for s in seconds), "largest": max(s[name] for s in seconds)}
        for name in seconds[0]
    }


def main(
    rounds: Annotated[int, typer.Option(help="of the run")] = 250,
    kills: Annotated[int, typer.Option(help="of the server, at random moments")] = 50,
    participants: Annotated[int, typer.Option(help="kills of participants")] = 12,
    seed: Annotated[int, typer.Option(help="of the moments")] = 0,
) -> None:
    """Kill everybody at every moment, and compare every round with that of the run left alone."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        keys(home / "keys", NAMES)
        reference, points, spacing = left_alone(home, rounds)
        console.print(dict(points), f"{spacing:.3f} s a round")
        found: dict[str, Any] = {}
        for name, kill in {
            "points": lambda run: crash_at_points(run, named(points, draw)),
            "random": lambda run: crash_at_random(run, kills, draw),
            "participants": lambda run: crash_participants(run, participants, draw),
        }.items():
            run = federation(home, name, rounds)
            try:
                each = kill(run)
                found[name] = {**ended(run, reference), "kills": each}
            finally:
                run.stop()
            record(rounds, spacing, reference[rounds - 1][1], points, found)


def record(rounds: int, spacing: float, model: str, points: Counter[str], found: dict[str, Any]) -> None:
    """Record what has been found so far."""
    server = [kill for name in ("points", "random") for kill in found.get(name, {"kills": []})["kills"]]
    seconds = [kill["seconds"] for kill in server if kill["seconds"]]
    cold = [kill["seconds"] for kill in server if kill["seconds"] and kill.get("cold")]
    after = [round(one["goes_on"] - one["listens"], 2) for one in seconds]
    keep(
        "crashes", experiment=[*EXPERIMENT, *RULES], rounds=rounds, clients=len(NAMES),
        seconds_a_round=round(spacing, 3), model=model, moments=dict(points),
        kills_of_the_server=sum("left alone" not in kill.values() for kill in server),
        seconds_from_restart=summary(seconds), seconds_from_listening={"median": statistics.median(after),
        "largest": max(after)}, seconds_from_cold_restart=summary(cold), load=round(os.getloadavg()[0], 1), **found,
    )  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
