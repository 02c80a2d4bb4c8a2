import pytest

from fedloom.errors import MANY, FedloomWarning, UnknownName, warn


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(UnknownName, match=r"^data must be one of cifar10, mnist, but is 'minst'$"):
        raise UnknownName("data", "minst", ["mnist", "cifar10"])


def test_of_very_many_choices_the_nearest_are_listed() -> None:
    names = [f"cell-{i}" for i in range(MANY + 1)]
    with pytest.raises(UnknownName) as caught:
        raise UnknownName("only", "cell-7x", names)
    said = str(caught.value)
    assert said.startswith(f"only must be one of {MANY + 1} names, the nearest being cell-7, ")
    assert said.count("cell-") == 7  # six, and what was asked for


def test_a_warning_points_at_the_line_outside_the_package() -> None:
    with pytest.warns(FedloomWarning, match=r"^two rows are empty$") as caught:
        warn("two rows are empty")
    assert caught[0].filename == __file__
