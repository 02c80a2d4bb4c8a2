import numpy as np
import pytest

from fedloom.data import Dataset, shakespeare
from fedloom.data.partition import iid, natural, noisy, rotated
from fedloom.data.split import naive
from fedloom.errors import ArgumentError, DataError


def dataset(x: np.ndarray) -> Dataset:
    y = np.zeros(len(x), np.int32)
    return Dataset("toy", {"x": x, "y": y}, 1, np.arange(len(x) - 1), test=np.array([len(x) - 1]))


def test_noise_grows_from_client_to_client() -> None:
    x = np.zeros((4001, 50), np.float32)
    data = dataset(x).partition(noisy(iid(5), level=0.4))
    found = [data.columns["x"][data.examples("train", k)].std() for k in range(5)]
    assert found == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4], abs=0.005)
    assert not data.columns["x"][-1].any()  # nobody's
    assert not x.any()  # the source is as it was


def test_noisy_pixels_stay_pixels() -> None:
    data = dataset(np.full((301, 8, 8), 250, np.uint8)).partition(noisy(iid(2), level=0.2))
    last = data.columns["x"][data.examples("train", 1)]
    assert last.dtype == np.uint8
    assert last.max() == 255
    assert 190 < last.mean() < 250  # clipped above, not wrapped around


def test_clients_turn_their_images() -> None:
    x = 28 * np.arange(9, dtype=np.uint8).reshape(1, 3, 3).repeat(9, axis=0)
    data = dataset(x).partition(rotated(iid(4), degrees=90))
    for client in range(4):
        for row in data.examples("train", client):
            assert (data.columns["x"][row] == np.rot90(x[0], client)).all()
    assert (data.columns["x"][8] == x[0]).all()


def test_any_angle_turns_the_same_way() -> None:
    x = np.zeros((9, 21, 21), np.float32)
    x[:, 10, 18] = 1.0  # a point on the right
    data = dataset(x).partition(rotated(iid(8), degrees=45))
    turned = data.columns["x"][data.examples("train", 1)[0]]
    row, column = np.unravel_index(np.argmax(turned), turned.shape)
    assert (row, column) == (4, 16)  # up and to the right, as np.rot90 would have it


def test_skews_come_on_top_of_one_another() -> None:
    scheme = noisy(rotated(iid(2), 180), 0.1)
    x = np.arange(9, dtype=np.float32).reshape(1, 3, 3).repeat(5, axis=0)
    data = dataset(x).partition(scheme)
    first, second = (data.columns["x"][data.examples("train", k)[0]] for k in (0, 1))
    assert data.name == "toy/iid+rotation180+noise0.1"
    assert (first == x[0]).all()
    assert np.abs(second - np.rot90(x[0], 2)).max() < 0.6
    assert (second != np.rot90(x[0], 2)).all()


def test_text_cannot_be_noisy() -> None:
    with pytest.raises(DataError, match=r"only images and floats can be noisy, but an example is \(80,\) integers"):
        shakespeare().partition(noisy(iid(3), 0.1))


def test_who_owns_nothing_sees_no_noise() -> None:
    users = np.repeat(np.arange(10), 10)
    source = Dataset("toy", {"x": np.zeros((100, 300), np.float32), "y": np.zeros(100, int)}, 1, np.arange(100),
                     users=users, user_names=list("abcdefghij"))  # fmt: skip
    data = source.partition(noisy(natural(), 1.0), naive(0.2, 0.2))
    assert len(data) == 6
    assert not data.columns["x"][data.central["test"]].any()
    assert data.columns["x"][data.examples("train", 5)].std() == pytest.approx(1.0, abs=0.05)


def test_only_images_turn() -> None:
    with pytest.raises(DataError, match=r"only images can be rotated, but an example has the shape \(7,\)"):
        dataset(np.zeros((5, 7))).partition(rotated(iid(2)))


def test_one_client_would_see_no_skew() -> None:
    images = dataset(np.zeros((5, 4, 4), np.float32))
    with pytest.raises(ArgumentError, match="noise must be left alone with one client: client k of K sees noise"):
        images.partition(noisy(iid(1), 0.3))
    with pytest.raises(ArgumentError, match="rotation must be left alone with one client"):
        images.partition(rotated(iid(1), 90))
    with pytest.raises(ArgumentError, match="degrees must be no multiple of 360, which turns nothing, but is 720"):
        rotated(iid(4), 720)
