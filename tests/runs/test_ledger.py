from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from fedloom.runs.ledger import Cost, add_cost, cost_of_models

COUNTS = st.integers(0, 2**62)
COST = st.builds(Cost, st.integers(1, 9), COUNTS, COUNTS, COUNTS, st.floats(0, 9), st.integers(0, 9))
COSTS = st.lists(COST, min_size=1)


@given(COSTS)
def test_every_column_but_the_norm_is_a_sum_from_the_start(costs: list[Cost]) -> None:
    row = reduce(add_cost, costs, {"round": 0})
    totals = {name: sum(getattr(cost, name) for cost in costs) for name in ("steps", "bytes_up", "bytes_down")}
    assert {name: row[name] for name in totals} == totals  # exact, also above 2**53
    assert row["round"] == sum(cost.rounds for cost in costs)
    assert row["broken"] == sum(cost.rejected or 0 for cost in costs)
    assert row["update_norm"] == costs[-1].update_norm


def test_models_are_counted_in_bytes_and_other_columns_of_the_row_are_left() -> None:
    cost = cost_of_models(5, steps=7, models_up=3, models_down=6, model_bytes=10, update_norm=1.5)
    row = add_cost({"round": 2, "steps": 1, "bytes_up": 4, "bytes_down": 0, "test_loss": 0.1, "seconds": 9.0}, cost)
    assert row == {"round": 7, "steps": 8, "bytes_up": 34, "bytes_down": 60, "update_norm": 1.5}
