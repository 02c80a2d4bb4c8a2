import numpy as np

from fedloom.clients.inputs import looked
from fedloom.clients.judging import judged


def test_classes_are_counted() -> None:
    outputs = np.array([[0.1, 0.9, 0.0], [0.2, 0.1, 0.7], [0.6, 0.3, 0.1]])
    assert judged(0.25, outputs, np.array([1, 2, 2])) == {"loss": 0.75, "count": 3.0, "accuracy": 2.0}


def test_numbers_have_no_accuracy() -> None:
    assert "accuracy" not in judged(1.0, np.zeros((2, 3)), np.zeros(2, np.float32))
    assert "accuracy" not in judged(1.0, np.zeros(2), np.zeros(2, np.int32))


def test_one_output_says_nothing_of_classes() -> None:
    assert judged(0.5, np.array([[0.9], [0.1]]), np.array([1, 0])) == {"loss": 1.0, "count": 2.0}


def test_pixels_are_between_0_and_1_and_colours_come_first_where_wanted() -> None:
    pictures = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    assert looked(pictures).dtype == np.float32
    assert looked(pictures).max() == np.float32(95) / np.float32(255)
    first = looked(pictures, (3, 4, 4), channels_first=True)
    assert np.array_equal(first, looked(pictures).transpose(0, 3, 1, 2))
    assert looked(pictures, lambda x: x[:, 0]).shape == (2, 4, 3)


def test_whole_numbers_other_than_pixels_stay_whole() -> None:
    assert looked(np.array([[1, 300]])).tolist() == [[1, 300]]
    assert looked(np.array([[1, 300]])).dtype == np.int32
