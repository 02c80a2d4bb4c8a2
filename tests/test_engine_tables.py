"""The table of methods and engines is what is recorded, and what is recorded is what is expected."""

import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from product.cases import ENGINES, EXPECTED, METHODS, RUNS

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that draws the table."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import engine_tables

    return engine_tables


def test_a_table_numbers_the_sentences_of_refusals(tables: ModuleType) -> None:
    cells = {
        "lanes": {"a": {"models": 1.2e-8, "history": 0.0}, "b": {"models": 0.0, "history": 0.0}},
        "ranks": {"a": {"refusal": "algorithm must be b, but is 'a'"}, "b": {"refusal": "ranks must be 1, but is 2"}},
        "pool": {"a": {"refusal": "algorithm must be b, but is 'c'"}, "b": {"models": 0.0, "history": 3e-7}},
    }
    about = {"date": "2026-01-02T03:04", "device": "a machine", "seed": 0, "rounds": 3, "clients": 5, "command": "x"}
    assert tables.table({"cells": cells, "versions": {"jax": "1"}, **about}).splitlines() == [
        "<!-- engines -->",
        "| method | lanes | ranks | pool |",
        "| --- | --- | --- | --- |",
        "| `a` | 1e-08 | refused (1) | refused (1) |",
        "| `b` | 0 | refused (2) | 3e-07 |",
        "",
        "3 of 6 pairs run: 3 rounds, 5 clients. Recorded 2026-01-02 on a machine, seed 0: `x`. Versions: jax 1.",
        "",
        "Refusals:",
        "",
        "1. algorithm must be b.",
        "2. ranks must be 1.",
        "<!-- /engines -->",
    ]


def test_the_page_has_what_is_recorded_and_that_is_what_is_expected(tables: ModuleType) -> None:
    result = json.loads(tables.RESULT.read_text())
    assert tables.table(result) in tables.PAGE.read_text()
    for engine in ENGINES:
        for method in METHODS:
            refusal, expected = result["cells"][engine][method].get("refusal"), EXPECTED[engine][method]
            assert (refusal is None) == (expected == RUNS), (engine, method)
            assert refusal is None or re.search(expected, refusal), (engine, method)
