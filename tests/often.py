"""Of many cases that are alike, those that run every time; the others are slow."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def often(cases: Iterable[str], every_time: Collection[str]) -> list[Any]:
    """Cases by name as parameters of a test."""
    cases = list(cases)
    assert set(every_time) <= set(cases), set(every_time) - set(cases)
    return [pytest.param(case, marks=() if case in every_time else pytest.mark.slow) for case in cases]
