import numpy as np
import pytest

from fedloom.data.labels import check_classes, targets
from fedloom.data.texts import Texts
from fedloom.errors import DataError


def labels(names: list[str], rows: int) -> Texts:
    return Texts(np.arange(rows) % len(names), names)


def test_decimal_numbers_are_no_classes_unless_the_user_says_so() -> None:
    y = labels(["0.5", "1", "1.5"], 30)
    with pytest.raises(DataError, match=r"toy holds decimal numbers such as 0.5 \(3 different in 30 rows\): predict"):
        check_classes("toy", y, ".", is_stated=False)
    check_classes("toy", y, ".", is_stated=True)


def test_many_whole_numbers_in_few_rows_are_asked_about() -> None:
    ages = labels([str(age) for age in range(20, 81)], 1000)
    with pytest.raises(DataError, match="toy holds 61 different whole numbers in 1,000 rows: predict them with"):
        check_classes("toy", ages, ".", is_stated=False)
    check_classes("toy", labels([str(n) for n in range(62)], 62 * 21), ".", is_stated=False)  # characters
    check_classes("toy", labels([f"c{n}" for n in range(61)], 1000), ".", is_stated=False)


def test_different_values_in_most_rows() -> None:
    with pytest.raises(DataError, match="toy is no label: 20 different values in 30 rows; name another column with"):
        check_classes("toy", labels([f"c{n}" for n in range(20)], 30), ".", is_stated=True)


def test_texts_cannot_be_predicted_as_numbers() -> None:
    with pytest.raises(DataError, match="toy holds texts such as 'cat', which cannot be predicted as numbers"):
        targets("toy", labels(["cat"], 3))
