import sys
from pathlib import Path

import numpy as np
import pytest

from fedloom.errors import ArgumentError, MissingExtra
from fedloom.mixing.drawing import draw_graph, layout
from fedloom.mixing.graph import graph
from fedloom.mixing.matrix import weights
from fedloom.mixing.spread import candidates, sparsest, spread


def test_the_condition_of_the_bound_by_hand() -> None:
    found = spread(graph("ring", 4))
    np.testing.assert_allclose(found.zeta, 1 / 3, rtol=1e-12)
    np.testing.assert_allclose(found.steps(2), 64 * ((1 + 1 / 9) / (1 - 1 / 9) * 2 - 1) ** 2, rtol=1e-9)
    assert found.links == 8 and found.keeps_mean
    with pytest.raises(ArgumentError, match="period must be at least 1 step, but is 0"):
        found.steps(0)


def test_advice_is_to_exchange_more_often_where_that_helps() -> None:
    assert "exchange more often" in spread(graph("ring", 30)).advice(10)
    assert "costs little" in spread(graph("complete", 4)).advice(1)


@pytest.mark.parametrize("gap", [0.01, 0.1, 0.4, 1.0])
def test_the_sparsest_is_good_enough_and_no_sparser_one_is(gap: float) -> None:
    found = sparsest(36, gap)
    assert found.gap >= gap - 1e-9
    assert all(spread(g).gap < gap for g in candidates(36) if g.heard.sum() < found.links)


def test_a_gap_that_cannot_be() -> None:
    with pytest.raises(ArgumentError, match="the gap must be above 0 and at most 1, but is 0"):
        sparsest(10, 0)


@pytest.mark.parametrize("name", ["ring", "line", "torus", "star", "regular:3"])
def test_a_picture_has_every_worker_and_connection(name: str, tmp_path: Path) -> None:
    found = graph(name, 12)
    figure = draw_graph(found, np.arange(12), label="accuracy", file=tmp_path / "graph.png")
    lines, dots = figure.axes[0].collections
    assert len(lines.get_paths()) == found.heard.sum() // 2
    assert len(dots.get_offsets()) == len(np.unique(layout(found).round(6), axis=0)) == 12
    assert (tmp_path / "graph.png").stat().st_size > 5000


def test_weights_below_zero_keep_the_mean_too() -> None:
    star = graph("star", 6)
    assert weights("optimised", star).min() < 0
    assert spread(star, "optimised").keeps_mean
    assert not spread(star, "uniform").keeps_mean


def test_the_sparsest_topology_is_refused_where_random_ones_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without networkx another topology would be named, which has more connections."""
    assert sparsest(64, 0.3).graph.name == "random 8-regular"
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtra, match=r"this needs networkx: pip install 'fedloom\[topology\]'"):
        sparsest(64, 0.3)
