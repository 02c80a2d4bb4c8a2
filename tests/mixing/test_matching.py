import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import points, quadratic

from fedloom.algorithms import dpa_sgd
from fedloom.combine import Replies
from fedloom.errors import ArgumentError
from fedloom.mixing import graph, matcha, random_pairs
from fedloom.mixing.graph import mutual
from fedloom.mixing.matching import best_share, left, matchings, probabilities, projected
from fedloom.runs import run
from fedloom.tasks import Variables


def told(k: int) -> Replies:
    return Replies(jnp.ones(k), jnp.ones(k, bool), {}, round=jnp.int32(0))


def laplacians(partner: np.ndarray) -> np.ndarray:
    eye = np.eye(partner.shape[1])
    return np.stack([eye - eye[p] for p in partner])


@pytest.mark.parametrize("k", [6, 7])
def test_pairs_are_mutual_and_drawn_anew(k: int) -> None:
    seen = set()
    for key in range(10):
        who = np.asarray(random_pairs.pick(jax.random.key(key), told(k), k, Variables({}, {})))
        assert (who[:, 0] == np.arange(k)).all()
        partner = who[:, 1]
        assert (partner[partner] == np.arange(k)).all()
        assert (partner == np.arange(k)).sum() == k % 2
        seen.add(tuple(partner))
    assert len(seen) > 4
    w = np.asarray(random_pairs.matrix(told(k), jnp.asarray(who)))
    np.testing.assert_allclose(w.sum(0), 1)
    np.testing.assert_allclose(w.sum(1), 1)


@pytest.mark.parametrize("name", ["ring", "star", "torus", "complete", "regular:3"])
def test_matchings_are_the_topology_taken_apart(name: str) -> None:
    found = graph(name, 12)
    partner = matchings(found)
    together = np.zeros((12, 12), int)
    for p in partner:
        assert (p[p] == np.arange(12)).all()
        pairs = p != np.arange(12)
        together[np.arange(12)[pairs], p[pairs]] += 1
    assert (together == found.heard).all()
    assert len(partner) <= 2 * found.degrees.max() - 1


def test_with_the_whole_budget_matcha_is_its_topology() -> None:
    mixer = matcha("torus", 9, budget=1.0)
    np.testing.assert_allclose(mixer.probability, 1)
    who = mixer.pick(jax.random.key(0), told(9), 9, Variables({}, {}))
    w = np.asarray(mixer.matrix(told(9), who))
    assert ((w != 0) == (graph("torus", 9).heard | np.eye(9, dtype=bool))).all()
    np.testing.assert_allclose(w.sum(1), 1, rtol=1e-6)
    assert mixer.moved(9) == 36


def test_a_bridge_is_used_more_often() -> None:
    """Two squares joined by one connection: what joins them matters most."""
    squares = mutual("squares", 8, [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (0, 4)])
    partner = matchings(squares)
    p = probabilities(laplacians(partner), 0.5)
    bridge = next(j for j, row in enumerate(partner) if row[0] == 4)
    assert p[bridge] == p.max() > 0.6
    np.testing.assert_allclose(p.sum(), 0.5 * len(partner), rtol=1e-6)
    connects = lambda p: np.linalg.eigvalsh(np.tensordot(p, laplacians(partner), 1))[1]  # noqa: E731
    others = [(a, b, 1.5 - a - b) for a in np.linspace(0, 1, 41) for b in np.linspace(0, 1, 41) if 0.5 <= a + b <= 1.5]
    assert connects(p) >= max(connects(np.array(o)) for o in others) - 2e-3


def test_what_a_round_leaves_is_the_mean_over_many() -> None:
    partner = matchings(graph("ring", 6))
    lap = laplacians(partner)
    p, rng, share = np.array([0.7, 0.4]), np.random.default_rng(0), 0.3
    mean = np.zeros((6, 6))
    for _ in range(4000):
        w = np.eye(6) - share * np.tensordot(rng.random(2) < p, lap, 1)
        mean += w.T @ w / 4000
    np.testing.assert_allclose(left(lap, p, share), np.abs(np.linalg.eigvalsh(mean - 1 / 6)).max(), rtol=0.02)
    best = best_share(lap, p)
    assert all(left(lap, p, best) <= left(lap, p, a) + 1e-6 for a in np.linspace(0.05, 1, 20))


def test_projection_keeps_the_sum() -> None:
    found = projected(np.array([0.9, 0.2, -0.4, 2.0]), 1.5)
    np.testing.assert_allclose(found.sum(), 1.5, atol=1e-9)
    assert (found >= 0).all() and (found <= 1).all()


@pytest.mark.parametrize("mixer", [random_pairs, matcha("ring", 6)], ids=["pairs", "matcha"])
def test_workers_agree_in_time(mixer: object) -> None:
    data = points([4.0, -1.0, 2.0, 0.5, 3.0, -2.0])
    done = run(data, quadratic(), dpa_sgd(mixer, period=1, lr=0.02), rounds=100, evaluate=["test"], users=True)  # type: ignore[arg-type]
    models = np.asarray(done.variables.params["body"]["w"]) * 2
    assert abs(models.mean() - np.mean([4.0, -1.0, 2.0, 0.5, 3.0, -2.0])) < 0.2
    assert np.ptp(models) < 1.5
    np.testing.assert_allclose(done.users.last("mixing").sum(0), 1, rtol=1e-5)


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="budget must be above 0 and at most 1, but is 0"):
        matcha("ring", 6, budget=0)
    with pytest.raises(ArgumentError, match="a topology must be one whose workers hear each other, for MATCHA"):
        matcha("exponential", 8)
