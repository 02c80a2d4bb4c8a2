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
from fedloom.data.split import stratified, temporal
from fedloom.errors import ArgumentError, DataError, FedloomWarning, UnknownName

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
    path = write("a,y\n" + "".join(f"{i / 4},{'xyz'[i % 3]}\n" for i in range(100)))
    whole = csv(path, "y")
    monkeypatch.setattr(module, "BLOCK", 7)
    blocks = csv(path, "y")
    assert whole.columns["x"].ravel().tolist() == [i / 4 for i in range(100)]
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


def test_wisdm_numbers_its_rows(data_folder: Path) -> None:
    with pytest.raises(DataError, match=r"column UNIQUE_ID of .* say --drop UNIQUE_ID"):
        csv("har-wisdm/WISDM_ar_v1.1_transformed.csv.gz", "class", "user", folder=data_folder)


def test_measurements_of_patients_are_no_identifiers(data_folder: Path) -> None:
    data = csv("tcga-brca/brca.csv", "event", "region", drop=["fold", "days"], folder=data_folder)
    assert len(data.features) == 39
    assert data.class_names == ["0", "1"]


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
    assert data.note == "3 missing cells, in a, b, filled with the mean"
    with pytest.raises(DataError, match=r"column b of .* has no number at all: drop it"):
        csv(write("a,b,y\n1,,x\n2,?,z\n"), label="y")


def numbered(row: str, rows: int = 40) -> str:
    return "".join(row.format(i=i, half=i / 2, y="ab"[i % 2]) + "\n" for i in range(rows))


def test_a_nameless_column_that_numbers_the_rows_is_left_out(write: Write) -> None:
    for header in ("", "Unnamed: 0"):
        with pytest.warns(FedloomWarning, match="has no name and numbers the rows: it is left out"):
            data = csv(write(f"{header},v,y\n" + numbered("{i},{half},{y}")), "y")
        assert data.columns["x"].tolist() == [[i / 2] for i in range(40)]
        assert data.read_as[0].read_as == "dropped: numbers the rows"
    kept = csv(write(",v,y\n" + numbered("{i},{half},{y}")), "y", numeric="column 1")
    assert kept.features == ["column 1", "v"]
    with pytest.raises(DataError, match=r"column 1 of people has no name: name it in the header, or --drop 'column 1'"):
        csv(write(",v,y\n" + numbered("{half},{half},{y}")), "y")


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("n,v,y", "{i},{half},{y}", r"column n of people counts the rows \(0, 1, 2, …\).* --drop n to leave it out"),
        (
            "patient_id,v,y",
            "{y}7,{half},{y}",
            "column patient_id of people has the name of an identifier.*--user patient",
        ),
        ("case,v,y", "k{i},{half},{y}", "column case of people holds 40 different texts in 40 rows"),
        ("mac,v,y", "{y}3f09c,{half},{y}", "column mac of .* holds hexadecimal numbers such as 'a3f09c'.*--drop mac"),
        (
            "zip,v,y",
            "0123{i},{half},{y}",
            "column zip of .* holds '01230', a code rather than a number: say --drop zip",
        ),
        ("price,v,y", '"1,234",{half},{y}', "such as '1,234': say --decimal ',' .* or --thousands ','"),
        (
            "day,v,y",
            "01/02/2024,{half},{y}",
            "holds dates such as 01/02/2024, in which no day is above 12: say --dates",
        ),
    ],
)
def test_columns_that_are_asked_about(write: Write, header: str, row: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        csv(write(f"{header}\n" + numbered(row)), "y")


def test_amounts_in_different_currencies(write: Write) -> None:
    with pytest.raises(DataError, match=r"column pay of .* holds numbers with different signs, \$ and €: convert them"):
        csv(write("pay,y\n€1.5,a\n$2,b\n"), "y")


def test_an_identifier_that_the_user_calls_a_feature_or_a_user(write: Write) -> None:
    path = write("n,v,y\n" + numbered("{i},{half},{y}"))
    assert csv(path, "y", numeric="n").features == ["n", "v"]
    assert csv(path, "y", drop="n").features == ["v"]
    assert len(csv(path, "y", categorical="n").features) == 41
    assert csv(path, "y", user="n").user_names[:3] == ["0", "1", "2"]


def test_labels_that_are_spelled_in_several_ways(write: Write) -> None:
    data = csv(write("v,y\n.5,1\n1.5,1.0\n2.5, 2 \n3.5,2\n"), "y")
    assert data.class_names == ["1", "2"]
    assert data.columns["y"].tolist() == [0, 0, 1, 1]
    assert csv(write("v,y\n.5,caf\u00e9\n1.5,cafe\u0301\n"), "y").class_names == ["caf\u00e9"]
    capitals = write("v,y\n.5,Yes\n1.5,yes\n2.5,yes\n3.5,no\n")
    with pytest.raises(DataError, match=r"differ in capitals only, 'Yes' .*--case same"):
        csv(capitals, "y")
    assert csv(capitals, "y", case="same").class_names == ["no", "yes"]
    assert csv(capitals, "y", case="different").class_names == ["Yes", "no", "yes"]


def test_rows_without_a_label(write: Write) -> None:
    path = write("v,y\n.5,a\n1.5,NA\n2.5,b\n3.5,null\n")
    with pytest.raises(DataError, match=r"row 2 of people has no label.*; 2 rows have none .*--unlabelled skip"):
        csv(path, "y")
    skipped = csv(path, "y", unlabelled="skip")
    assert skipped.columns["x"].tolist() == [[0.5], [2.5]]
    assert skipped.note == "2 of 4 rows have no label and are left out"
    assert csv(path, "y", categorical="y").class_names == ["NA", "a", "b", "null"]


def test_unlabelled_rows_end_a_window(write: Write) -> None:
    data = csv(write("v,y\n" + "".join(f"{i / 2},{y}\n" for i, y in enumerate(["a", "a", "", "a", "a", ""]))), "y",
               window=2, unlabelled="skip")  # fmt: skip
    assert data.columns["x"][..., 0].tolist() == [[0.0, 0.5], [1.5, 2.0]]


def test_numbers_to_be_predicted(write: Write) -> None:
    path = write("v,y\n" + "".join(f"{i},{i % 7 / 2}\n" for i in [3, 1, 4, 1, 5, 9, 2, 6] * 5))
    with pytest.raises(DataError, match=r"holds decimal numbers such as 1.5 .*--task regression"):
        csv(path, "y")
    data = csv(path, "y", task="regression")
    assert data.columns["y"].dtype == np.float32
    assert data.columns["y"][:4].tolist() == [1.5, 0.5, 2.0, 0.5]
    assert data.classes == 1
    assert data.read_as[1].read_as == "label, number"
    assert csv(path, "y", task="classification").class_names == ["0.5", "1", "1.5", "2", "2.5", "3"]


def test_dates_percentages_and_money(write: Write) -> None:
    text = 'when,share,pay,y\n2024-01-01,10%,"$1,000",a\n2024-01-03,20 %,"$2,500",b\n,NA,,a\n'
    data = csv(write(text), "y", thousands=",")
    assert data.features[0] == "when (days)"
    assert data.features[-2:] == ["share", "pay"]
    found = np.nan_to_num(data.columns["x"], nan=-1)
    assert found[:, 0].tolist() == [19723, 19725, -1]
    assert found[:, 1:8].sum(axis=1).tolist() == [1, 1, 0]
    assert found[:, 8:].tolist() == [[10, 1000], [20, 2500], [-1, -1]]
    assert [column.told for column in data.read_as] == [
        "date (days since 1970-01-01, weekday), 1 missing", "number (%), 1 missing", "number ($), 1 missing",
        "label, 2 classes",
    ]  # fmt: skip
    texts = csv(write(text), "y", thousands=",", dates="none")
    assert texts.features[:2] == ["when=2024-01-01", "when=2024-01-03"]
    with pytest.raises(DataError, match=r"row 2, column when of .*: 'soon' is no date or time as in most"):
        csv(write("when,y\n2024-01-01,a\nsoon,b\n2024-01-02,a\n"), "y")
    with pytest.raises(
        DataError, match=r"column v of .* holds no dates that are known, but '1': leave v out of --dates"
    ):
        csv(write("v,y\n1,a\n2,b\n"), "y", dates=["v"])


def test_a_text_that_no_training_example_has_is_missing_after_a_warning(write: Write) -> None:
    rows = [
        f"{who},{'new' if who == 'bob' and i == 4 else 'old'},{'ab'[i % 2]}" for who in ("ann", "bob") for i in range(5)
    ]
    data = csv(write("who,colour,y\n" + "\n".join(rows) + "\n"), "y", "who")
    with pytest.warns(FedloomWarning, match=r"no training example has, colour=new \(1 row\): they are read as missing"):
        dealt = data.partition(natural(), temporal(0.2, 0.2))
    assert dealt.columns["x"][9].tolist() == [0.0, 0.0]
    assert dealt.columns["x"][8].tolist() == [0.0, 1.0]


def test_options_that_contradict_each_other(write: Write) -> None:
    path = write(TEXT)
    for options, message in (
        (
            {"drop": "colour", "categorical": "colour"},
            "drop must be columns that are not called categorical or numeric",
        ),
        ({"numeric": "height", "categorical": "height"}, "numeric must be columns that are not categorical too"),
        ({"dates": ["none", "colour"]}, "dates must be none alone"),
        ({"dates": ["colour"], "drop": "colour"}, "dates must be columns that no other option names"),
        ({"thousands": "."}, "thousands must be another character than the one before decimals"),
        ({"task": "regression", "label": "height", "window": 2}, "window must be left alone with --task regression"),
    ):
        with pytest.raises(ArgumentError, match=message):
            csv(path, **({"label": "class", "user": "who"} | options))  # type: ignore[arg-type]
