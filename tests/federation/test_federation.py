"""Serving and taking part from Python."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.errors import MissingExtra
from fedloom.federation import extra
from fedloom.runs.experiment import Experiment
from fedloom.runs.prepare import federated
from fedloom.runs.stopping import Stop
from fedloom.tasks import Variables
from fedloom.trees import flatten


def clinic(file: Path, columns: str, ages: range) -> FederatedData:
    """Whoever is older than 50 is ill; patients' heights say nothing."""
    lines = [
        {"age": age + 0.5, "height": 150.5 + 7 * age % 40, "outcome": "ill" if age > 50 else "well"} for age in ages
    ]
    rows = [",".join(str(line[name]) for name in columns.split(",")) for line in lines]
    file.write_text("\n".join([columns, *rows]) + "\n")
    return federated(Experiment(data=str(file), label="outcome", partition="iid", clients=1, inputs="unit"))


def test_clinics_whose_columns_and_ages_differ_learn_one_model(tmp_path: Path) -> None:
    judged = clinic(tmp_path / "judged.csv", "age,height,outcome", range(20, 80))
    own = [clinic(tmp_path / "young.csv", "height,age,outcome", range(20, 60)),
           clinic(tmp_path / "old.csv", "age,height,outcome", range(60, 90))]  # fmt: skip
    task, work = fl.tasks.logistic(2, 2), fl.fedavg(fraction=1.0, lr=1.0, epochs=5)
    found: list[Future[Variables | None]] = []
    with ThreadPoolExecutor(2) as pool:

        def started(port: int, _: int | None) -> None:
            for k, data in enumerate(own):
                where = {"folder": tmp_path / f"p{k}", "name": f"p{k}"}
                found.append(pool.submit(fl.federation.take_part, f"127.0.0.1:{port}", task, work, data, **where))

        rules = fl.federation.Rules(begin=2, beat=0.2, pause=0.05)
        run = fl.federation.serve(task, work, folder=tmp_path / "served", address="127.0.0.1:0", data=judged,
                                  stop=Stop(rounds=8), rules=rules, started=started)  # fmt: skip
    assert run.history.best("test_accuracy") > 0.9
    for one in found:
        model = one.result()
        assert model is not None
        for name, a in flatten(model).items():
            np.testing.assert_array_equal(a, flatten(run.variables)[name])


def test_only_a_library_of_the_extra_is_called_missing() -> None:
    with pytest.raises(MissingExtra, match=r"this needs grpcio: pip install 'fedloom\[federation\]'"), extra():
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")
    with pytest.raises(MissingExtra, match="this needs protobuf"), extra():
        raise ModuleNotFoundError("No module named 'google.protobuf'", name="google.protobuf")
    with pytest.raises(ImportError, match="cannot import name"), extra():
        raise ImportError("cannot import name 'x' from 'fedloom.trees'", name="fedloom.trees")
