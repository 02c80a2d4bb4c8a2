"""Ledger: the columns of a history that say what a run has cost, however it is computed."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.runs.history import Row


@dataclass(frozen=True)
class Cost:
    """The cost of some rounds.

    Args:
        rounds: the number of rounds.
        steps: the local steps of all clients together.
        bytes_up: the bytes that clients sent.
        bytes_down: the bytes that a server sent to clients.
        update_norm: the norm of the mean update of the last round.
        rejected: the number of updates that were not finite and did not count; ``None`` if all updates count.
    """

    rounds: int
    steps: int
    bytes_up: int
    bytes_down: int
    update_norm: float
    rejected: float | None = None


def cost_of_models(
    rounds: int,
    steps: int,
    models_up: int,
    models_down: int,
    model_bytes: int,
    update_norm: float,
    rejected: float | None = None,
) -> Cost:
    """Return the cost of rounds in which nothing but models was sent.

    Args:
        rounds, steps, update_norm, rejected: as in :class:`Cost`.
        models_up: the number of models that clients sent.
        models_down: the number of models that a server sent to clients.
        model_bytes: the bytes of one model.
    """
    return Cost(rounds, steps, models_up * model_bytes, models_down * model_bytes, update_norm, rejected)


def add_cost(before: Row | None, cost: Cost) -> dict[str, float]:
    """Return the cost columns of a row.

    All columns but the norm count from the start of the run. The column ``broken`` is the number of rejected updates.

    Args:
        before: the row before it; ``None`` or empty if there is none.
        cost: the cost of the rounds since then.

    >>> first = add_cost(None, cost_of_models(1, steps=60, models_up=2, models_down=2, model_bytes=40, update_norm=0.5))
    >>> first
    {'round': 1, 'steps': 60, 'bytes_up': 80, 'bytes_down': 80, 'update_norm': 0.5}
    >>> add_cost(first, Cost(2, 30, bytes_up=7, bytes_down=0, update_norm=0.25, rejected=1.0))
    {'round': 3, 'steps': 90, 'bytes_up': 87, 'bytes_down': 80, 'update_norm': 0.25, 'broken': 1.0}
    """
    so_far = before or {}
    row = {
        "round": int(so_far.get("round", 0)) + cost.rounds,
        "steps": so_far.get("steps", 0) + cost.steps,
        "bytes_up": so_far.get("bytes_up", 0) + cost.bytes_up,
        "bytes_down": so_far.get("bytes_down", 0) + cost.bytes_down,
        "update_norm": cost.update_norm,
    }
    return row if cost.rejected is None else {**row, "broken": so_far.get("broken", 0) + cost.rejected}
