"""Classes and columns are the server's, whoever takes part."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.data import FederatedData
from fedloom.data.federated import Ranges
from fedloom.errors import ArgumentError, DataError
from fedloom.federation.agreement import aligned, described, renamed
from fedloom.runs import Experiment
from fedloom.runs.prepare import federated


def toy(names: tuple[str, ...], labels: list[int]) -> FederatedData:
    columns = {"x": np.zeros((len(labels), 2), np.float32), "y": np.array(labels, np.int32)}
    train = {"train": Ranges(np.zeros(1, np.int32), np.array([len(labels)], np.int32))}
    return FederatedData(
        "toy", columns, len(names), np.arange(len(labels), dtype=np.int32), train, {}, class_names=names
    )


def read(file: Path, label: str, split: str = "none") -> FederatedData:
    return federated(Experiment(data=str(file), label=label, split=split, partition="iid", clients=1))


def test_classes_are_numbered_as_the_server_does() -> None:
    mapped = renamed(toy(("dog", "fox"), [0, 1, 1]), ["cat", "dog", "fox"], 3)
    assert mapped.columns["y"].tolist() == [1, 2, 2] and mapped.classes == 3
    with pytest.raises(DataError, match=r"classes that the server does not know: fox"):
        renamed(toy(("dog", "fox"), [0, 1]), ["cat", "dog"], 2)
    with pytest.raises(ArgumentError, match=r"data must be of the server's 1 classes"):
        renamed(dataclasses.replace(toy(("a", "b"), [0, 1]), class_names=()), [], 1)


def test_images_are_images_on_both_sides(tmp_path: Path) -> None:
    """The same pixels in two types would be 0 to 1 on one side and 0 to 255 on the other."""
    y = np.arange(40) % 2
    np.savez(tmp_path / "north.npz", x=np.full((40, 4, 4), 200, np.uint8), y=y)
    np.savez(tmp_path / "south.npz", x=np.full((40, 16), 200), y=y)
    plain = Experiment(split="none", partition="iid", clients=1)
    north, south = (federated(plain.replace(data=str(tmp_path / f"{n}.npz"))) for n in ("north", "south"))
    said = json.loads(json.dumps(described(north)))
    with pytest.raises(
        DataError, match=r"south.* is no images \(integers: used as they are\), but the server's data is images"
    ):
        aligned(said, south)
    declared = federated(plain.replace(data=str(tmp_path / "south.npz"), images="yes"))
    assert aligned(said, declared).columns["x"].dtype == north.columns["x"].dtype
    assert aligned({"classes": 2}, south).images is False


def test_columns_are_the_servers(tmp_path: Path) -> None:
    def clinic(name: str, text: str) -> FederatedData:
        (tmp_path / name).write_text(text)
        return read(tmp_path / name, "y")

    judged = clinic("server.csv", "age,ward,y\n40,er,0\n60,icu,1\n")  # of 50 on average, give or take 10
    own = clinic("own.csv", "ward,age,y\nicu,70,1\nicu,50,0\n")
    said = {**described(judged), "class_names": ["0", "1"]}
    found = aligned(json.loads(json.dumps(said)), own)
    assert found.columns["x"].tolist() == [[2, 0, 1], [0, 0, 1]]
    for less in ({"classes": 2}, {}):
        with pytest.warns(UserWarning, match="the server has no table of its own"):
            assert aligned(less, own).columns["x"].tolist() == own.columns["x"].tolist()
    with pytest.raises(DataError, match="other/iid lacks the column `ward`, which the server requires"):
        aligned(described(judged), clinic("other.csv", "age,weight,y\n1,2,0\n3,4,1\n"))


def test_a_clinic_may_know_one_class_only(tmp_path: Path) -> None:
    file = tmp_path / "ill.csv"
    file.write_text("age,outcome\n" + "50,ill\n60,ill\n" * 5)
    data = read(file, "outcome", Experiment().split)
    server = {**described(data), "classes": 2, "class_names": ["ill", "well"]}
    assert aligned(server, data).classes == 2
    with pytest.raises(DataError, match="has 1 of 2 classes, whose names the server must tell"):
        aligned({**server, "class_names": []}, data)  # which of the two would it be?
    with pytest.raises(DataError, match="has nothing to tell apart: all examples are 'ill'"):
        fl.run(data, fl.tasks.logistic(inputs=1, classes=2), fl.fedavg(), rounds=1)
