import numpy as np
import pytest

from fedloom.data.identifiers import is_nameless, names_an_owner, reason
from fedloom.data.texts import Texts


@pytest.mark.parametrize(
    "name", ["user", "Users", "USER_ID", "userId", "client", "clientid", "patient no", "patient_id", "subject",
             "SubjectID", "participant-id", "ID", "UNIQUE_ID", "store_id", "uuid", "customer number"]
)  # fmt: skip
def test_names_of_identifiers(name: str) -> None:
    assert names_an_owner(name)


@pytest.mark.parametrize(
    "name", ["age", "client type", "patient age", "users_per_day", "valid", "fluid", "number", "name", "code", "X0",
             "region", "identity", "no", ""]
)  # fmt: skip
def test_names_of_other_things(name: str) -> None:
    assert not names_an_owner(name)


def test_names_that_are_none() -> None:
    assert [name for name in ("column 1", "Unnamed: 0", "column", "Unnamed") if is_nameless(name)] == [
        "column 1", "Unnamed: 0",
    ]  # fmt: skip


def test_numbers_that_identify_rows() -> None:
    rng = np.random.default_rng(0)
    assert reason("n", np.arange(5.0, 35.0)) == "counts the rows (5, 6, 7, …)"
    assert reason("n", np.tile(np.arange(20.0), 3)) == "counts the rows (0, 1, 2, …)"  # of each user anew
    assert reason("n", 3 * rng.permutation(30.0 + np.arange(30))).startswith("holds a different whole number in each")
    assert reason("n", np.repeat(rng.permutation(20) * 1.0, 4)).startswith("holds 20 whole numbers, each in a few")
    assert reason("n", np.full(30, 2.0**60)).startswith("holds whole numbers of more than 15 digits")


def test_numbers_that_measure() -> None:
    rng = np.random.default_rng(0)
    assert reason("age", rng.integers(20, 80, 200).astype(float)) == ""
    assert reason("height", rng.normal(size=200)) == ""
    assert reason("age", np.array([30.0, 40.0, 50.0])) == ""  # of so few rows nothing is known
    assert reason("region", np.repeat(np.arange(6.0), 100)) == ""
    assert reason("flag", np.arange(100.0) % 2) == ""
    assert reason("gaps", np.where(np.arange(100) % 2, np.nan, 7.0)) == ""


def test_texts_that_identify_rows() -> None:
    names = [f"p{i}" for i in range(30)]
    assert reason("who", Texts(np.repeat(np.arange(30), 5), names)) == (
        "holds 30 different texts in 150 rows (such as 'p0')"
    )
    assert reason("job", Texts(np.repeat(np.arange(30), 6), names)) == ""
    assert reason("job", Texts(np.arange(9), names)) == ""


def test_the_name_alone_is_a_reason() -> None:
    assert reason("client", Texts(np.array([0, 1]), ["a", "b"])) == "has the name of an identifier"
