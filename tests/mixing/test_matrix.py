import numpy as np
import pytest

from fedloom.errors import ArgumentError, UnknownName
from fedloom.mixing import from_matrix, gossip, matcha, pushed
from fedloom.mixing.graph import GRAPHS, graph
from fedloom.mixing.matrix import (
    checked,
    keeps_mean,
    metropolis,
    optimised,
    uniform_neighbours,
    weights,
    zeta,
)


@pytest.mark.parametrize("name", sorted(set(GRAPHS) - {"sparse", "exponential"}))
def test_metropolis_keeps_the_mean_on_any_graph(name: str) -> None:
    w = weights("metropolis", graph(name, 16))
    assert keeps_mean(w) and 0 <= zeta(w) < 1
    assert ((w > 0) == (graph(name, 16).heard | np.diag(w.diagonal() > 0))).all()


@pytest.mark.parametrize("workers", [5, 8])
def test_zeta_of_a_ring_is_the_cosine(workers: int) -> None:
    """The eigenvalues of a ring with thirds are (1 + 2 cos 2πk/K) / 3."""
    wanted = sorted(abs((1 + 2 * np.cos(2 * np.pi * k / workers)) / 3) for k in range(workers))[-2]
    np.testing.assert_allclose(zeta(metropolis(graph("ring", workers))), wanted, rtol=1e-12)


def test_uniform_neighbours_keep_the_mean_only_where_all_have_as_many() -> None:
    assert keeps_mean(uniform_neighbours(graph("torus", 9)))
    assert keeps_mean(weights("uniform", graph("exponential", 8)))
    assert not keeps_mean(uniform_neighbours(graph("star", 5)))


@pytest.mark.parametrize("name", ["line", "star", "regular", "small-world"])
def test_optimised_weights_are_no_worse(name: str) -> None:
    found = graph(name, 12)
    w = optimised(found)
    assert zeta(w) < zeta(metropolis(found))
    np.testing.assert_allclose(w.sum(axis=0), 1, atol=1e-9)
    assert (w[~found.heard & ~np.eye(12, dtype=bool)] == 0).all()


def test_the_best_weights_of_a_line_are_known() -> None:
    """Halves on every connection: ζ = cos(π/K) (Boyd et al. 2009)."""
    np.testing.assert_allclose(zeta(optimised(graph("line", 10))), np.cos(np.pi / 10), rtol=2e-3)


def test_bad_matrices() -> None:
    with pytest.raises(ArgumentError, match=r"a mixing matrix must be one whose rows sum to 1 \(row 1\), but is 0.5"):
        checked(np.array([[1.0, 0.0], [0.25, 0.25]]))
    with pytest.raises(ArgumentError, match=r"a mixing matrix must be a square, but is \(1, 2\)"):
        checked(np.array([[0.5, 0.5]]))
    with pytest.raises(ArgumentError, match=r"must be uniform where .* \(--neighbours uniform, weights=\"uniform\"\)"):
        metropolis(graph("exponential", 8))
    with pytest.raises(UnknownName, match="weights must be one of metropolis, optimised, uniform, but is 'fair'"):
        weights("fair", graph("ring", 5))


def test_a_mixer_is_for_as_many_workers_as_there_are() -> None:
    for mixer in (from_matrix(np.eye(4)), matcha("ring", 4), gossip("ring", 4), pushed("ring", 4)):
        assert mixer.sized(4) is mixer
        with pytest.raises(ArgumentError, match="for 6 workers, as many as there are clients, but is 'for 4'"):
            mixer.sized(6)
    assert len(from_matrix(np.stack([np.eye(4), np.eye(4)])).index) == 2
    with pytest.raises(ArgumentError, match="a mixing matrix must be K × K, or several stacked, but is"):
        from_matrix(np.ones(4))
