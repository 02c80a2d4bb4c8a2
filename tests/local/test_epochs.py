"""Epochs of each client: drawn, listed in a file, given one by one; and what is refused."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.errors import ArgumentError, FedloomError
from fedloom.local.batches import for_clients, of_client
from fedloom.local.epochs import Epochs, parsed


def file(folder: Path, text: str) -> str:
    path = folder / "work.csv"
    path.write_text(text)
    return str(path)


def test_drawn_numbers_are_those_of_the_client_alone() -> None:
    """They are whole, at least 1, and neither more clients nor a seed change them."""
    drawn = Epochs("lognormal:2:0.5")
    assert drawn.of(1000).min() == 1
    assert np.median(drawn.of(1000)) == 2
    assert drawn.of(1000)[:7].tolist() == drawn.of(7).tolist() == [drawn.one(i) for i in range(7)]
    assert Epochs("uniform:3:3").of(4).tolist() == [3, 3, 3, 3]


def test_a_file_names_clients_by_number_or_by_name(tmp_path: Path) -> None:
    text = file(tmp_path, "client,epochs\nnorth,2\n2,7\n1,1\n")
    names = ["north", "south", "east"]
    assert Epochs(text).of(3, names).tolist() == [2, 1, 7]
    assert [Epochs(text).one(i, name) for i, name in enumerate(names)] == [2, 1, 7]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("client,epochs\n0,2\n1,3\n5,1\n", r"^epochs must be for clients that exist \(0 to 2; .*line 4\), but is '5'"),
        ("client,epochs\n0,2\n1,3\n", r"^epochs must be given for every client .*missing for client 2$"),
        ("client,epochs\n0,2\n", r"missing for client 1 and 1 more$"),
        ("client,epochs\n0,2\n0,3\n1,1\n2,1\n", r"^epochs must be given once for each client .*line 3\)"),
        ("client,epochs\n0,2\n1,a few\n2,1\n", r"^epochs must be a whole number .*line 3\), but is 'a few'"),
        ("client,epochs\n0,2\n1,0\n2,1\n", r"line 3\) must be between 1 and 2,147,483,647, but is 0"),
        ("client,epochs\n0,2,9\n", r"^epochs must be two values in each line"),
        ("who,many\n0,2\n", r"^epochs must be a file with the columns client and epochs"),
        ("", r"^epochs must be a file with the columns client and epochs"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(ArgumentError, match=wrong):
        Epochs(file(tmp_path, text)).of(3)


def test_a_file_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "work.csv"
    path.write_bytes(b"client,epochs\n\xff\xfe\x00,2\n")
    with pytest.raises(FedloomError, match=r"work\.csv"):
        Epochs(str(path)).of(1)


def test_a_participant_that_the_file_does_not_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^epochs must be given once for south .*but is given 0 times"):
        Epochs(file(tmp_path, "client,epochs\nnorth,2\n")).one(1, "south")


@pytest.mark.parametrize(
    "wrong", ["several", "2.5", "uniform:5:1", "lognormal:2", "no/file.csv", [1, 0], [1.5, 2], [[1]], []]
)
def test_what_cannot_be_epochs_is_refused(wrong: object) -> None:
    with pytest.raises(ArgumentError, match=r"^epochs must be "):
        for_clients(fl.local.sgd(epochs=wrong), 2)


def test_there_is_one_number_for_each_client() -> None:
    with pytest.raises(ArgumentError, match=r"^epochs must be one number for each of 3 clients"):
        fl.fedavg(epochs=[1, 2]).for_clients(3)
    with pytest.raises(ArgumentError, match=r"^epochs must be left alone with a period"):
        fl.local.sgd(epochs="uniform:1:5", period=3)


def test_batches_are_found_wherever_they_stand() -> None:
    """Work around work has the epochs of its client too, on the host and inside a compiled function."""
    around = fl.local.scaffold(fl.local.private("output", fl.local.sgd(epochs=[3, 1, 2], batch_size=4), head_epochs=2))
    sizes = np.array([8, 5, 9])
    assert around.batches.steps(sizes, 4).tolist() == [5 * 2, 3 * 2, 4 * 3]
    assert of_client(around, np.array([2, 0])).batches.steps(sizes[[2, 0]], 4).tolist() == [12, 10]
    counted = jax.jit(lambda work, c: of_client(work, c).batches.steps(jnp.int32(8), 4))
    assert [int(counted(around, jnp.int32(c))) for c in range(3)] == [10, 6, 8]


def test_descriptions_tell_clients_numbers_apart() -> None:
    assert fl.local.sgd(epochs="uniform:1:5").describe()["epochs"] == "uniform:1:5"
    one, other = (fl.local.sgd(epochs=e).describe()["epochs"] for e in ([1, 2, 5], [2, 1, 5]))
    assert one != other
    assert one.startswith("1 to 5 (")
    assert parsed(7) == 7
