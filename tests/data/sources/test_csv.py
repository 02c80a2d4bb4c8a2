import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedloom.data.sources.csv as module
from fedloom.data import csv
from fedloom.data.partition import natural
from fedloom.data.split import stratified
from fedloom.errors import ArgumentError, DataError, UnknownName

TEXT = """who,height,colour,class
ann,1.5,red,yes
bob,?,blue,no
ann,2.5,,yes
bob,NaN,red,no
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(text: str, name: str = "people.csv") -> Path:
        opener = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}.get(Path(name).suffix, open)
        with opener(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write(text)
        return tmp_path / name

    return to


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.csv.xz", "people.csv.bz2"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_columns_of_all_kinds(write: Write, name: str, delimiter: str) -> None:
    data = csv(write(TEXT.replace(",", delimiter), name), label="class", user="who")
    assert data.name == "people"
    assert np.nan_to_num(data.columns["x"], nan=-1).tolist() == [[1.5, 0, 1], [-1, 1, 0], [2.5, 0, 0], [-1, 0, 1]]
    assert data.columns["y"].tolist() == [1, 0, 1, 0]
    assert data.users is not None
    assert data.users.tolist() == [0, 1, 0, 1]
    assert list(data.user_names) == ["ann", "bob"]


def test_blocks_join(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a,y\n" + "".join(f"{i},{'xyz'[i % 3]}\n" for i in range(100)))
    whole = csv(path, "y")
    monkeypatch.setattr(module, "BLOCK", 7)
    blocks = csv(path, "y")
    assert whole.columns["x"].ravel().tolist() == list(range(100))
    assert all((whole.columns[c] == blocks.columns[c]).all() for c in "xy")


def test_quotes_spaces_a_byte_order_mark_and_blank_lines(write: Write) -> None:
    data = csv(write('\ufeff"a, really" , y\n\n 1 ,"p,q"\n2, r \n\n'), "y")
    assert data.columns["x"].tolist() == [[1.0], [2.0]]
    assert data.class_names == ["p,q", "r"]


def test_numbers_that_are_names(write: Write) -> None:
    data = csv(write("zip,y\n10,a\n20,b\n10,b\n"), "y", categorical=["zip"])
    assert data.columns["x"].tolist() == [[1, 0], [0, 1], [1, 0]]


def test_standardised_with_the_training_rows_only(write: Write) -> None:
    rows = "".join(
        f"{who},{i * i + (100 if who == 'bob' else 0)},c{i % 2}\n" for who in ("ann", "bob") for i in range(20)
    )
    data = csv(write("who,v,class\n" + rows), "class", "who").partition(natural(), stratified(), seed=3)
    x = data.columns["x"].ravel()
    train = data.examples("train")
    assert len(train) == 24
    assert abs(x[train].mean()) < 1e-6
    assert x[train].std() == pytest.approx(1.0, abs=1e-6)
    assert abs(x.mean()) > 1e-3  # the others are measured by the same yardstick, not their own


def test_missing_cells_are_the_mean_after_training_statistics(write: Write) -> None:
    text = "who,v,class\n" + "".join(f"a,{'?' if i == 4 else i},c{i % 2}\n" for i in range(10))
    data = csv(write(text), "class", "who").partition(natural())
    assert data.columns["x"][4, 0] == 0.0


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (TEXT.replace("who", "user"), UnknownName, "must be one of class, colour, height, user, but is 'who'"),
        (TEXT.replace("class", "kind"), UnknownName, "must be one of colour, height, kind, who, but is 'class'"),
        (TEXT + "ann,1\n", DataError, r"row 5 of .*people.csv has 2 cells, but the header has 4"),
        (TEXT + "ann,1,red,yes,more\n", DataError, "row 5 of .* has 5 cells"),
        (
            TEXT + "cyd,tall,red,yes\n" + "ann,1,red,yes\n" * 2,
            DataError,
            "row 5, column height of .*: 'tall' is not a number",
        ),
        (TEXT + ",1,red,yes\n", DataError, "row 5 of people has no user: column who is empty there"),
        (TEXT + "cyd,1,red,?\n", DataError, "row 5 of people has no label: column class is empty there"),
        (TEXT + "cyd,inf,red,yes\n", DataError, "row 5, column height of .*: inf is too large a number"),
        (TEXT + "cyd,1e300,red,yes\n", DataError, "row 5, column height of .*: 1e300 is too large a number"),
        (TEXT.replace("1.5", '"1,5"').replace("2.5", '"2,5"'), DataError, "column height of .* numbers such as '1,5'"),
        (TEXT + 'cyd,"1' + "0" * 200_000, DataError, "cannot be read after row 0 .*: is a quote not closed"),
        ("", DataError, "is empty: its first line must name the columns"),
        ("who,height,class\n", DataError, "has a header and no rows"),
        ("who,who,class\na,b,c\n", DataError, "names the column 'who' twice"),
    ],
)
def test_bad_files(write: Write, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        csv(write(text), "class", "who")


def test_a_truncated_file(write: Write) -> None:
    for name in ("a.csv.gz", "a.csv.xz"):
        path = write("a,y\n" + "1,x\n" * 10_000, name)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(DataError, match=f"{name} is truncated or damaged"):
            csv(path, "y")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing.csv is neither here nor in the data folder"):
        csv("nothing.csv", "y", folder=tmp_path)


def test_a_user_with_too_few_rows_to_split(write: Write) -> None:
    data = csv(write(TEXT + "cyd,1,red,yes\n" + "ann,1,red,no\nbob,1,red,yes\n" * 3), "class", "who")
    with pytest.raises(DataError, match=r"user cyd has 1 example, too few to split .* fewer than 3 \(least\)"):
        data.partition(natural(), stratified())
    assert list(data.partition(natural(least=3), stratified()).client_names) == ["ann", "bob"]


def test_wisdm(data_folder: Path) -> None:
    data = csv("har-wisdm/WISDM_ar_v1.1_transformed.csv.gz", "class", "user", drop=["UNIQUE_ID"], folder=data_folder)
    assert data.columns["x"].shape == (5418, 43)
    assert len(data.user_names) == 36
    counts = dict(zip(data.class_names, np.bincount(data.columns["y"]).tolist(), strict=True))
    assert counts == {
        "Downstairs": 528, "Jogging": 1625, "Sitting": 306, "Standing": 246, "Upstairs": 632, "Walking": 2081,
    }  # fmt: skip
    federated = data.partition(natural(), stratified())
    assert len(federated) == 36
    assert sum(len(federated.examples(part)) for part in federated.splits) == 5418


def test_hapt_windows(data_folder: Path) -> None:
    data = csv("har-hapt/hapt_labelled.csv.gz", "activity", "user", drop=["experiment"], window=128, folder=data_folder)
    assert data.columns["x"].shape == (5814, 128, 6)
    assert np.bincount(data.columns["y"]).tolist() == [928, 811, 751, 928, 1019, 1013, 56, 33, 68, 62, 84, 61]
    assert len(data.user_names) == 30


def test_decimal_commas(write: Write) -> None:
    data = csv(write(TEXT.replace(",", ";").replace(".", ",")), "class", "who", decimal=",")
    assert np.nan_to_num(data.columns["x"][:, 0], nan=-1).tolist() == [1.5, -1, 2.5, -1]


def test_a_point_among_decimal_commas_is_no_number(write: Write) -> None:
    with pytest.raises(DataError, match=r"row 3, column height of .*: '1.234' is not a number"):
        csv(write("height;class\n1,5;a\n2,5;b\n1.234;a\n2;b\n"), "class", decimal=",")


def test_none_is_a_class_but_no_number(write: Write) -> None:
    data = csv(write("v,w,class\n1,none,none\nnone,2,walk\n3,null,walk\n4,5,none\n"), "class")
    assert list(data.class_names) == ["none", "walk"]
    assert np.isnan(data.columns["x"]).tolist() == [[False, True], [True, False], [False, True], [False, False]]


def test_one_name_is_a_list_of_one(write: Write) -> None:
    assert csv(write(TEXT), "class", "who", drop="colour").columns["x"].shape == (4, 1)
    with pytest.raises(ArgumentError, match=r"drop must be columns other than the label and the user, but is"):
        csv(write(TEXT), "class", "who", drop="class")


def test_missing_numbers_are_told_of_and_a_column_of_none_is_refused(write: Write) -> None:
    data = csv(write("a,b,c,y\n1,,3,x\n?,nan,4,z\n2,5,6,x\n"), label="y")
    assert data.note == "3 columns of numbers; 3 missing cells, in a, b, filled with the mean"
    with pytest.raises(DataError, match=r"column b of .* has no number at all: drop it"):
        csv(write("a,b,y\n1,,x\n2,?,z\n"), label="y")
