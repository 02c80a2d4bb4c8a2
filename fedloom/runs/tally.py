"""Tally: what ranks tell at a meeting, and what rank 0 makes of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedloom.engines.evaluate import measured_models
from fedloom.engines.exchange import Served
from fedloom.engines.store import EVERYBODYS, GLOBAL
from fedloom.local.batches import of_client
from fedloom.measures import OWN, OWN_ON_ALL, PREFIXES, SHARED, Measure
from fedloom.runs.ledger import Cost, add_cost, cost_of_models
from fedloom.runs.order import Prepared
from fedloom.runs.recorder import Recorder

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
    """Measure this rank's workers: their models on the examples of their users, and on everybody's."""
    exchange, users = prepared.exchange, prepared.users(round)
    theirs = [int(users[worker]) for worker in exchange.mine if users[worker] >= 0]
    found: Measured = {}
    for part in parts(prepared):
        own = part in prepared.data.clients
        view = exchange.rank.view(theirs if own else [], part)
        one_model = isinstance(exchange, Served) and not own  # rank 0 is enough
        those = [w for w in exchange.mine if users[w] >= 0 or not own] if not one_model else [0] * (exchange.me == 0)
        judge = lambda worker: exchange.rank.judge(view, int(users[worker]) if own else 0, exchange.models[worker])  # noqa: B023, E731
        found[part] = {worker: judge(worker) for worker in those}
    return found


def parts(prepared: Prepared) -> list[str]:
    """Return the parts of the data on which workers are measured: for the history, and for the table of workers."""
    data, splits = prepared.data, prepared.settings.evaluated
    table = [split for split in splits if split in data.clients]
    table += [GLOBAL] if "test" in data.clients and "test" in data.splits else []
    wanted = [part_for(prepared, split, models) for split in splits for models in models_of(prepared, split)]
    return list(dict.fromkeys([*wanted, *table]))


def models_of(prepared: Prepared, split: str) -> tuple[str, ...]:
    """Return what the workers' models are measured as on a part of the data."""
    return measured_models(prepared.exchange.rank.algorithm, prepared.data, split)


def part_for(prepared: Prepared, split: str, models: str) -> str:
    """Return the examples that a column of the history is about: the users' own, or everybody's."""
    data, everybody = prepared.data, not prepared.visits
    owned_by_clients = split in data.clients and not len(data.central.get(split, ()))
    if split not in data.clients or models == OWN or (models == SHARED and everybody and owned_by_clients):
        return split
    return EVERYBODYS + split


def row(
    prepared: Prepared, recorder: Recorder, round: int, reports: Sequence[Report], began: float
) -> dict[str, float]:
    """What a round adds to the history."""
    spent, seconds = cost(prepared, recorder.round, round, reports), {"seconds": time.perf_counter() - began}
    return {**add_cost(recorder.last, spent), **seconds, **metrics(prepared, reports)}


def cost(prepared: Prepared, before: int, now: int, reports: Sequence[Report]) -> Cost:
    """Return the cost of the rounds between two evaluations, counted as a simulation counts it.

    Args:
        prepared: the run.
        before: the number of rounds done at the first evaluation.
        now: the number of rounds done at the second one.
        reports: how the ranks' workers fare at the second one.
    """
    exchange, sizes = prepared.exchange, prepared.data.clients["train"].size
    rounds = range(before, now)
    users, local = [exchange.roster(one) for one in rounds], exchange.rank.algorithm.local
    asked = [who[who >= 0] for who in users]
    steps = sum(int(np.sum(of_client(local, who).gradient_count(sizes[who]))) for who in asked)
    sent, has_server = sum(exchange.moved(one) for one in rounds), isinstance(exchange, Served)
    squares = sum(one.squares for one in reports)
    norm = exchange.norm if isinstance(exchange, Served) else (squares / len(exchange.owner)) ** 0.5
    return cost_of_models(len(rounds), steps, sent, sent * has_server, exchange.models[0].nbytes, norm)


def metrics(prepared: Prepared, reports: Sequence[Report]) -> dict[str, float]:
    """Return the history's columns that are about models: the mean over all examples and all workers measured."""
    found: dict[str, float] = {}
    for split in prepared.settings.evaluated:
        for models in models_of(prepared, split):
            part = part_for(prepared, split, models)
            every = [one for report in reports for one in report.measured[part].values()]
            sums = {name: sum(one[name] for one in every) for name in every[0]}
            means = {name: value / sums["count"] for name, value in sums.items() if name != "count"}
            found |= {Measure(models, split, name).column: value for name, value in means.items()}
    return found


def statistics(prepared: Prepared, round: int, reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Return a row for each worker: its model on its user's examples and on everybody's, and what it has spent."""
    users, table = prepared.users(round), []
    for worker, owner in enumerate(prepared.exchange.owner.tolist()):
        told: dict[str, Any] = {"worker": worker, "rank": owner, "user": int(users[worker])}
        for part, workers in reports[owner].measured.items():
            one = workers.get(worker, {})
            begin = worker_column(prepared, part)
            told |= {f"{begin}_{name}": value / one["count"] for name, value in one.items() if name != "count"}
        table.append(told | {name: counted.get(worker, 0) for name, counted in reports[owner].spent.items()})
    return table


def worker_column(prepared: Prepared, part: str) -> str:
    """Return what the columns of the table of workers begin with that are about a part of the data.

    ``own_test`` and ``own_on_all_test`` are the worker's own model, as in the history. With a server, ``user_test`` is
    the shared model on the examples of the worker's user, and ``test`` the shared model on everybody's.
    """
    split, own = part.removeprefix(EVERYBODYS), part in prepared.data.clients
    if isinstance(prepared.exchange, Served):
        return f"user_{split}" if own else split
    return f"{PREFIXES[OWN if own else OWN_ON_ALL]}{split}"
