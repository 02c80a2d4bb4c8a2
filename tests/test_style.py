"""How figures look."""

from matplotlib.figure import Figure

from fedloom.style import logarithmic


def drawn(*values: float) -> str:
    """What a place between powers of ten is called on an axis with these values."""
    axes = Figure().subplots()
    axes.plot(values)
    logarithmic(axes)
    assert axes.get_yscale() == "log"
    text: str = axes.yaxis.get_minor_formatter()(2.0, 0)
    return text


def test_a_logarithmic_axis_has_plain_numbers_if_it_is_less_than_tenfold() -> None:
    assert drawn(1.5, 4.0) == "2"
    assert drawn(0.01, 4.0) != "2"
