from fedloom.recipes import mcmahan2017
from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.layout import GRIDS, filled, markdown, standing


def test_table_1_has_forty_cells_of_which_thirty_five_are_published() -> None:
    cells = mcmahan2017("table1")
    assert len({cell.name for cell in cells}) == 40
    assert sum(cell.published["paper"] is not None for cell in cells) == 35
    first = next(cell for cell in cells if cell.name == "table1-cnn-shards-C0.1-B10")
    e = first.experiment
    assert (e.model, e.partition, e.fraction, e.epochs, e.batch_size, e.target) == ("cnn", "shards", 0.1, 5, 10, 0.99)
    assert first.published == {"paper": 206, "hartoyo": 779}
    assert e.rounds >= 1.5 * 206


def test_table_2_has_fifteen_rows_twice() -> None:
    cells = {cell.name: cell for cell in mcmahan2017("table2")}
    assert len(cells) == 30
    assert cells["table2-cnn-iid-E1-Ball"].published == {"paper": 626, "hartoyo": 793}
    by_role = cells["table2-lstm-natural-E5-B10"]
    assert by_role.published == {"paper": 41}
    assert (by_role.experiment.data, by_role.experiment.model, by_role.target) == ("shakespeare", "lstm", 0.54)
    assert cells["table2-lstm-iid-E5-B10"].experiment.clients == 1216


def test_every_cell_of_a_grid_is_a_cell() -> None:
    for part, grids in GRIDS.items():
        names = {name for grid in grids() for _, row in grid.rows for name in row}
        assert names == {cell.name for cell in mcmahan2017(part)}


def test_a_filled_table() -> None:
    cells = {cell.name: cell for cell in mcmahan2017("table1")}

    def took(name: str, rounds: float) -> Outcome:
        return Outcome(name, 0.97, (Trial(0.1, 0, rounds, int(rounds), "", ((0, 0.1),)),), {})

    names = ("table1-2nn-iid-C0-B10", "table1-2nn-iid-C0.1-B10")
    found = {name: took(name, rounds) for name, rounds in zip(names, (100.0, 40.4), strict=True)}
    grid = GRIDS["table1"]()[0]
    lines = filled(grid, cells, found)
    assert lines[0][2] == "fedloom 100\npaper 316\nHartoyo Putra 127"
    assert lines[1][2] == "fedloom 40 (2.5 ×)\npaper 87 (3.6 ×)\nHartoyo Putra 53 (2.4 ×)"
    assert lines[1][1] == "fedloom –\npaper 1,474 (1.0 ×)\nHartoyo Putra 2,526 (1.0 ×)"
    assert "| C = 0.1 | fedloom –<br>paper 1,474 (1.0 ×)" in markdown(grid, lines)
    assert standing(list(cells.values()), found).startswith("2 of 2 cells")
    slow = {names[0]: took(names[0], 317.0)}
    assert standing(list(cells.values()), slow).startswith("0 of 1 cells")
