import os
from functools import partial

import numpy as np
import pytest
from line_client import LineClient, dead_in
from quadratic import points, quadratic

import fedloom as fl
from fedloom.errors import ArgumentError, CrewError

VALUES = [0.0, 1.0, 2.0, 4.0]
PLAIN = fl.fedavg(fraction=1.0, lr=0.5, batch_size=1)


def run(engine, task, algorithm=PLAIN, rounds=2):
    return fl.run(points(VALUES), task, algorithm, rounds=rounds, evaluate=["test"], engine=engine)


def test_numpy_clients_in_processes_learn_what_is_computed_by_hand() -> None:
    done = run(fl.engines.processes(2, pieces=3), fl.clients.task(LineClient))
    w = 0.0
    for _ in range(2):  # two examples each, one after another: w ← w - ½ (w - x), twice
        w = np.mean([0.25 * w + 0.75 * x for x in VALUES])
    assert float(done.variables.params["w"]) == pytest.approx(w, rel=1e-6)
    assert done.history.last("test_loss") == pytest.approx(np.mean([(w - x) ** 2 / 2 for x in VALUES]), rel=1e-6)
    assert done.history.last("steps") == 2 * 4 * 2


def test_a_process_that_dies_is_replaced_and_its_clients_run_again(tmp_path) -> None:
    task = fl.clients.task(LineClient, fatal=2.0, folder=str(tmp_path))
    alone, hurt = (run(fl.engines.processes(2), t) for t in (fl.clients.task(LineClient), task))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["died-0", "died-1"]
    assert hurt.variables.params["w"].tobytes() == alone.variables.params["w"].tobytes()


def test_weights_by_accuracy_come_from_what_clients_say() -> None:
    algorithm = fl.fedavg(fraction=1.0, lr=0.5, batch_size=1, weighting=fl.combine.by_accuracy(on="test"))
    compiled = fl.run(points(VALUES), quadratic(), algorithm, rounds=1, evaluate=["test"])
    done = run(fl.engines.processes(1), fl.clients.task(LineClient), algorithm, rounds=1)
    assert done.variables.params["w"] > 0  # those near what they have count, not all alike
    assert compiled.history.last("round") == done.history.last("round")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("shape", r"client 1 sent back an array of shape \(3,\) for w"), ("nan", "client 1 sent back w with numbers"),
     ("raises", "no thanks")],
)  # fmt: skip
def test_what_a_client_does_wrong_is_told_with_its_name(wrong: str, told: str) -> None:
    with pytest.raises((CrewError, ArithmeticError), match=told):
        run(fl.engines.processes(1, pieces=1), fl.clients.task(LineClient, wrong=wrong))


def test_processes_that_cannot_begin_are_an_error_soon() -> None:
    with pytest.raises(CrewError, match="workers ended 4 times in a row, before one could"):
        run(fl.engines.processes(1), fl.clients.task(partial(dead_in, os.getpid()), name="dead"))


def test_what_does_not_go_together() -> None:
    with pytest.raises(ArgumentError, match="engine must be processes or ray"):
        fl.run(points(VALUES), fl.clients.task(LineClient), PLAIN, rounds=1)
    with pytest.raises(ArgumentError, match="task must be clients with code of their own"):
        run(fl.engines.processes(1), quadratic())
    with pytest.raises(ArgumentError, match="algorithm must be plain local training"):
        run(fl.engines.processes(1), fl.clients.task(LineClient), fl.fedprox(0.1, lr=0.1))
    with pytest.raises(ArgumentError, match="workers must be at least 1"):
        fl.engines.processes(0)
