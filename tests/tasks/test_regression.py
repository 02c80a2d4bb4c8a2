"""Built-in models that predict numbers, from a file to a history."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from fedloom.cli.app import app
from fedloom.data import FederatedData
from fedloom.errors import ArgumentError, DataError
from fedloom.federation.agreement import aligned, described
from fedloom.runs import Experiment
from fedloom.runs.prepare import federated
from fedloom.tasks import linear, two_nn_regression
from fedloom.tasks.task import Variables


def houses(file: Path, rows: int = 60, offset: float = 0.0) -> Path:
    """Prices of houses: 1,000 a square metre, and 20,000 more in town."""
    rng = np.random.default_rng(rows)
    lines = ["sold,area,place,price"]
    for i in range(rows):
        area, town = round(float(rng.uniform(50, 150)), 1), i % 2
        price = 1000 * area + 20_000 * town + offset
        lines.append(f"2024-01-{1 + i % 28:02d},{area},{'town' if town else 'land'},{price}")
    file.write_text("\n".join(lines) + "\n")
    return file


def read(file: Path, **more: object) -> FederatedData:
    about = {"data": str(file), "label": "price", "task": "regression", "clients": 3, "target": None}
    return federated(Experiment(**(about | more)))  # type: ignore[arg-type]


def test_loss_is_scaled_and_the_error_is_in_the_unit_of_the_labels() -> None:
    task = linear(2, mean=100.0, scale=10.0)
    variables = Variables({"output": {"w": np.array([[1.0], [0.0]]), "b": np.array([0.5])}}, {})
    batch = {"x": np.array([[2.0, 7.0]]), "y": np.array([105.0])}  # predicted: 100 + 10 · 2.5 = 125
    found = task.metrics(variables, batch)
    assert {name: float(values[0]) for name, values in found.items()} == {"loss": 4.0, "error": 20.0, "count": 1.0}
    assert float(task.loss(variables, batch, jax.random.key(0))[0][0]) == 4.0
    deep = two_nn_regression(2)
    assert deep.outputs is not None
    assert deep.outputs(deep.init(jax.random.key(0)), batch["x"]).shape == (1, 1)
    with pytest.raises(ArgumentError, match="scale must be above 0, but is 0"):
        linear(2, scale=0.0)


def test_a_run_on_a_csv_predicts_numbers(tmp_path: Path) -> None:
    file = houses(tmp_path / "houses.csv")
    options = ["--data", str(file), "--label", "price", "--task", "regression", "--model", "linear", "--clients", "3",
               "--rounds", "10", "--fraction", "1", "--epochs", "5", "--lr", "0.1", "--target", "none"]  # fmt: skip
    done = CliRunner().invoke(app, ["run", *options, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["test_error"] < 3000  # of prices around 110,000, give or take 30,000
    assert [column["read_as"] for column in found["read_as"]] == [
        "date (days since 1970-01-01, weekday)", "number", "category, 2 texts", "label, number",
    ]  # fmt: skip
    drawn = CliRunner().invoke(app, ["plot", str(tmp_path / "out"), "--file", str(tmp_path / "drawn.png")])
    assert drawn.exit_code == 0, drawn.output


def test_models_that_do_not_predict_numbers_say_so(tmp_path: Path) -> None:
    data = read(houses(tmp_path / "houses.csv"))
    with pytest.raises(DataError, match=r"the model logistic tells classes apart.*use 2nn or linear"):
        Experiment(model="logistic").build_task(data)
    classes = federated(Experiment(clients=100))
    with pytest.raises(DataError, match="the model linear predicts numbers, but mnist/iid has classes: use logistic"):
        Experiment(model="linear").build_task(classes)


def test_a_participant_uses_the_servers_scale(tmp_path: Path) -> None:
    server = read(houses(tmp_path / "server.csv"), clients=1, split="none", partition="iid")
    own = read(houses(tmp_path / "own.csv", rows=40, offset=5000.0), clients=1, split="none", partition="iid")
    said = json.loads(json.dumps(described(server)))
    y = server.columns["y"].astype(float)
    assert said["target_scale"] == pytest.approx([y.mean(), y.std()])
    found = aligned(said, own)
    assert found.target_scale == tuple(said["target_scale"])
    assert found.features is not None
    assert found.features.names[0] == "sold (days)"
    assert found.columns["y"].tolist() == own.columns["y"].tolist()
    with pytest.raises(DataError, match="the server predicts classes, but own/iid has other labels: say --task"):
        aligned({**said, "target_scale": None, "classes": 2}, own)
    with pytest.raises(ArgumentError, match="the server's target_scale must be a mean and a deviation above 0"):
        aligned({**said, "target_scale": [0.0, 0.0]}, own)
