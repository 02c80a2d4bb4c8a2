import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from fedloom.data import Dataset, mnist, saved
from fedloom.data.checksum import arrays_content
from fedloom.data.partition import dirichlet, iid, natural, noisy
from fedloom.data.split import naive, stratified
from fedloom.errors import DataError


def users() -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, size=(60, 2)).astype(np.float32)
    whose = rng.integers(0, 4, 60)
    return Dataset("toy", {"x": x, "y": rng.integers(0, 3, 60)}, 3, np.arange(60), users=whose,
                   user_names=["ann", "bob", "cyd", "dan"], standardise=np.array([True, True]))  # fmt: skip


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    data = users().partition(natural(), stratified(), seed=5)
    saved.save(data, tmp_path / "a.safetensors")
    again = saved.load(tmp_path / "a.safetensors", users())
    assert again.fingerprint == data.fingerprint
    assert (again.columns["x"] == data.columns["x"]).all()
    assert list(again.client_names) == ["ann", "bob", "cyd", "dan"]
    for part in ("train", "validation", "test"):
        for client in range(4):
            assert again.examples(part, client).tolist() == data.examples(part, client).tolist()


def test_any_reader_of_safetensors_can_read_it(tmp_path: Path) -> None:
    data = mnist().partition(dirichlet(10, 0.5), stratified(0.1, 0))
    saved.save(data, tmp_path / "a.safetensors")
    arrays = load_file(tmp_path / "a.safetensors")
    start, size = arrays["validation.start"][3], arrays["validation.size"][3]
    assert arrays["index"][start : start + size].tolist() == data.examples("validation", 3).tolist()
    assert len(arrays["central.test"]) == 10_000
    with safe_open(tmp_path / "a.safetensors", framework="numpy") as file:
        assert json.loads(file.metadata()["about"])["examples"] == 70_000


def test_feature_skew_is_made_anew(tmp_path: Path) -> None:
    scheme = noisy(iid(4), 0.5)
    data = users().partition(scheme, seed=2)
    saved.save(data, tmp_path / "a.safetensors")
    again = saved.load(tmp_path / "a.safetensors", users(), scheme, seed=2)
    assert (again.columns["x"] == data.columns["x"]).all()
    assert again.name == data.name == "toy/iid+noise0.5"
    for other in (None, iid(4), noisy(iid(4), 0.4)):
        with pytest.raises(DataError, match=r"was saved with \+noise0.5: ask for the same noise and rotation"):
            saved.load(tmp_path / "a.safetensors", users(), other)
    saved.save(users().partition(iid(4)), tmp_path / "b.safetensors")
    assert saved.load(tmp_path / "b.safetensors", users(), scheme).name == "toy/iid+noise0.5"


def test_skew_and_a_split_that_leaves_clients_idle_come_back(tmp_path: Path) -> None:
    scheme = noisy(natural(), 0.5)
    data = users().partition(scheme, naive(0.2, 0.2), seed=2)
    saved.save(data, tmp_path / "a.safetensors")
    again = saved.load(tmp_path / "a.safetensors", users(), scheme, seed=2)
    assert (again.columns["x"] == data.columns["x"]).all()
    assert again.fingerprint == data.fingerprint


def test_other_data_is_refused(tmp_path: Path) -> None:
    saved.save(users().partition(iid(4)), tmp_path / "a.safetensors")
    with pytest.raises(DataError, match=r"is a partition of other data than mnist .60 examples there, 70000 here"):
        saved.load(tmp_path / "a.safetensors", mnist())
    other = users()
    other = replace(other, columns={**other.columns, "y": 2 - other.columns["y"]})
    with pytest.raises(DataError, match="checksum of labels"):
        saved.load(tmp_path / "a.safetensors", other)


def write(path: Path, arrays: dict[str, np.ndarray], about: dict[str, str]) -> None:
    path.write_bytes(arrays_content(arrays, about))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with pytest.raises(DataError, match="there is no partition"):
        saved.load(path, users())
    saved.save(users().partition(iid(4)), path)
    whole, about = load_file(path), None
    with safe_open(path, framework="numpy") as file:
        about = file.metadata()
    content = path.read_bytes()
    for i in range(0, len(content), 11):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1 << i % 8]) + content[i + 1 :])
        with pytest.raises(DataError, match=r"is damaged, or no partition that fedloom saved \(it is"):
            saved.load(path, users())
    path.write_bytes(content[:-4])
    with pytest.raises(DataError, match="is damaged, or no partition"):
        saved.load(path, users())
    for change, message in [
        ({"index": np.zeros_like(whole["index"])}, "has an example that is there twice"),
        ({"index": whole["index"] + 1}, "names examples 1 to 60, but there are 0 to 59"),
        ({"train.size": whole["train.size"] + 1}, "the train ranges in .* lie outside its index"),
    ]:
        write(path, {**whole, **change}, about)
        with pytest.raises(DataError, match=message):
            saved.load(path, users())
    write(path, {"index": whole["index"]}, about)
    with pytest.raises(DataError, match="has no training part"):
        saved.load(path, users())
    write(path, {k: v for k, v in whole.items() if k != "train.size"}, about)
    with pytest.raises(DataError, match=r"it lacks train.size"):
        saved.load(path, users())
    write(path, {**whole, "train.start": whole["train.start"][:2]}, about)
    with pytest.raises(DataError, match="must be whole numbers, 2 of them"):
        saved.load(path, users())
    write(path, whole, {"about": json.dumps(["a list"])})
    with pytest.raises(DataError, match="is damaged, or no partition"):
        saved.load(path, users())
    write(path, whole, {"about": json.dumps({"version": 9})})
    with pytest.raises(DataError, match="has the version 9, but this fedloom reads 2"):
        saved.load(path, users())


def test_an_error_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(saved, "arrays_content", fail)
    with pytest.raises(OSError, match="no space left"):
        saved.save(users().partition(iid(4)), tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []
