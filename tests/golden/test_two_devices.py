import pytest
from golden.gate import ELSEWHERE, cells, check_cost, check_numbers

pytestmark = pytest.mark.filterwarnings(f"default:{ELSEWHERE}")
CELLS = cells("two devices")


@pytest.mark.parametrize(("layout", "name"), CELLS)
def test_numbers_do_not_move(name: str, layout: str) -> None:
    check_numbers(name, layout)


@pytest.mark.parametrize(("layout", "name"), CELLS)
def test_a_round_costs_the_same(name: str, layout: str) -> None:
    check_cost(name, layout)
