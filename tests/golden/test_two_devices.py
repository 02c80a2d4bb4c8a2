import pytest
from golden.cases import CASES
from golden.gate import ELSEWHERE, check_cost, check_numbers

pytestmark = pytest.mark.filterwarnings(f"default:{ELSEWHERE}")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("layout", ["two devices"])
def test_numbers_do_not_move(name: str, layout: str) -> None:
    check_numbers(name, layout)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("layout", ["two devices"])
def test_a_round_costs_the_same(name: str, layout: str) -> None:
    check_cost(name, layout)
