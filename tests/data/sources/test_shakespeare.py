import gzip
import json

import numpy as np
import pytest

from fedloom.data.partition.natural import natural
from fedloom.data.sources.shakespeare import FILE, shakespeare, windows
from fedloom.data.vocabulary import decode, encode
from fedloom.errors import ArgumentError


def roles() -> dict[str, list[str]]:
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return {f"{row['play']}/{row['role']}": row["lines"] for row in rows}


def said(user: str, part: str) -> str:
    """The text that a role's windows give when they are put together again."""
    data = shakespeare()
    rows = data.train if part == "train" else data.test
    assert data.users is not None
    rows = rows[data.users[rows] == list(data.user_names).index(user)]
    x, y = data.columns["x"][rows], data.columns["y"][rows]
    return decode(x.ravel()[:1]) + decode(y[y >= 0])


def test_all_roles() -> None:
    data = shakespeare()
    assert repr(data) == "Dataset('shakespeare': 43,478 train, 0 validation, 10,865 test examples of 1,216 users)"
    assert list(data.user_names) == list(roles())
    assert len({name.split("/")[0] for name in data.user_names}) == 37
    x, y = data.columns["x"], data.columns["y"]
    assert x.shape == y.shape == (54_343, 80)
    assert (x.dtype.name, y.dtype.name) == ("uint8", "int16")
    assert data.classes == len(data.class_names) == 84
    assert data.users is not None
    assert len(np.unique(data.users[data.train])) == len(np.unique(data.users[data.test])) == 1_216
    # 102,506 lines of 4,148,122 characters: all but the first character of each of 2 × 1,216 sides are predicted
    assert (y >= 0).sum() == 4_148_122 + (102_506 - 2 * 1_216) - 2 * 1_216
    assert ((x == 0) == (y == -1)).all()
    assert y.max() == 82


def test_windows_hold_what_each_role_says_in_order() -> None:
    for user, lines in list(roles().items())[::40]:
        cut = len(lines) - max(1, len(lines) // 5)
        assert said(user, "train") == "\n".join(lines[:cut])
        assert said(user, "test") == "\n".join(lines[cut:])


def test_a_role_is_a_client_with_its_own_test_windows() -> None:
    clients = shakespeare().partition(natural())
    assert clients.client_names[0] == "alls_well_that_ends_well/COUNTESS"
    sizes = {part: clients.clients[part].size for part in ("train", "test")}
    assert {part: int(size.sum()) for part, size in sizes.items()} == {"train": 43_478, "test": 10_865}
    assert len(clients.central["test"]) == 0


def test_windows_and_roles_may_be_chosen() -> None:
    data = shakespeare(window=200, least_lines=100)
    lines = {user: spoken for user, spoken in roles().items() if len(spoken) >= 100}
    assert list(data.user_names) == list(lines)
    assert data.columns["x"].shape[1] == 200
    assert len(data.train) == sum(
        -(-(len("\n".join(spoken[: len(spoken) - len(spoken) // 5])) - 1) // 200) for spoken in lines.values()
    )


def test_windows() -> None:
    texts = [encode(text) for text in ("abcde", "", "a", "ab", "abcdefg")]
    x, y, text = windows(texts, window=3)
    a = int(encode("a")[0])
    assert (x - np.where(x > 0, a, 0)).tolist() == [[0, 1, 2], [3, 0, 0], [0, 0, 0], [0, 1, 2], [3, 4, 5]]
    assert (y - np.where(y > 0, a, 0)).tolist() == [[1, 2, 3], [4, -1, -1], [1, -1, -1], [1, 2, 3], [4, 5, 6]]
    assert text.tolist() == [0, 0, 3, 4, 4]


def test_it_is_read_once() -> None:
    assert shakespeare() is shakespeare()


@pytest.mark.parametrize(
    ("window", "least_lines", "message"),
    [
        (0, 2, "window must be at least 1, but is 0"),
        (80, 1, "least_lines must be at least 2"),
        (80, 10_000, "least_lines must be at most 1,498, the lines of the longest role, but is 10000"),
    ],
)
def test_bad_arguments(window: int, least_lines: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        shakespeare(window, least_lines)
