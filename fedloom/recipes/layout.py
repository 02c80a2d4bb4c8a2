"""Layout: the tables of McMahan et al. (2017) as they print them, with everybody's numbers in each cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedloom.recipes.cell import Cell, Outcome

WHO = {"ours": "fedloom", "paper": "paper", "hartoyo": "Hartoyo Putra"}


@dataclass(frozen=True)
class Grid:
    """A table: its title, its columns, and rows of cells whose first row is the baseline of speed-ups.

    Arguments:
        title: what it shows.
        heads: the names of the columns.
        rows: the name of each row and the name of the cell in each column.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def table1(model: str) -> Grid:
    """Table 1's half for a model."""
    kinds = [("iid", "all"), ("iid", "10"), ("shards", "all"), ("shards", "10")]
    heads = tuple(f"{'IID' if p == 'iid' else 'shards'}, B = {'∞' if b == 'all' else b}" for p, b in kinds)
    rows = tuple(
        (f"C = {c:g}", tuple(f"table1-{model}-{p}-C{c:g}-B{b}" for p, b in kinds)) for c in (0.0, 0.1, 0.2, 0.5, 1.0)
    )
    title = {"2nn": "2NN, E = 1, rounds to 97 %", "cnn": "CNN, E = 5, rounds to 99 %"}[model]
    return Grid(f"Table 1, {title}", heads, rows)


def table2_cnn() -> Grid:
    """Table 2's half for the CNN."""
    work = [(1, "all"), (5, "all"), (1, "50"), (20, "all"), (1, "10"), (5, "50"), (20, "50"), (5, "10"), (20, "10")]
    rows = tuple(
        (f"{'FedSGD' if (e, b) == (1, 'all') else 'FedAvg'}, E = {e}, B = {'∞' if b == 'all' else b}",
         tuple(f"table2-cnn-{p}-E{e}-B{b}" for p in ("iid", "shards"))) for e, b in work
    )  # fmt: skip
    return Grid("Table 2, CNN, C = 0.1, rounds to 99 %", ("IID", "shards"), rows)


def table2_lstm() -> Grid:
    """Table 2's half for the LSTM."""
    work = [(1, "all"), (1, "50"), (5, "all"), (1, "10"), (5, "50"), (5, "10")]
    rows = tuple(
        (f"{'FedSGD' if (e, b) == (1, 'all') else 'FedAvg'}, E = {e}, B = {'∞' if b == 'all' else b}",
         tuple(f"table2-lstm-{p}-E{e}-B{b}" for p in ("iid", "natural"))) for e, b in work
    )  # fmt: skip
    return Grid("Table 2, LSTM on Shakespeare, C = 0.1, rounds to 54 %", ("IID", "by role"), rows)


GRIDS: dict[str, Callable[[], Sequence[Grid]]] = {
    "table1": lambda: (table1("2nn"), table1("cnn")),
    "table2": lambda: (table2_cnn(), table2_lstm()),
}


def introduction(paper: str, found: Mapping[str, Outcome]) -> str:
    """How the numbers came about."""
    seconds = sum(float(outcome.about.get("seconds", 0)) for outcome in found.values())
    devices = ", ".join(sorted({str(outcome.about.get("device")) for outcome in found.values()}))
    runs = sum(len(outcome.trials) for outcome in found.values())
    seeds = max(len(outcome.chosen) for outcome in found.values())
    recorded = f"{len(found)} cells are recorded: {runs} runs in {seconds / 60:.1f} minutes on {devices}."
    return f"""# {paper}, reproduced

Rounds of communication until the best test accuracy so far crosses the target, interpolated between evaluations. The
learning rate of every cell is tuned on a grid with the ratio 10^(1/3), widened while the best is at its edge; the
number is the mean over {seeds} seeds at the best rate. In brackets, how many times fewer than in the first row.
{recorded}
Drawn by `fedloom reproduce {paper} --from-results --page docs/{paper}.md`; cells not recorded are shown as –."""


def filled(grid: Grid, cells: Mapping[str, Cell], found: Mapping[str, Outcome]) -> list[list[str]]:
    """The texts of a table: in each cell everybody's rounds, and in brackets how many times fewer than in the first
    row of the column.
    """
    lines = []
    for row, names in grid.rows:
        texts = [row]
        for column, name in enumerate(names):
            first = grid.rows[0][1][column]
            told = []
            for who, called in WHO.items():
                mine = number(who, name, cells, found)
                base = number(who, first, cells, found)
                if mine is None and who not in ("ours", "paper"):
                    continue
                shown = "–" if mine is None else f"{mine:,.0f}"
                gain = f" ({base / mine:.1f} ×)" if mine and base and name != first else ""
                told.append(f"{called} {shown}{gain}")
            texts.append("\n".join(told))
        lines.append(texts)
    return lines


def number(who: str, name: str, cells: Mapping[str, Cell], found: Mapping[str, Outcome]) -> float | None:
    """Somebody's number for a cell."""
    if who == "ours":
        return found[name].rounds if name in found else None
    return cells[name].published.get(who)


def standing(cells: Sequence[Cell], found: Mapping[str, Outcome]) -> str:
    """How many of the published cells are reached in at most the paper's rounds."""
    told = [cell for cell in cells if cell.published.get("paper") is not None and cell.name in found]
    good = [cell for cell in told if (found[cell.name].rounds or 1e9) <= (cell.published["paper"] or 0)]
    return f"{len(good)} of {len(told)} cells that are recorded and published take at most the paper's rounds"


def markdown(grid: Grid, lines: Sequence[Sequence[str]]) -> str:
    """A table as Markdown."""
    rows = [["", *grid.heads], ["---"] * (1 + len(grid.heads)), *lines]
    return "\n".join("| " + " | ".join(cell.replace("\n", "<br>") for cell in row) + " |" for row in rows)
