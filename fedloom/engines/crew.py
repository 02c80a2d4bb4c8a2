"""Crew: workers that live as long as a run and do pieces of its work; what one that dies was doing is done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedloom.errors import CrewError

Make = Callable[[], Any]
"""What makes, in a worker, the thing whose methods do the work."""
DEATHS = 3  # in a row, without anything done in between, that are borne


class Crew:
    """Workers, in processes of this machine or on a cluster."""

    def do(self, method: str, shared: Mapping[str, np.ndarray], pieces: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What a method gives for each piece of work, in their order.

        Arguments:
            method: its name.
            shared: arrays that all pieces read, sent once.
            pieces: the other arguments of each.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let the workers go."""


def borne(deaths: int, method: str, why: str) -> None:
    """Raise a :class:`CrewError` if workers have died too often in a row."""
    if deaths > DEATHS:
        raise CrewError(f"workers ended {deaths} times in a row, before one could {method}: {why}")
