"""Tally: what ranks tell at a meeting, and what rank 0 makes of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedloom.engines.exchange import Served
from fedloom.engines.store import GLOBAL, NOBODYS, is_mixed
from fedloom.runs.history import History
from fedloom.runs.order import Prepared

Measured = dict[str, dict[int, dict[str, float]]]
"""Part → worker → metric (and ``count``) → its sum over the worker's examples of the part."""


@dataclass(frozen=True)
class Report:
    """How a rank's workers fare.

    Arguments:
        measured: how their models do; nothing between evaluations.
        spent: seconds training, seconds waiting and bytes sent → worker → how much.
        squares: the sum of ‖update‖² of their last round.
        asked: whether somebody has asked this rank to stop.
    """

    measured: Measured
    spent: dict[str, dict[int, float]]
    squares: float
    asked: bool


def counters(prepared: Prepared) -> dict[str, dict[int, float]]:
    """What is counted of each worker of this rank."""
    exchange = prepared.exchange
    return {"training": exchange.trained, "waiting": exchange.waited, "sent": exchange.mailbox.sent}


def report(prepared: Prepared, round: int, asked: bool) -> Report:
    """How this rank's workers fare after a round."""
    found = measured(prepared, round) if prepared.evaluates(round) else {}
    spent = {name: dict(counted) for name, counted in counters(prepared).items()}
    return Report(found, spent, sum(prepared.exchange.squares.values()), asked)


def measured(prepared: Prepared, round: int) -> Measured:
    """How this rank's workers do: on their own examples, on those that are nobody's, and on all test examples."""
    data, exchange, users = prepared.data, prepared.exchange, prepared.users(round)
    theirs = [int(users[worker]) for worker in exchange.mine if users[worker] >= 0]
    shared = [GLOBAL] if "test" in data.clients and "test" in data.splits else []
    found: Measured = {}
    beside = [NOBODYS + split for split in prepared.experiment.splits if is_mixed(data, split)]
    for part in [*prepared.experiment.splits, *beside, *shared]:
        own = part in data.clients
        view = exchange.rank.view(theirs if own else [], part)
        one_model = isinstance(exchange, Served) and not own  # rank 0 is enough
        those = [w for w in exchange.mine if users[w] >= 0 or not own] if not one_model else [0] * (exchange.me == 0)
        judge = lambda worker: exchange.rank.judge(view, int(users[worker]) if own else 0, exchange.models[worker])  # noqa: B023, E731
        found[part] = {worker: judge(worker) for worker in those}
    return found


def row(prepared: Prepared, history: History, round: int, reports: Sequence[Report], began: float) -> dict[str, float]:
    """What a round adds to the history."""
    seconds = {"seconds": time.perf_counter() - began}
    return {**costs(prepared, history, round, reports), **seconds, **metrics(prepared, reports)}


def costs(prepared: Prepared, history: History, round: int, reports: Sequence[Report]) -> dict[str, float]:
    """What the run has cost so far, counted as a simulation counts it."""
    exchange, sizes = prepared.exchange, prepared.data.clients["train"].size
    last = history.rows[-1] if len(history) else {"round": 0, "steps": 0, "bytes_up": 0, "bytes_down": 0}
    rounds, local = range(int(last["round"]), round), exchange.rank.algorithm.local
    users = [exchange.roster(one) for one in rounds]
    steps = sum(int(np.sum(local.taken(sizes[who[who >= 0]]))) for who in users)
    moved = sum(exchange.moved(one) for one in rounds) * exchange.models[0].nbytes
    squares = sum(one.squares for one in reports)
    return {
        "round": round,
        "steps": last["steps"] + steps,
        "bytes_up": last["bytes_up"] + moved,
        "bytes_down": last["bytes_down"] + moved * isinstance(exchange, Served),
        "update_norm": exchange.norm if isinstance(exchange, Served) else (squares / len(exchange.owner)) ** 0.5,
    }


def metrics(prepared: Prepared, reports: Sequence[Report]) -> dict[str, float]:
    """Each metric of each part that is evaluated, over all workers' examples."""
    found: dict[str, float] = {}
    for split in prepared.experiment.splits:
        every = [one for report in reports for one in report.measured[split].values()]
        sums = {name: sum(one[name] for one in every) for name in every[0]}
        if beside := [one for report in reports for one in report.measured.get(NOBODYS + split, {}).values()]:
            sums = {name: total + sum(one[name] for one in beside) / len(beside) for name, total in sums.items()}
        found |= {f"{split}_{name}": value / sums["count"] for name, value in sums.items() if name != "count"}
    return found


def statistics(prepared: Prepared, round: int, reports: Sequence[Report]) -> list[dict[str, Any]]:
    """How each worker fares: on its own examples and on all test examples, and what it has spent."""
    users, table = prepared.users(round), []
    for worker, owner in enumerate(prepared.exchange.owner.tolist()):
        told: dict[str, Any] = {"worker": worker, "rank": owner, "user": int(users[worker])}
        for part, workers in reports[owner].measured.items():
            one = workers.get(worker, {}) if not part.startswith(NOBODYS) else {}
            shown = part if part in prepared.data.clients else "shared_test" if part in (GLOBAL, "test") else part
            told |= {f"{shown}_{name}": value / one["count"] for name, value in one.items() if name != "count"}
        table.append(told | {name: counted.get(worker, 0) for name, counted in reports[owner].spent.items()})
    return table
