import math

import numpy as np
import pytest

from fedloom.data.dates import WEEKDAYS, DateFormat, Dates, Unclear, recognise


@pytest.mark.parametrize(
    ("cell", "day", "hour"),
    [
        ("1970-01-02", 1, None),
        ("1970/1/2", 1, None),
        ("19700102", 1, None),
        ("1970-02", 31, None),
        ("2.1.1970", 1, None),
        ("2 Jan 1970", 1, None),
        ("2-January-1970", 1, None),
        ("Jan 2, 1970", 1, None),
        ("Sept 1 1970", 243, None),
        ("31/01/1970", 30, None),
        ("01/31/1970 3:30 PM", 30, 15.5),
        ("1970-01-02T06:00:00Z", 1, 6),
        ("1970-01-02 01:30+02:00", 0, 23.5),
        ("1969-12-31", -1, None),
        ("06:15", None, 6.25),
        ("12:00 am", None, 0),
    ],
)
def test_days_and_hours(cell: str, day: float | None, hour: float | None) -> None:
    form = recognise([cell, "", "NA"])
    assert form is not None
    expected = [math.nan if value is None else value for value in (day, hour)]
    np.testing.assert_equal(list(form.parse(cell)), expected)


@pytest.mark.parametrize("cell", ["1.5", "8500/3", "25:10:70:1", "12345678", "may be", "20241399", "v1.2.3", "red"])
def test_what_is_no_date(cell: str) -> None:
    assert recognise([cell]) is None


def test_which_of_day_and_month_is_first() -> None:
    assert recognise(["01/02/2024", "13/02/2024"]) == DateFormat("slashes")
    assert recognise(["01/02/2024", "02/13/2024"]) == DateFormat("slashes", month_first=True)
    assert recognise(["01/02/2024"], "month-first") == DateFormat("slashes", month_first=True)
    with pytest.raises(Unclear, match=r"01/02/2024, in which no day is above 12: say --dates day-first or"):
        recognise(["01/02/2024", "03/02/2024"])
    with pytest.raises(Unclear, match="some with the day first, some with the month first"):
        recognise(["13/02/2024", "02/13/2024"])
    with pytest.raises(Unclear, match="whose year has two digits: write it with four"):
        recognise(["13/02/24"])


@pytest.mark.parametrize("cell", ["2024-02-30", "2024-13-01", "2024-01-01 24:00", "2024-01-01 10:75", "tomorrow"])
def test_there_is_no_such_day_or_time(cell: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        DateFormat("year-month-day", has_time=True).parse(cell)


def test_features_of_a_date_and_a_time() -> None:
    dates = Dates(np.array([0.0, 4.0, np.nan]), np.array([18.0, np.nan, np.nan]), True, True)
    found = {name: values.tolist() for name, values, _ in dates.features("when")}
    assert list(found) == ["when (days)", *(f"when={day}" for day in WEEKDAYS), "when (hour, sine)",
                           "when (hour, cosine)"]  # fmt: skip
    np.testing.assert_equal(found["when (days)"], [0.75, 4.0, math.nan])
    assert [name for name in found if found[name][0] == 1] == ["when=Thursday"]
    assert [name for name in found if found[name][1] == 1] == ["when=Monday"]
    assert not any(found[f"when={day}"][2] for day in WEEKDAYS)
    np.testing.assert_allclose(found["when (hour, sine)"], [-1.0, math.nan, math.nan])
    assert dates.missing == 1
    assert dates.read_as == "date and time (days since 1970-01-01, weekday, hour)"
