from fedloom.data.read_as import ReadAs, lines


def test_neighbours_in_a_wide_table_share_a_line() -> None:
    wide = [ReadAs(f"x{i}", "number", str(i)) for i in range(30)]
    columns = [ReadAs("who", "user, 2 users", "ann"), *wide, ReadAs("gap", "number", "1", missing=4)]
    assert list(lines(columns)) == [
        ("who", "user, 2 users", "ann"),
        ("x0 to x29 (30 columns)", "number", "0"),
        ("gap", "number, 4 missing", "1"),
    ]
    assert len(list(lines(columns[:24]))) == 24
