import numpy as np
import pytest

from fedloom.data.texts import Texts
from fedloom.errors import DataError


def texts(*cells: str) -> Texts:
    names = list(dict.fromkeys(cells))
    return Texts(np.array([names.index(cell) for cell in cells], np.int32), names)


def test_a_number_and_a_letter_have_one_spelling() -> None:
    found = texts("1", "1.0", "+1", " 1 ", "-0.0", "1.10", "01").normalised("toy")
    assert found.names == ["1", "0", "1.10", "01"]
    assert found.codes.tolist() == [0, 0, 0, 0, 1, 2, 3]
    assert texts("é", "e\u0301").normalised("toy").names == ["é"]
    assert texts("1,0", "1").normalised("toy", decimal=",").names == ["1"]


def test_missing_words() -> None:
    cells = ("a", "NA", "nan", "null", "N/A", "?", "none")
    assert texts(*cells).normalised("toy").codes.tolist() == [0, -1, -1, -1, -1, -1, 1]
    exact = texts(*cells).normalised("toy", exact=True)
    assert exact.names == ["a", "NA", "null", "N/A", "none"]


def test_capitals() -> None:
    with pytest.raises(DataError, match=r"toy has texts that differ in capitals only, 'Yes' \(1 row\) and 'yes' \(2"):
        texts("Yes", "yes", "no", "yes ").normalised("toy")
    same = texts("Yes", "yes", "no", "yes ").normalised("toy", "same")
    assert [same.names[code] for code in same.codes] == ["yes", "yes", "no", "yes"]
    assert texts("Aa", "aA", "aa").normalised("toy", "different").names == ["Aa", "aA", "aa"]
