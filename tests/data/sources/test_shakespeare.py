import gzip
import json

import numpy as np
import pytest

from fedloom.data.partition.natural import natural
from fedloom.data.sources.shakespeare import FILE, pieces, shakespeare
from fedloom.data.vocabulary import decode, encode
from fedloom.errors import ArgumentError


def roles() -> dict[str, list[str]]:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return {f"{row['play']}/{row['role']}": row["lines"] for row in rows}


def said(user: str, part: str) -> list[str]:
    """The lines that a role's examples give when they are put together again."""
    data = shakespeare()
    rows = data.train if part == "train" else data.test
    assert data.users is not None
    rows = rows[data.users[rows] == list(data.user_names).index(user)]
    return [
        decode(x[:1]) + decode(y[y >= 0]) for x, y in zip(data.columns["x"][rows], data.columns["y"][rows], strict=True)
    ]


def test_all_roles() -> None:
    data = shakespeare()
    assert repr(data) == "Dataset('shakespeare': 82,339 train, 0 validation, 20,167 test examples of 1,216 users)"
    assert list(data.user_names) == list(roles())
    assert len({name.split("/")[0] for name in data.user_names}) == 37
    x, y = data.columns["x"], data.columns["y"]
    assert x.shape == y.shape == (102_506, 80)
    assert (x.dtype.name, y.dtype.name) == ("int8", "int16")
    assert data.classes == len(data.class_names) == 84
    assert data.users is not None
    assert len(np.unique(data.users[data.train])) == len(np.unique(data.users[data.test])) == 1_216
    assert (y >= 0).sum() == 4_148_122  # after each character of every line one is predicted
    assert ((x == 0) == (y == -1)).all()
    assert y.max() == 82


def test_examples_are_what_each_role_says_in_order() -> None:
    for user, lines in list(roles().items())[::40]:
        cut = len(lines) - max(1, len(lines) // 5)
        assert said(user, "train") == [f"{line}\n" for line in lines[:cut]]
        assert said(user, "test") == [f"{line}\n" for line in lines[cut:]]


def test_a_role_is_a_client_with_its_own_test_lines() -> None:
    clients = shakespeare().partition(natural())
    assert clients.client_names[0] == "alls_well_that_ends_well/COUNTESS"
    sizes = {part: clients.clients[part].size for part in ("train", "test")}
    assert {part: int(size.sum()) for part, size in sizes.items()} == {"train": 82_339, "test": 20_167}
    assert len(clients.central["test"]) == 0


def test_lengths_and_roles_may_be_chosen() -> None:
    data = shakespeare(longest=30, least_lines=100)
    lines = {user: spoken for user, spoken in roles().items() if len(spoken) >= 100}
    assert list(data.user_names) == list(lines)
    assert data.columns["x"].shape[1] == 30
    assert len(data.train) == sum(
        -(-len(line) // 30) for spoken in lines.values() for line in spoken[: len(spoken) - len(spoken) // 5]
    )


def test_long_lines_are_cut_and_empty_ones_left_out() -> None:
    x, y, line = pieces(["abcde", "", "a", "abc"], longest=3)
    a, newline = int(encode("a")[0]), int(encode("\n")[0])
    assert (x - np.where(x > 0, a, 0)).tolist() == [[0, 1, 2], [3, 4, 0], [0, 0, 0], [0, 1, 2]]
    assert np.where(y > newline, y - a, y).tolist() == [[1, 2, 3], [4, newline, -1], [newline, -1, -1], [1, 2, newline]]
    assert line.tolist() == [0, 0, 2, 3]


def test_it_is_read_once() -> None:
    assert shakespeare() is shakespeare()


@pytest.mark.parametrize(
    ("longest", "least_lines", "message"),
    [
        (0, 2, "longest must be at least 1, but is 0"),
        (80, 1, "least_lines must be at least 2"),
        (80, 10_000, "least_lines must be at most 1,498, the lines of the longest role, but is 10000"),
    ],
)
def test_bad_arguments(longest: int, least_lines: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        shakespeare(longest, least_lines)
