"""Reading a checkpoint compiles nothing.

The tests release all compiled programs, which other tests of the same process may still use. They run in a process
of their own.
"""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.runs.restore import identities, restore

Make = Callable[..., FederatedData]
TASK = fl.tasks.logistic(inputs=4, classes=3)
SIZES = [5, 12, 30, 8]
METHODS = {
    "server": fl.fedavg(fraction=0.5, server=fl.server("momentum", lr=0.5)),
    "client state": fl.scaffold(fraction=0.5),
    "own models": fl.dpa_sgd(topology="ring"),
    "clusters": fl.ifca(clusters=2, fraction=0.5),
}


ALONE = "FEDLOOM_TESTS_ALONE"
alone = pytest.mark.skipif(ALONE not in os.environ, reason="runs in a process of its own")


def test_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    here = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {ALONE: "1"}
    done = subprocess.run([*command, "-k", "compiling"], env=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.startswith("." * 5)


@pytest.fixture
def programs(caplog: pytest.LogCaptureFixture) -> Callable[[Callable[[], Any]], list[str]]:
    """Return the names of the programs that a function compiles."""

    def count(work: Callable[[], Any]) -> list[str]:
        jax.clear_caches()
        caplog.clear()
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            work()
        found = [re.match(r"Finished XLA compilation of (\S+)", record.getMessage()) for record in caplog.records]
        return [match[1] for match in found if match]

    return count


@alone
@pytest.mark.parametrize("method", METHODS)
def test_a_checkpoint_is_read_without_compiling(
    method: str, generated: Make, tmp_path: Path, programs: Callable[..., list[str]]
) -> None:
    data, algorithm = generated(SIZES), METHODS[method].for_clients(len(SIZES))
    run = fl.run(data, TASK, algorithm, rounds=2, directory=tmp_path)
    program = fl.engines.compiled().program(data, TASK, [algorithm], [0])
    who, found = identities(data, TASK, [algorithm], [0]), list[Any]()
    accept = lambda folder, record: None  # noqa: E731, ARG005
    assert programs(lambda: found.append(restore(program, [tmp_path], who, [accept]))) == []
    assert programs(lambda: found.append(fl.load(tmp_path))) == []
    assert programs(program.init) != []  # it would have been counted
    (state, histories, _, _), loaded = found
    assert histories == [run.history] == [loaded.history]
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda a: a[0], state.variables), run.variables)
    jax.tree.map(np.testing.assert_array_equal, loaded.variables, run.variables)


@alone
def test_a_finished_run_is_returned_without_compiling_its_rounds(
    generated: Make, tmp_path: Path, programs: Callable[..., list[str]]
) -> None:
    again = lambda: fl.run(generated(SIZES), TASK, METHODS["server"], rounds=2, directory=tmp_path)  # noqa: E731
    first = programs(again)
    assert {"jit(advance)", "jit(begun)", "jit(_sums)"} <= set(first)
    assert not {"jit(advance)", "jit(begun)", "jit(_sums)"} & set(programs(again))
