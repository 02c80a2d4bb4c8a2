"""From an experiment's words to clients."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedloom.data import saved
from fedloom.errors import ArgumentError, DataError, UnknownName
from fedloom.runs import Experiment
from fedloom.runs.prepare import SCHEMES, SPLITS, federated, read

ROWS = "who,v,class\n" + "".join(f"u{i % 4},{i / 4},c{i % 3}\n" for i in range(60))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(ROWS)
    with gzip.open(tmp_path / "people.csv.gz", "wt") as file:
        file.write(ROWS)
    np.savez(tmp_path / "arrays.npz", x=np.zeros((12, 2), np.float32), y=np.arange(12) % 3, user=np.arange(12) // 6)
    user_data = {"a": {"x": [[0.0, 1.0]] * 3, "y": [0, 1, 0]}, "b": {"x": [[1.0, 1.0]] * 3, "y": [1, 1, 0]}}
    leaf = {"users": ["a", "b"], "num_samples": [3, 3], "user_data": user_data}
    (tmp_path / "leaf").mkdir()
    (tmp_path / "leaf" / "all_data_0.json").write_text(json.dumps(leaf))
    for kind in ("cat", "dog"):
        (tmp_path / "pets" / kind).mkdir(parents=True)
        for i in range(6):
            Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / "pets" / kind / f"{i}.png")
    return tmp_path


@pytest.mark.parametrize(
    ("data", "more", "clients", "shape"),
    [
        ("people.csv", {"label": "class", "user": "who"}, 4, (1,)),
        ("people.csv.gz", {"label": "class", "user": "who"}, 4, (1,)),
        ("people.csv", {"label": "class", "drop": "who", "clients": 5}, 5, (1,)),
        ("arrays.npz", {}, 2, (2,)),
        ("leaf/all_data_0.json", {}, 2, (2,)),
        ("./leaf", {}, 2, (2,)),
        ("./pets", {"clients": 3, "image_size": 4, "partition": "affinity"}, 3, (4, 4, 3)),
        ("./pets", {"clients": 3, "colours": "grey"}, 3, (32, 32)),
    ],
)
def test_files_of_every_kind(
    folder: Path, data: str, more: dict[str, object], clients: int, shape: tuple[int, ...]
) -> None:
    found = federated(Experiment(data=data, **more), folder)  # type: ignore[arg-type]
    assert len(found) == clients
    assert found.columns["x"].shape[1:] == shape
    assert found.splits == ("train", "validation", "test")  # split, because there is no test set


def test_a_folder_without_a_slash(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert federated(Experiment(data="pets", clients=2)).name == "pets/iid/stratified"
    (folder / "mnist").mkdir()
    assert federated(Experiment(data="mnist")).name == "mnist/iid"  # names come first


@pytest.mark.parametrize("partition", SCHEMES)
def test_every_partition_by_name(folder: Path, partition: str) -> None:
    clients = {} if partition == "natural" else {"clients": 4}
    experiment = Experiment(data="people.csv", label="class", user="who", partition=partition, split="none", **clients)
    found = federated(experiment, folder)
    assert len(found) == 4
    assert sorted(found.index.tolist()) == list(range(60))


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_by_name(folder: Path, split: str) -> None:
    found = federated(Experiment(data="people.csv", label="class", user="who", split=split), folder)
    sizes = {part: len(found.examples(part)) for part in found.splits}
    assert sizes == ({"train": 60} if split == "none" else {"train": 36, "validation": 12, "test": 12})


def test_leaf_with_a_test_folder(folder: Path) -> None:
    for part in ("train", "test"):
        (folder / "femnist" / part).mkdir(parents=True)
        text = (folder / "leaf" / "all_data_0.json").read_text()
        (folder / "femnist" / part / f"all_data_0_{part}.json").write_text(text)
    found = federated(Experiment(data="./femnist"), folder)
    assert found.name == "leaf/femnist/natural"
    assert [len(found.examples(part, client)) for part in ("train", "test") for client in (0, 1)] == [3, 3, 3, 3]


def test_data_with_a_test_set_keeps_it() -> None:
    assert federated(Experiment()).name == "mnist/iid"
    found = federated(Experiment(split="stratified", clients=10))
    assert {part: len(found.examples(part)) for part in found.splits} == {
        "train": 48_000, "validation": 12_000, "test": 10_000,
    }  # fmt: skip
    with pytest.raises(DataError, match="mnist has a test set of its own"):
        federated(Experiment(split="stratified", test_share=0.2))


def test_asking_for_a_share_is_asking_for_a_split() -> None:
    found = federated(Experiment(validation_share=0.1, clients=10))
    assert len(found.examples("validation")) == 6_000
    assert len(found.examples("test")) == 10_000


def test_a_saved_partition_says_everything(folder: Path) -> None:
    people = {"data": "people.csv", "label": "class", "user": "who"}
    saved.save(federated(Experiment(**people), folder), folder / "p.safetensors")  # type: ignore[arg-type]
    loaded = federated(Experiment(**people, partition="p.safetensors"), folder)  # type: ignore[arg-type]
    assert list(loaded.client_names) == ["u0", "u1", "u2", "u3"]
    for name, value in (("split", "naive"), ("test_share", 0.1), ("validation", 5), ("pool", "yes"), ("least", 2)):
        with pytest.raises(ArgumentError, match=f"{name} must be left alone with a saved partition"):
            federated(Experiment(**people, partition="p.safetensors", **{name: value}), folder)  # type: ignore[arg-type]


def test_pooling_the_test_set() -> None:
    found = federated(Experiment(pool="yes", clients=10))
    assert [len(found.examples(part)) for part in ("train", "validation", "test")] == [42_000, 14_000, 14_000]


def test_skews_come_with_any_partition() -> None:
    found = federated(Experiment(clients=3, noise=0.2, rotation=90))
    assert found.name == "mnist/iid+rotation90+noise0.2"


def test_central_is_the_union(folder: Path) -> None:
    experiment = Experiment(data="people.csv", label="class", user="who")
    clients, union = federated(experiment, folder), federated(experiment.centrally(passes=3), folder)
    assert len(union) == 1
    for part in ("train", "validation", "test"):
        assert sorted(union.examples(part)) == sorted(clients.examples(part))
    assert (union.columns["x"] == clients.columns["x"]).all()


def test_passes_over_the_data(generated: Any) -> None:
    data = generated([5] + [20] * 99)
    assert Experiment(fraction=0.1, epochs=5).passes(data, rounds=30) == 15
    assert Experiment(fraction=0.1).passes(data, rounds=1) == 0.1
    assert Experiment(fraction=0.0).passes(data, rounds=30) == 0.3
    assert Experiment(algorithm="dpa-sgd", period=4).passes(data, rounds=6) == 24 * (5 + 99 * 10) / (5 + 99 * 20)


@pytest.mark.parametrize(
    ("experiment", "error", "message"),
    [
        ({"data": "people.csv"}, ArgumentError, "label must be the column of people.csv that is predicted"),
        ({"data": "people.csv", "label": "what"}, UnknownName, "must be one of class, v, who, but is 'what'"),
        ({"data": "song.mp3"}, DataError, "song.mp3 is neither here nor in the data folder"),
        ({"data": "note.pdf"}, ArgumentError, r"data must be a folder or a file that ends in .csv"),
        ({"data": "imagenet"}, UnknownName, "data must be one of .*cifar10, .*, but is 'imagenet'"),
        ({"partition": "no.safetensors"}, DataError, r"no.safetensors is neither here nor in the data folder"),
        ({"alpha": 0.1}, ArgumentError, "alpha must be left alone with the partition iid, which has no use for it"),
        (
            {"data": "people.csv", "label": "class", "user": "who", "clients": 3},
            ArgumentError,
            "clients must be left alone",
        ),
        ({"label": "class"}, ArgumentError, "label must be left alone with the data mnist, which has no use for it"),
        ({"split": "none", "test_share": 0.1}, ArgumentError, "test_share must be left alone without a split"),
        ({"clients": 70, "least": 1000}, ArgumentError, "least must be at most 857, which the smallest client of iid"),
        ({"partition": "natural"}, DataError, "nobody knows whose these examples are"),
    ],
)
def test_what_cannot_be_used(folder: Path, experiment: dict[str, str], error: type[Exception], message: str) -> None:
    (folder / "note.pdf").touch()
    with pytest.raises(error, match=message):
        federated(Experiment(**experiment), folder)  # type: ignore[arg-type]


@pytest.mark.parametrize(("data", "model", "message"), [
    ("people.csv", "cnn", r"needs square images whose side is a multiple of 4, but an example of people/.* \(5,\)"),
    ("people.csv", "lstm", "holds no text"),
    ("shakespeare", "2nn", "one a character: use lstm"),
])  # fmt: skip
def test_models_that_do_not_fit(folder: Path, data: str, model: str, message: str) -> None:
    label = None if data == "shakespeare" else "class"
    experiment = Experiment(data=data, label=label, model=model, partition="iid", clients=5)
    with pytest.raises(DataError, match=message):
        experiment.build_task(federated(experiment, folder))


def test_models_take_the_datas_shape(folder: Path) -> None:
    experiment = Experiment(data="./pets", image_size=8, model="cnn", clients=2)
    data = federated(experiment, folder)
    assert data.classes == 2
    assert experiment.build_task(data).name == "cnn"
    assert read(experiment, folder).class_names == ("cat", "dog")
