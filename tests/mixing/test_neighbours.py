from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import points, quadratic

from fedloom.algorithms import local_only, personalised
from fedloom.combine import Replies, by_accuracy, by_loss, uniform
from fedloom.data import FederatedData
from fedloom.engines import compiled
from fedloom.errors import ArgumentError, UnknownName
from fedloom.mixing import neighbours
from fedloom.mixing.neighbours import distances
from fedloom.runs import run
from fedloom.tasks import Variables, logistic
from fedloom.trees import member

Make = Callable[..., FederatedData]
TASK = logistic(inputs=4, classes=3)
LAYOUTS: list[dict[str, Any]] = [{}, {"lanes": 3, "devices": 1}]
SIZES = [30, 12, 21, 9, 15]
LOCAL: dict[str, Any] = {"batch_size": 4, "epochs": 2}


def models(data: FederatedData, algorithm: Any, layout: dict[str, Any], rounds: int = 1) -> Any:
    program = compiled(**layout).program(data, TASK, [algorithm], [3])
    return jax.tree.map(np.asarray, member(program.advance(program.init(), 0, rounds)[0], 0).variables.params)


def told(there: jax.Array) -> Replies:
    return Replies(jnp.ones(len(there)), there, {})


def stack(*points: float) -> Variables:
    return Variables({"w": jnp.array(points)[:, None]}, {})


@pytest.mark.parametrize(("rule", "layout"), [(by_accuracy(), LAYOUTS[1]), (by_loss(0.5), LAYOUTS[0])])
def test_all_the_others_are_everybody(validated: Make, rule: Any, layout: dict[str, Any]) -> None:
    data = validated(SIZES)
    few = models(data, personalised(fraction=1.0, weighting=rule, peers=9, **LOCAL), layout, 2)
    every = models(data, personalised(fraction=1.0, weighting=rule, **LOCAL), layout, 2)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), few, every)


@pytest.mark.parametrize(("by", "layout"), [("nearest", LAYOUTS[1])])
def test_each_mix_is_of_those_that_were_picked(validated: Make, by: str, layout: dict[str, Any]) -> None:
    data, algorithm = (
        validated(SIZES),
        personalised(fraction=1.0, weighting=by_loss(0.5), peers=2, peers_by=by, **LOCAL),
    )
    done = run(data, TASK, algorithm, rounds=1, seed=3, users=True, evaluate=["test"], engine=compiled(**layout))
    m = done.users.last("mixing")
    assert ((m > 0).sum(1) == 3).all() and (np.diag(m) > 0).all()
    np.testing.assert_allclose(m.sum(1), 1, rtol=1e-6)
    trained = models(data, local_only(fraction=1.0, **LOCAL), layout)
    mixed = jax.tree.map(lambda a: np.einsum("ij,j...->i...", m, a), trained)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), mixed, done.variables.params)
    losses = np.full((5, 5), np.inf)
    for i, j in zip(*np.nonzero(m), strict=True):
        rows = data.examples("validation", int(i))
        batch = {name: column[rows] for name, column in data.columns.items()}
        model = Variables(jax.tree.map(lambda a, j=j: a[j], trained), {})
        losses[i, j] = float(TASK.metrics(model, batch)["loss"].mean())
    weights = np.exp(-losses / 0.5)
    np.testing.assert_allclose(m, weights / weights.sum(1, keepdims=True), rtol=1e-3)


def test_the_nearest_are_the_nearest() -> None:
    mixer, there = neighbours(uniform, peers=1, by="nearest"), jnp.ones(4, bool)
    who = mixer.pick(jax.random.key(0), told(there), 4, stack(0.0, 1.0, 5.0, 7.0))
    assert who.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    away = mixer.pick(jax.random.key(0), told(there.at[1].set(False)), 3, stack(0.0, 1.0, 5.0, 7.0))
    assert away.tolist()[0] == [0, 2]
    np.testing.assert_allclose(distances(stack(0.0, 3.0), jnp.ones(2, bool)), [[np.inf, 9], [9, np.inf]])


def test_others_are_drawn_from_those_present_and_anew() -> None:
    mixer, there = neighbours(uniform, peers=2), jnp.array([True, False, True, True, False, True])
    seen = set()
    for key in range(8):
        who = np.asarray(mixer.pick(jax.random.key(key), told(there), 4, stack(*range(6))))
        assert (who[:, 0] == np.arange(6)).all()
        for user in (0, 2, 3, 5):
            others = set(who[user, 1:].tolist())
            assert len(others) == 2 and others <= {0, 2, 3, 5} - {user}
        seen.add(tuple(who[0, 1:].tolist()))
    assert len(seen) > 2


def test_a_broken_model_spoils_only_the_mixes_it_is_in() -> None:
    who = jnp.array([[0, 1], [1, 0], [2, 0]])
    replies = Replies(jnp.ones(3), jnp.ones(3, bool), {})
    mixed = neighbours(uniform, peers=1).mix(replies, stack(2.0, jnp.nan, 4.0), who).params["w"][:, 0]
    assert np.isnan(mixed[:2]).all() and mixed[2] == 3.0


def test_what_is_sent_is_what_is_picked() -> None:
    done = run(points([1.0] * 6), quadratic(), personalised(fraction=1.0, peers=2), rounds=1, evaluate=["test"])
    assert done.history.last("bytes_up") == 6 * 2 * 8


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="peers must be at least 1, but is 0"):
        personalised(peers=0)
    with pytest.raises(UnknownName, match="peers_by must be one of nearest, random, but is 'richest'"):
        personalised(peers=2, peers_by="richest")


def test_who_is_lost_is_not_replaced_by_oneself() -> None:
    """With four peers of which one is lost, the nearest are the three others, and oneself counts once."""
    replies = Replies(jnp.ones(5), jnp.array([True, True, False, True, True]), {})
    mixer = neighbours(uniform, peers=4, by="nearest")
    stack = Variables({"w": jnp.arange(5.0)[:, None]}, {})
    who = mixer.pick(jax.random.key(0), replies, 5, stack)
    assert mixer.matrix(replies, who)[0].tolist() == [0.25, 0.25, 0, 0.25, 0.25]
