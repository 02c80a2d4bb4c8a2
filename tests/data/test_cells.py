import pytest

from fedloom.data.cells import GROUPED, HEXADECIMAL, NumberFormat, held


@pytest.mark.parametrize(
    ("form", "cell", "value"),
    [
        (NumberFormat(), " -1.5e3 ", -1500.0),
        (NumberFormat(","), "1,5", 1.5),
        (NumberFormat(thousands=","), "1,234,567.5", 1234567.5),
        (NumberFormat(",", "."), "1.234,5", 1234.5),
        (NumberFormat(thousands=" "), "12 000", 12000.0),
        (NumberFormat(symbol="%"), "12.5 %", 12.5),
        (NumberFormat(thousands=",", symbol="$"), "-$1,000", -1000.0),
        (NumberFormat(symbol="€"), "3 €", 3.0),
    ],
)
def test_numbers(form: NumberFormat, cell: str, value: float) -> None:
    assert form.parse(cell) == value


@pytest.mark.parametrize(
    ("form", "cell"),
    [
        (NumberFormat(), "2024_01"),  # which Python's float takes for 202401
        (NumberFormat(), "1,5"),
        (NumberFormat(","), "1.234"),
        (NumberFormat(thousands=","), "12,34"),
        (NumberFormat(thousands=","), "1,2345"),
        (NumberFormat(symbol="%"), "12"),
        (NumberFormat(symbol="$"), "$1$"),
        (NumberFormat(), "0x1f"),
    ],
)
def test_what_is_no_number(form: NumberFormat, cell: str) -> None:
    assert not form.fits(cell)


def test_groups_of_three_digits() -> None:
    assert [text for text in ("1,234", "12,34", "1.234.567,8", "1,234.5", "1'000") if GROUPED.fullmatch(text)] == [
        "1,234", "1.234.567,8", "1,234.5", "1'000",
    ]  # fmt: skip


def test_hexadecimal_numbers() -> None:
    texts = ("0x1F", "a3f09c", "123456", "facade", "1b4e28ba-2fa1-11d2-883f", "a3f")
    assert [text for text in texts if HEXADECIMAL.fullmatch(text)] == ["0x1F", "a3f09c", "1b4e28ba-2fa1-11d2-883f"]


def test_what_cells_hold() -> None:
    assert held(["", " 1 ", "NA", "n/a", "null", "None", "?", "NaN", "2"]) == ["1", "2"]
