from fedloom.recipes.above import above
from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.layout import Entry, Grid
from fedloom.recipes.part import Found


def grid(*entries: Entry) -> Grid:
    return Grid("Toy", ("",) * len(entries), (("", entries),))


def outcome(*took: tuple[float, int]) -> Outcome:
    """Runs with rates and how many rounds each took; at half of that, each was halfway."""
    trials = (Trial(lr, 1.0, i, "", ((0, 0.1), (n // 2, 0.5), (n, 0.9))) for i, (lr, n) in enumerate(took))
    return Outcome("", tuple(trials), {})


def test_it_is_told_whether_seeds_explain_what_is_above_the_papers() -> None:
    tables = [grid(*(Entry(name, 0.9, {"paper": 50}) for name in ("lucky", "slow", "below", "missing")))]
    outcomes = {
        "lucky": outcome((0.1, 40), (0.1, 80)),
        "slow": outcome((0.1, 60), (0.1, 80), (0.2, 100)),
        "below": outcome((0.1, 40), (0.1, 50)),
    }
    told = above(tables, Found(outcomes))
    assert told == (
        "Above the paper's: `lucky` (60, the paper 50; the fastest of its 2 runs, with 1 rate, took 40, so seeds "
        "decide), `slow` (70, the paper 50; of its 3 runs, with 2 rates, none was there in 50, the nearest at 50.00%, "
        "so seeds and rates do not explain it)."
    )


def test_what_some_seeds_or_all_did_not_reach_is_above_too() -> None:
    entry = Entry("a", 0.9, {"paper": 50})
    never = Trial(0.1, 1.0, 9, "did 75 rounds", ((0, 0.1), (50, 0.4), (75, 0.6)))
    some = Outcome("a", (*outcome((0.1, 60)).trials, never), {})
    none = Outcome("a", (never,), {})
    assert above([grid(entry)], Found({"a": some})) == (
        "Above the paper's: `a` (60 with 1 of 2 seeds, the paper 50; of its 2 runs, with 1 rate, none was there in 50, "
        "the nearest at 50.00%, so seeds and rates do not explain it)."
    )
    assert above([grid(entry)], Found({"a": none})) == (
        "Above the paper's: `a` (not in 75 (best 60.00%), the paper 50; of its 1 run, with 1 rate, none was there in "
        "50, the nearest at 40.00%, so seeds and rates do not explain it)."
    )


def test_what_was_not_run_that_far_is_not_above() -> None:
    easier = Outcome("a", (Trial(0.1, 1.0, 0, "test accuracy reached 0.8", ((0, 0.1), (60, 0.8))),), {})
    assert above([grid(Entry("a", 0.9, {"paper": 50}))], Found({"a": easier})) == ""


def test_where_nothing_is_above_nothing_is_said() -> None:
    entry = Entry("a", 0.9, {"paper": 50})
    assert above([grid(entry)], Found({"a": outcome((0.1, 50))})) == ""
    assert above([grid(entry)], Found()) == ""
    assert above([grid(Entry("a", 0.9, {"paper": None}))], Found({"a": outcome((0.1, 50))})) == ""
