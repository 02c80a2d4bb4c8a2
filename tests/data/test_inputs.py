"""Whether a column is images, integers or numbers: its type and what a user declares decide, never the model."""

import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedloom.data import Dataset, FederatedData, describe, from_arrays, leaf, mnist, saved, shakespeare
from fedloom.data.inputs import stored
from fedloom.data.partition import iid, noisy
from fedloom.errors import ArgumentError, DataError, FedloomWarning
from fedloom.runs.experiment import Experiment
from fedloom.runs.prepare import federated
from fedloom.tasks.inputs import as_float, seen

TOKENS = np.array([[3, 200], [7, 0]], np.uint8)


def dataset(x: np.ndarray, images: bool | None = None) -> Dataset:
    return Dataset("toy", {"x": x, "y": np.arange(len(x)) % 2}, 2, np.arange(len(x)), images=images)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int16, np.int64, np.uint64])
def test_integers_that_are_no_images_keep_their_value(kind: type) -> None:
    data = dataset(TOKENS.astype(kind)).partition(iid(2))
    assert data.inputs == "integers: used as they are"
    assert np.asarray(as_float(data.columns["x"])).tolist() == [[3, 200], [7, 0]]
    view = seen(None)(data.columns["x"])
    assert (view.dtype, np.asarray(view).tolist()) == (np.int32, [[3, 200], [7, 0]])


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float32, np.float64])
def test_declared_images_become_0_to_1_whatever_their_type(kind: type) -> None:
    data = dataset(np.array([[[0, 51], [204, 255]]] * 2, kind), images=True).partition(iid(2))
    assert np.asarray(as_float(data.columns["x"]))[0].ravel() == pytest.approx([0, 0.2, 0.8, 1])
    assert data.inputs == "images: 0 to 255 becomes 0 to 1"


def test_pixels_of_16_bits_become_0_to_1() -> None:
    data = dataset(np.array([[[0, 13107], [52428, 65535]]] * 2, np.uint16)).partition(iid(2))
    assert np.asarray(as_float(data.columns["x"]))[0].ravel() == pytest.approx([0, 0.2, 0.8, 1])
    assert data.inputs == "images: 0 to 65,535 becomes 0 to 1"
    noise = dataset(np.full((300, 8, 8), 40_000, np.uint16)).partition(noisy(iid(2), level=0.1)).columns["x"]
    assert noise.dtype == np.uint16
    assert noise.std() > 1000  # a tenth of white is 6,553


def test_floats_are_used_as_they_are() -> None:
    for images in (None, True):
        data = dataset(np.array([[[0, 0.25], [0.5, 1]]] * 2), images).partition(iid(2))
        assert (data.columns["x"].dtype, data.columns["x"][0].tolist()) == (np.float32, [[0, 0.25], [0.5, 1]])
        assert data.inputs == ("images: 0 to 1, used as they are" if images else "numbers: used as they are")


@pytest.mark.parametrize(
    ("shape", "images"),
    [((9,), False), ((9, 9), True), ((9, 9, 3), True), ((4, 9, 9), True), ((9, 9, 9), False), ((9, 9, 1, 1), False)],
)
def test_bytes_in_the_shape_of_images_are_images(shape: tuple[int, ...], images: bool) -> None:
    x = np.full((2, *shape), 200, np.uint8)
    assert dataset(x).images is images
    assert dataset(x, images=not images).images is not images


@pytest.mark.parametrize(
    ("x", "told"),
    [
        (np.array([-1, 255]), "int64 from -1 to 255"),
        (np.array([0, 4095]), "int64 from 0 to 4095"),
        (np.array([0.5, 200.0]), "float64 from 0.5 to 200"),
    ],
)
def test_what_cannot_be_pixels_is_refused(x: np.ndarray, told: str) -> None:
    with pytest.raises(DataError, match=f"column x of toy is declared images, but holds {told}: store pixels as uint8"):
        dataset(x.reshape(2, 1, 1), images=True)


def test_doubt_is_told() -> None:
    """A board of a game stored as bytes would be black; pixels in another type would be used as they are."""
    with pytest.warns(FedloomWarning, match=r"values from 0 to 2 become 0 to 0\.00784\. images=True \(--images yes\)"):
        dataset(np.array([[[0, 1], [2, 0]]] * 2, np.uint8))
    for kind in (np.int32, np.float32):
        with pytest.warns(
            FedloomWarning, match=r"whole values from 0 to 255 of the type .* which are used as they are"
        ):
            dataset(np.array([[[0, 1], [2, 255]]] * 2, kind))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for images in (True, False):
            dataset(np.array([[[0, 1], [2, 0]]] * 2, np.uint8), images=images)
            dataset(np.array([[[0, 1], [2, 255]]] * 2), images=images).partition(iid(2)).union()


def test_the_declaration_stays_with_the_data(tmp_path: Path) -> None:
    x = np.full((4, 3, 3), 200, np.uint8)
    for images, kind in ((True, np.uint8), (False, np.int16)):
        source = dataset(x, images)
        data = source.hold_out(1).partition(iid(3))
        saved.save(data, tmp_path / "who.safetensors")
        loaded = saved.load(tmp_path / "who.safetensors", source)
        copy = pickle.loads(pickle.dumps(data))  # as it goes to another process
        for found in (source.pool(), data, copy, data.union(), data.alone(1), loaded, replace(data, name="other")):
            assert (found.images, found.columns["x"].dtype) == (images, kind)
        assert data.fingerprint == replace(data).fingerprint
    assert dataset(x, True).partition(iid(2)).fingerprint != dataset(x, False).partition(iid(2)).fingerprint


def test_sources_declare_what_they_read(tmp_path: Path) -> None:
    assert mnist().images
    assert shakespeare().images is False
    square = {"x": [[0.0, 1.0] * 392, [0.5] * 784], "y": [0, 1]}
    tokens, mixed = {"x": [[5, 70000]], "y": [0]}, {"x": [[0.5, 1]], "y": [1]}
    for name, users, images, kind in (
        ("femnist", [square], True, np.float32),
        ("reddit", [tokens], False, np.int32),
        ("measured", [tokens, mixed], False, np.float32),
    ):
        content = {"users": [*map(str, range(len(users)))], "num_samples": [len(u["x"]) for u in users],
                   "user_data": {str(i): u for i, u in enumerate(users)}}  # fmt: skip
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(content))
        assert (leaf(path).images, leaf(path).columns["x"].dtype) == (images, kind)


def test_the_description_and_the_command_line_say_it(tmp_path: Path) -> None:
    assert describe(mnist().partition(iid(10))).summary()["inputs"] == "images: 0 to 255 becomes 0 to 1"
    np.savez(tmp_path / "a.npz", x=np.full((40, 4, 4), 200, np.uint8), y=np.arange(40) % 2)
    for images, told in (("auto", "images: 0 to 255"), ("yes", "images: 0 to 255"), ("no", "integers: used as they")):
        e = Experiment(data=str(tmp_path / "a.npz"), clients=2, images=images)
        assert federated(e).inputs.startswith(told)
    with pytest.raises(ArgumentError, match="images must be left alone with the data mnist"):
        federated(Experiment(images="no"))


def test_values_that_float32_cannot_tell_apart_are_told() -> None:
    seconds = 1_700_000_000 + np.arange(2000)
    alike = len(np.unique(seconds.astype(np.float32)))
    assert alike == 17
    for kind in (np.int32, np.int64, np.uint64, np.float64):
        text = rf"toy: .* column x apart: of 2,000 different {np.dtype(kind).name} values 17 remain. Subtract an offset"
        with pytest.warns(FedloomWarning, match=text):
            dataset(seconds[:, None].astype(kind))
    with pytest.warns(FedloomWarning, match="feature 1 apart: of 2,000 different int64 values 1,001 remain"):
        from_arrays("toy", {"x": np.stack([seconds - seconds[0], 2**24 + np.arange(2000)], axis=1), "y": seconds % 2})
    with pytest.warns(FedloomWarning, match="column x apart: of 2,000 different int64 values"):
        from_arrays("toy", {"x": 1000 * seconds[:, None], "y": seconds % 2})  # beyond 32 bits


def test_small_losses_and_small_numbers_are_fine() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset(np.random.default_rng(0).standard_normal((20_000, 2)))
        dataset(np.arange(2000)[:, None])
        dataset(1_700_000_000 + 1024 * np.arange(2000)[:, None])


def test_scaling_that_loses_values_is_told() -> None:
    """One row far away from all others leaves these one value when they are scaled."""
    x = np.append(1e6 + np.arange(100), 1e13)[:, None]
    source = Dataset("toy", {"x": x, "y": np.arange(101) % 2}, 2, np.arange(101), standardise=np.array([True]))
    with pytest.warns(FedloomWarning, match="of 101 different float64 values 2 remain"):
        source.partition(iid(2))


def test_data_that_is_made_by_hand() -> None:
    made = dataset(TOKENS).partition(iid(2))
    data = FederatedData("hand", {"x": TOKENS, "y": np.array([0, 1])}, 2, made.index, made.clients, {})
    assert (data.images, data.columns["x"].dtype) == (False, np.int16)
    assert stored("hand", TOKENS, True)[0] is TOKENS
