"""Tables in the documentation are what is recorded."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
HOW = {"command": "python benchmarks/some.py", "date": "2026-01-02T03:04:05+00:00", "device": "a machine"}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that draws them."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    sys.modules.pop("tables", None)
    import tables

    return tables


@pytest.fixture
def drawn(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A table of one record, line by line, without its marks."""

    def draw(name: str, **record: Any) -> list[str]:
        monkeypatch.setattr(tables, "read", lambda _: [HOW | record])
        lines = getattr(tables, name)().splitlines()
        assert (lines[0], lines[-1]) == (f"<!-- {name} -->", f"<!-- /{name} -->")
        return lines[1:-1]

    return draw


RECORDED = ["", "Recorded 2026-01-02: `python benchmarks/some.py`.", ""]


def test_models(drawn: Callable[..., list[str]]) -> None:
    times = {"built in": [9, 2, 1], "A": [3], "A, nothing rewritten": [50], "A, its own loop": [4, 4, 5]}
    assert drawn("models", seconds_a_round=times) == [
        "| seconds a round, a machine | compiled | nothing rewritten | its own loop |",
        "| --- | --- | --- | --- |",
        "| built in | 2 |  |  |",
        "| A | 3 (1.50 ×) | 50 (25.00 ×) | 4 (2.00 ×) |",
        *RECORDED,
    ]


def users_row(network: str, batch: int, times: dict[str, list[float]], **changes: Any) -> dict[str, Any]:
    """A row of a record of users' models."""
    row: dict[str, Any] = {"library": "PyTorch", "network": network, "batch": batch, "steps_a_round": 1280}
    row |= {"seconds_a_round": times, "processes": {"loop": 1, "parallel": 2, "compiled": 2}, "left_out": {}}
    row |= {"compile_seconds": {"fedloom": 3.21, "compiled": 40.0}, "command": HOW["command"], "date": HOW["date"]}
    return row | changes


def test_users_models(tables: ModuleType) -> None:
    """Rows are sorted by batch size, ratios are those of medians, and what was left out is said."""
    fast = {"fedloom": [0.3, 0.1, 0.2], "loop": [0.8, 0.9, 0.7], "parallel": [0.5], "compiled": [0.6]}
    slow = {"fedloom": [0.5], "loop": [0.7], "parallel": [0.4]}
    rows = [users_row("LeNet", 32, fast), users_row("LeNet", 8, slow, left_out={"compiled": "it broke"})]
    result = HOW | {"seed": 0, "versions": {"torch": "2.13"}, "rows": rows}
    head, _, about, _, *lines = tables.users_tables.sections([result])
    assert about == tables.users_tables.ABOUT
    assert head == "## Models that users bring, on a machine"
    assert lines == [
        "| PyTorch, seconds a round | steps | fedloom | eager, one process | eager, 2 processes "
        "| `torch.compile`, 2 processes | ready |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| LeNet, B = 8 | 1,280 | 0.5 | 0.7 (1.40 ×) | 0.4 (0.80 ×) | – | 3.2 / 40.0 |",
        "| LeNet, B = 32 | 1,280 | 0.2 [0.1–0.3] | 0.8 [0.7–0.9] (4.00 ×) | 0.5 (2.50 ×) | 0.6 (3.00 ×) | 3.2 / 40.0 |",
        "",
        "Against eager, one process: median 2.70 ×, lowest 1.40 × (LeNet, B = 8); eager, 2 processes: median 1.65 ×, "
        "lowest 0.80 × (LeNet, B = 8); `torch.compile`, 2 processes: median 3.00 ×, lowest 3.00 × (LeNet, B = 32).",
        "",
        "Left out: `torch.compile`, 2 processes, LeNet (B = 8: it broke).",
        "",
        "Recorded 2026-01-02: `python benchmarks/some.py`. Seed 0. Versions: torch 2.13.",
        "",
    ]


def test_mesh(drawn: Callable[..., list[str]]) -> None:
    rows = [{"devices": n, "seconds_a_round": [t], "largest_difference": d} for n, t, d in ((1, 3, 0.0), (2, 2, 1e-7))]
    told, _, *table = drawn("mesh", clients=160, batch=10, rows=rows)
    assert told.startswith("The same experiment on more and more devices: the 2NN")
    assert table == [
        "| a machine; 160 clients, B = 10 | seconds a round | times as fast | largest difference of a parameter |",
        "| --- | --- | --- | --- |",
        "| 1 device | 3 | 1.00 | 0 |",
        "| 2 devices | 2 | 1.50 | 1.0e-07 |",
        *RECORDED,
    ]


def test_idle(tables: ModuleType) -> None:
    rows = [
        {"epochs": 1, "batch_size": None, "lanes": 1, "rows": 9, "steps": 0.5, "examples": 0.5},
        {"epochs": 5, "batch_size": 10, "lanes": 3, "rows": 10, "steps": 0.9, "examples": 0.75},
    ]
    sizes = {"mean": 2.4, "median": 2.0, "largest": 1000}
    head, _, told, _, *table = tables.idle(HOW | {"clients": 7, "rounds": 2, "sizes": sizes, "rows": rows})
    assert head == "## Little is idle"
    assert told.startswith("Shakespeare's 7 roles have 2 lines of text on average, half of them at most 2, one 1,000.")
    assert table[2:4] == ["| FedSGD | 1 | 9 | 0.500 | 0.500 |", "| E = 5, B = 10 | 3 | 10 | 0.900 | 0.750 |"]
    assert table[-2].endswith(RECORDED[1])


def test_ray(drawn: Callable[..., list[str]]) -> None:
    found = drawn(
        "ray",
        device={"kind": "cpu", "name": "a machine"},
        versions={"fedloom-ray": {"ray": "2.0"}, "flower": {"flwr": "1.0", "ray": "1.9"}},
        seconds_a_round={"2nn": {"fedloom": 0.5, "fedloom-ray": 1.0, "flower": 4.0}},
        times_as_long_as_fedloom={"2nn": {"fedloom": 1.0, "fedloom-ray": 2.0, "flower": 8.0}},
    )
    assert found == [
        "a machine; Ray 2.0; Flower 1.0 on Ray 1.9:",
        "",
        "| seconds a round | 2NN |",
        "| --- | --- |",
        "| fedloom | 0.5 |",
        "| fedloom on Ray | 1 (2.0 ×) |",
        "| Flower's simulation | 4 (8.0 ×) |",
        *RECORDED,
    ]


def test_speed(drawn: Callable[..., list[str]]) -> None:
    """Of the two PyTorch loops, the README shows the faster one."""
    loops = {"loop": 0.1, "loop-parallel": 0.05}
    found = drawn(
        "speed",
        repeat=2,
        device={"kind": "cpu", "name": "a machine"},
        seconds_a_round={"2nn": {"fedloom": 0.012345, **loops}, "cnn": {"fedloom": 1.0, **loops}},
        times_as_long_as_fedloom={
            "2nn": {"fedloom": 1.0, "loop-parallel": 4.05},
            "cnn": {"fedloom": 1.0, "loop-parallel": 11.315},
        },
    )
    assert found[0].startswith("Seconds for one round of federated averaging on a machine: 10 of 100 clients")
    assert "median of 2 interleaved repetitions" in found[0]
    assert found[1:] == [
        "",
        "| seconds a round | 2NN | CNN |",
        "| --- | --- | --- |",
        "| fedloom | 0.0123 | 1 |",
        "| plain PyTorch loop, a process a core | 0.05 (4.0 ×) | 0.05 (11 ×) |",
    ]


def test_times(tables: ModuleType) -> None:
    assert [tables.times(ratio) for ratio in (1.36, 9.96, 398.2, 1131.5)] == ["1.4 ×", "10 ×", "400 ×", "1,100 ×"]


def test_leak(drawn: Callable[..., list[str]]) -> None:
    rows = [
        {"round": 50 * i, "seconds": i, "driver_bytes": 2**20, "actors_bytes": [2**21, 2**22]} for i in range(1, 21)
    ]
    assert drawn("leak", rows=rows) == [
        "| a machine | seconds | the process that drives | each actor |",
        "| --- | --- | --- | --- |",
        *(f"| {n:,} rounds | {n / 50:.1f} | 1 MiB | 2, 4 MiB |" for n in (50, 250, 500, 750, 1000)),
        *RECORDED,
    ]


@pytest.mark.parametrize("name", ["models", "mesh", "ray", "leak"])
def test_the_page_has_what_is_recorded(tables: ModuleType, name: str) -> None:
    assert getattr(tables, name)() in tables.MODELS.read_text()


def test_the_readme_and_the_benchmarks_have_what_is_recorded(tables: ModuleType) -> None:
    assert tables.speed() in tables.README.read_text()
    assert tables.page() == tables.PAGE.read_text()
