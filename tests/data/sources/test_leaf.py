import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedloom.data.partition.natural import natural
from fedloom.data.sources.leaf import leaf
from fedloom.data.vocabulary import NAMES, encode
from fedloom.errors import DataError

ANN = {"x": [[0.5, 1], [2, 3]], "y": [0, 2]}
BOB = {"x": [[4, 5]], "y": [1]}


def write(path: Path, change: dict[str, Any] | None = None, /, **data: Any) -> Path:
    """A LEAF file with these users; ``change`` replaces what would be in it."""
    samples = [len(user["y"]) for user in data.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"users": list(data), "num_samples": samples, "user_data": data, **(change or {})}))
    return path


def test_one_file(tmp_path: Path) -> None:
    data = leaf(write(tmp_path / "toy.json", ann=ANN, bob=BOB))
    assert repr(data) == "Dataset('leaf/toy': 3 train, 0 validation, 0 test examples of 2 users)"
    assert data.columns["x"].tolist() == [[0.5, 1], [2, 3], [4, 5]]
    assert data.columns["x"].dtype == np.float32
    assert data.columns["y"].tolist() == [0, 2, 1]
    assert data.columns["y"].dtype == np.int32
    assert data.classes == 3
    assert data.users is not None
    assert (data.users.tolist(), data.user_names) == ([0, 0, 1], ("ann", "bob"))


def test_a_folder_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    for i in (10, 2, 1):
        write(tmp_path / "train" / f"all_data_{i}_keep_0.json", **{f"user{i}": {"x": [[i]], "y": [i]}})
    (tmp_path / "train" / "notes.txt").touch()
    data = leaf(tmp_path / "train")
    assert data.user_names == ("user1", "user2", "user10")
    assert data.columns["y"].tolist() == [1, 2, 10]
    assert data.classes == 11


def test_leafs_own_test_examples(tmp_path: Path) -> None:
    write(tmp_path / "train" / "a.json", ann=ANN, bob=BOB)
    write(tmp_path / "test" / "a.json", bob={"x": [[6, 7]], "y": [5]}, cem={"x": [[8, 9]], "y": [0]})
    data = leaf(tmp_path / "train", test=tmp_path / "test")
    assert (data.train.tolist(), data.test.tolist()) == ([0, 1, 2], [3, 4])
    assert data.users is not None
    assert (data.users.tolist(), data.user_names) == ([0, 0, 1, 1, 2], ("ann", "bob", "cem"))
    assert data.classes == 6
    clients = data.partition(natural())
    assert clients.clients["test"].size.tolist() == [0, 1]
    assert clients.central["test"].tolist() == [4]


def test_a_user_in_two_files_is_one_user(tmp_path: Path) -> None:
    write(tmp_path / "a_1.json", ann=ANN)
    write(tmp_path / "a_2.json", bob=BOB, ann=BOB)
    data = leaf(tmp_path)
    assert data.users is not None
    assert data.users.tolist() == [0, 0, 1, 0]


def test_paths_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "femnist" / "train" / "a.json", ann=ANN)
    monkeypatch.setenv("FEDLOOM_DATA", str(tmp_path))
    assert len(leaf("femnist/train").train) == 2
    with pytest.raises(DataError, match="femnist/test is neither here nor in the data folder"):
        leaf("femnist/train", test="femnist/test")


def test_images_of_femnist(tmp_path: Path) -> None:
    data = leaf(write(tmp_path / "a.json", ann={"x": [list(range(784))], "y": [61]}))
    assert data.columns["x"].shape == (1, 28, 28)
    assert data.columns["x"][0, 1, :2].tolist() == [28, 29]
    assert data.classes == 62


def test_texts_and_next_characters(tmp_path: Path) -> None:
    write(tmp_path / "a.json", ann={"x": ["To be", "o be "], "y": [" ", "5"]}, bob={"x": ["or né"], "y": ["#"]})
    data = leaf(tmp_path / "a.json")
    assert data.columns["x"].dtype == np.int8
    assert data.columns["x"].tolist() == [encode(text).tolist() for text in ("To be", "o be ", "or né")]
    assert data.columns["y"].tolist() == encode(" 5#").tolist()
    assert (data.classes, data.class_names) == (84, NAMES)


def test_texts_with_numbered_labels(tmp_path: Path) -> None:
    data = leaf(write(tmp_path / "a.json", ann={"x": ["ab", "cd"], "y": [0, 1]}))
    assert (data.columns["y"].tolist(), data.classes, data.class_names) == ([0, 1], 2, ())


def sent140(*texts: str) -> list[list[str]]:
    return [[str(i), "Mon Apr 06 22:19:45 PDT 2009", "NO_QUERY", "ann", text] for i, text in enumerate(texts)]


def test_rows_of_sent140_are_their_tweets(tmp_path: Path) -> None:
    write(tmp_path / "train" / "a.json", ann={"x": sent140("To be", "é"), "y": [1, "0"]})
    write(tmp_path / "test" / "a.json", bob={"x": sent140("or not"), "y": [1]})
    data = leaf(tmp_path)
    codes = [[*encode("To be").tolist(), 0], [*encode("é").tolist(), 0, 0, 0, 0, 0], encode("or not").tolist()]
    assert data.columns["x"].tolist() == codes
    assert (data.columns["y"].tolist(), data.classes, data.user_names) == ([1, 0, 1], 2, ("ann", "bob"))
    assert (data.train.tolist(), data.test.tolist()) == ([0, 1], [2])
    assert data.note == "texts of at most 6 characters, 8.33% of which have no code of their own"
    assert data.partition(natural()).columns["x"].dtype == np.int8
    path = write(tmp_path / "b.json", ann={"x": [*sent140("a"), ["1", "2"]], "y": [0, 1]})
    with pytest.raises(DataError, match=r"rows of id, date, query, user and tweet, but row 1 is \['1', '2'\]"):
        leaf(path)


def test_labels_like_integers(tmp_path: Path) -> None:
    data = leaf(write(tmp_path / "a.json", ann={"x": [[1], [2], [3]], "y": [1.0, "4", 0]}))
    assert data.columns["y"].tolist() == [1, 4, 0]


def test_users_without_examples_are_nobody(tmp_path: Path) -> None:
    data = leaf(write(tmp_path / "a.json", ann=ANN, none={"x": [], "y": []}))
    assert data.user_names == ("ann",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": ["ann"]}, "has 1 users, but num_samples of 2"),
        ({"num_samples": [2, 3]}, "user bob: num_samples is 3, but x has 1 values"),
        ({"user_data": {"ann": ANN}}, "user bob: is in users, but not in user_data"),
        ({"users": ["ann"], "num_samples": [2]}, "user bob: is in user_data, but not in users"),
        ({"users": ["ann", "ann"]}, "lists the user ann more than once"),
        ({"user_data": [ANN]}, "is not a LEAF file: it must have user_data, a dict"),
        ({"users": None}, "is not a LEAF file: it must have users, a list"),
        ({"user_data": {"ann": ANN, "bob": {"x": [[1, 2]]}}}, "user bob: user_data must have the lists x and y"),
        ({"user_data": {"ann": ANN, "bob": {**BOB, "y": [1, 2]}}}, "user bob: num_samples is 1, but y has 2 values"),
    ],
)
def test_bad_structure(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "a.json", change, ann=ANN, bob=BOB)
    with pytest.raises(DataError, match=rf"a\.json,? {message}"):
        leaf(path)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1, 2], [3]], [0, 1], "x must be lists of equally many numbers"),
        ([[1, None]], [0], r"x must be lists of numbers, but the first is \[1, None\]"),
        ([["1", "2"]], [0], "x must be lists of numbers"),
        ([1, 2], [0, 1], "x must be lists of numbers, but the first is 1"),
        ([[1, 2, 3]], [0], r"x is numbers of \(3,\), but numbers of \(2,\) in .*user ann"),
        (["ab"], [0], r"x is texts of \(2,\), but numbers"),
        (["ab", "abc"], [0, 1], "x must be texts of 2 characters, but row 1 is abc"),
        (["ab", 3], [0, 1], "x must be texts of 2 characters, but row 1 is 3"),
        (["ab", "cd"], ["a", "bc"], "y must be single characters, but row 1 is 'bc'"),
        ([[1, 2], [3, 4]], [0, 1.5], "y must be whole numbers from 0 on, but row 1 is '1.5'"),
        ([[1, 2]], [-1], "y must be whole numbers from 0 on, but row 0 is '-1'"),
        ([[1, 2]], [2**31], "y must be whole numbers from 0 on"),
        ([[1, 2]], [None], "y must be whole numbers from 0 on, but row 0 is 'None'"),
        ([[1, 2]], ["a"], "y must be whole numbers from 0 on, but row 0 is 'a'"),
        ([[1, 2]], [float("inf")], "y must be whole numbers from 0 on, but row 0 is 'inf'"),
    ],
)
def test_bad_examples(tmp_path: Path, x: list[Any], y: list[Any], message: str) -> None:
    path = write(tmp_path / "a.json", ann=ANN, zoe={"x": x, "y": y})
    with pytest.raises(DataError, match=rf"a\.json, user zoe: {message}"):
        leaf(path)


def test_labels_of_two_kinds(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", ann={"x": ["ab"], "y": ["c"]}, bob={"x": ["ab"], "y": [3]})
    with pytest.raises(DataError, match=r"user bob: y is numbers, but characters in .*user ann"):
        leaf(path)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no \*\.json files"):
        leaf(tmp_path)
    (tmp_path / "a.json").write_text('{"users": [')
    with pytest.raises(DataError, match=r"a\.json is not JSON \(Expecting value: line 1"):
        leaf(tmp_path)
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(DataError, match=r"a\.json is not a LEAF file"):
        leaf(tmp_path)
    write(tmp_path / "a.json")
    with pytest.raises(DataError, match="has no examples"):
        leaf(tmp_path)
