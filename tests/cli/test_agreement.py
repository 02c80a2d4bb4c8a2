"""What a server may and may not say to a participant, and what each takes of its data."""

from pathlib import Path

import jax
import numpy as np
import pytest

import fedloom as fl
from fedloom.cli.agreement import about, blank, built, judging, mine, owned, undealt
from fedloom.data import FederatedData
from fedloom.data.federated import Ranges
from fedloom.errors import ArgumentError
from fedloom.federation.agreement import aligned
from fedloom.runs import Experiment
from fedloom.runs.prepare import federated


def toy(names: tuple[str, ...], labels: list[int]) -> FederatedData:
    columns = {"x": np.zeros((len(labels), 2), np.float32), "y": np.array(labels, np.int32)}
    train = {"train": Ranges(np.zeros(1, np.int32), np.array([len(labels)], np.int32))}
    return FederatedData(
        "toy", columns, len(names), np.arange(len(labels), dtype=np.int32), train, {}, class_names=names
    )


def test_a_participant_is_told_of_the_model_and_the_algorithm_and_of_no_data() -> None:
    experiment = Experiment(data="mnist", model="logistic", lr=0.5, clients=7, rounds=3)
    told = about(experiment, fl.data.mnist().partition(fl.partition.iid(7)))
    assert told["experiment"] == {"model": "logistic", "lr": 0.5} and told["classes"] == 10
    task, algorithm = built(told, toy(("a", "b"), [0, 1]))
    assert task.name == "logistic" and algorithm.describe()["lr"] == 0.5


def test_a_server_cannot_make_a_participant_read_anything() -> None:
    for field, value in (("data", "/etc/passwd"), ("partition", "/tmp/x.safetensors"), ("address", "evil:1")):
        with pytest.raises(ArgumentError, match=rf"about the model and the algorithm, but is '{field}'"):
            built({"experiment": {field: value}, "classes": 2, "class_names": []}, toy(("a", "b"), [0, 1]))


def test_one_participant_s_part() -> None:
    data = fl.data.mnist().partition(fl.partition.iid(3))
    one = mine(data, 1)
    assert len(one) == 1 and np.array_equal(one.columns["y"], data.columns["y"][data.examples("train", 1)])
    assert "test" not in one.splits
    assert mine(data, None) is data
    with pytest.raises(ArgumentError, match=r"part must be between 0 and 2"):
        mine(data, 3)


def test_whoever_takes_part_is_one_client(tmp_path: Path) -> None:
    file = tmp_path / "clinic.csv"
    file.write_text("age,outcome\n" + "".join(f"{20.5 + i},{'ill' if i > 30 else 'well'}\n" for i in range(60)))
    own = owned(Experiment(data=str(file), label="outcome"), None)
    assert {name: ranges.size.tolist() for name, ranges in federated(own).clients.items()} == {
        "train": [36], "validation": [12], "test": [12],
    }  # fmt: skip
    assert owned(Experiment(clients=3), 1) == Experiment(clients=3)
    with pytest.raises(ArgumentError, match="clients must be left alone without --part: a participant is one"):
        owned(Experiment(clients=3), None)
    assert undealt(Experiment(clients=9)) == Experiment(partition="iid", clients=1)
    assert undealt(Experiment(partition="shards")) == Experiment(partition="shards")


def test_a_server_judges_on_all_of_its_table(tmp_path: Path) -> None:
    file = tmp_path / "judged.csv"
    file.write_text("age,outcome\n" + "".join(f"{20.5 + i},{'ill' if i > 30 else 'well'}\n" for i in range(60)))
    asked = Experiment(data=str(file), label="outcome")
    found = judging(asked, federated(undealt(asked)))
    assert sorted(found.examples("test")) == list(range(60))
    for split, many in ((asked.replace(split="stratified"), 12), (asked.replace(test_share=0.3), 18)):
        assert len(judging(split, federated(undealt(split))).examples("test")) == many
    own = Experiment()  # MNIST comes with a test set
    assert len(judging(own, federated(undealt(own))).examples("test")) == 10_000


def test_a_server_without_data_knows_shapes_and_classes() -> None:
    data = blank(Experiment(), "28,28", "cat,dog")
    assert data.columns["x"].shape == (1, 28, 28) and data.class_names == ("cat", "dog")
    assert blank(Experiment(), "4", "7").classes == 7


def test_a_server_without_data_says_whether_it_is_images_if_it_is_told() -> None:
    for images, shape, model in (("auto", "32,32,3", "cifar-cnn"), ("yes", "784", "2nn"), ("no", "28,28", "2nn")):
        experiment = Experiment(images=images, model=model)
        data = blank(experiment, shape, "10")
        assert experiment.build_task(data).classes == 10
        said = about(experiment, data, blind=True)
        assert said.get("images") == {"auto": None, "yes": True, "no": False}[images]


def test_a_model_has_the_servers_features(tmp_path: Path) -> None:
    def read(name: str, rows: str) -> FederatedData:
        (tmp_path / name).write_text("seen,ward,y\n" + rows)
        asked = Experiment(data=str(tmp_path / name), label="y", partition="iid", clients=1, split="none")
        return federated(asked)

    server = read("server.csv", "2024-01-01,er,0\n2024-01-02,icu,1\n2024-01-03,er,0\n")
    own = read("own.csv", "2024-01-03,icu,1\n2024-01-05,icu,0\n")
    said = about(Experiment(model="logistic"), server)
    mine = aligned(said, own)
    assert mine.columns["x"].shape == (2, 1 + 7 + 2)  # days, weekdays, wards
    assert mine.columns["x"][0, 0] == server.columns["x"][2, 0]  # one day is one number for both
    task, _ = built(said, mine)
    assert task.init(jax.random.key(0)).params["output"]["w"].shape == (10, 2)
