from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fedloom.data import FederatedData, Ranges
from fedloom.errors import ArgumentError, DataError, UnknownName

Make = Callable[..., FederatedData]


def test_examples_of_a_client_and_of_everybody(generated: Make) -> None:
    data = generated([2, 3])
    assert data.examples("train", 1).tolist() == data.index[2:].tolist()
    assert data.examples("train").tolist() == data.index.tolist()
    assert data.examples("test").tolist() == list(range(5, 35))
    assert data.splits == ("train", "test")


def test_an_unknown_part_lists_the_known(generated: Make) -> None:
    with pytest.raises(UnknownName, match="split must be one of test, train, but is 'validation'"):
        generated([2]).examples("validation")


def test_an_empty_client_is_named(generated: Make) -> None:
    with pytest.raises(DataError, match="client 1 of generated has no training examples"):
        generated([2, 0, 3])


def test_nan_names_row_column_and_client(generated: Make) -> None:
    data = generated([2, 3])
    x = data.columns["x"].copy()
    row = int(data.index[3])
    x[row, 1] = np.nan
    with pytest.raises(DataError, match=rf"row {row} of column x \(train data of client 1\) holds NaN"):
        replace(data, columns={**data.columns, "x": x})


def test_a_label_out_of_range_names_row_and_client(generated: Make) -> None:
    data = generated([2, 3])
    y = data.columns["y"].copy()
    y[data.index[0]] = 3
    with pytest.raises(DataError, match=r"label 3 in row .* \(train data of client 0\) is out of range.*0 to 2"):
        replace(data, columns={**data.columns, "y": y})


def test_columns_of_different_length(generated: Make) -> None:
    data = generated([2, 3])
    with pytest.raises(DataError, match="differ in length"):
        replace(data, columns={**data.columns, "y": data.columns["y"][:-1]})


def test_the_fingerprint_tells_data_apart(generated: Make) -> None:
    data = generated([2, 3])
    other = replace(data, clients={"train": Ranges(np.array([0, 3]), np.array([3, 2]))})
    assert data.fingerprint == generated([2, 3]).fingerprint != other.fingerprint


def test_a_million_clients_cost_a_few_integers_each() -> None:
    k = 1_000_000
    columns = {"x": np.zeros((k, 1), np.int8), "y": np.zeros(k, np.uint8)}
    ranges = Ranges(np.arange(k, dtype=np.int32), np.ones(k, np.int32))
    data = FederatedData("many", columns, 1, np.arange(k, dtype=np.int32), {"train": ranges}, {})
    own = data.index.nbytes + ranges.start.nbytes + ranges.size.nbytes
    assert own == 12 * k
    assert data.columns["x"] is columns["x"]


def toy(**changes: object) -> FederatedData:
    parts = {"name": "toy", "columns": {"x": np.zeros((4, 2)), "y": np.array([0, 1, 1, 0])}, "classes": 2,
             "index": np.arange(4), "clients": {"train": Ranges(np.array([0, 2]), np.array([2, 1]))},
             "central": {"test": np.array([3])}, **changes}  # fmt: skip
    return FederatedData(**parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"index": np.array([0, 1, 99, 3])}, "names examples 0 to 99, but there are 0 to 3"),
        (
            {"clients": {"train": Ranges(np.array([0, 2]), np.array([2, 9]))}},
            "train ranges of toy lie outside its index",
        ),
        ({"clients": {"test": Ranges(np.array([0]), np.array([1]))}}, "toy has no clients"),
        ({"central": {"test": np.array([0])}}, "central test of toy has an example that is there twice"),
        ({"client_names": ["only one"]}, "toy has 2 clients but 1 names for them"),
    ],
)
def test_who_has_what_is_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        toy(**changes)


def test_clients_that_are_not_there() -> None:
    for client in (2, -1, 0.5):
        with pytest.raises(ArgumentError, match="client must be"):
            toy().examples("train", client)  # type: ignore[arg-type]
