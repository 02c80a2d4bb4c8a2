"""Inputs: what a model sees of a column."""

import numpy as np
import pytest

from fedloom.errors import ArgumentError
from fedloom.tasks.inputs import as_float, seen

IMAGES = np.arange(2 * 2 * 3 * 3, dtype=np.uint8).reshape(2, 2, 3, 3)


def test_pixels_are_between_0_and_1_and_all_else_as_it_is() -> None:
    assert np.asarray(as_float(np.array([0, 51, 255], np.uint8))).tolist() == pytest.approx([0, 0.2, 1])
    assert np.asarray(as_float(np.array([-3, 300], np.int32))).tolist() == [-3, 300]


def test_tokens_stay_whole() -> None:
    found = seen((2, 2), tokens="the loss next_token")(np.array([[1, 2, 3, 255]], np.uint8))
    assert found.dtype == np.int32
    assert found.tolist() == [[[1, 2], [3, 255]]]


def test_colours_come_first_where_they_are_wanted_first() -> None:
    first = seen((3, 2, 3), channels_first=True)(IMAGES)
    np.testing.assert_allclose(first, IMAGES.transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    np.testing.assert_allclose(seen((3, 2, 3))(IMAGES), IMAGES.reshape(2, 3, 2, 3) / 255, rtol=1e-6)
    same = seen((2, 3, 3), channels_first=True)(IMAGES)
    np.testing.assert_allclose(same, IMAGES / 255, rtol=1e-6)


def test_a_function_of_ones_own_gets_the_column_as_it_is() -> None:
    assert seen(lambda x: x[:, 0])(IMAGES).dtype == np.uint8


def test_a_shape_that_examples_cannot_take() -> None:
    with pytest.raises(ArgumentError, match=r"inputs must be a shape that examples of shape \(2, 3, 3\) can take"):
        seen((4, 4))(IMAGES)
