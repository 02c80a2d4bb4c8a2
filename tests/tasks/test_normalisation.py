"""The normal form of norms: exact small numbers, and accuracy far from zero."""

import jax.numpy as jnp
import numpy as np
import pytest
from norm_cases import EPSILON, Case, drawn, error, exact, outcomes

from fedloom.tasks.normalisation import normalise, over_groups, rescale, unchanged


def test_small_numbers_by_hand() -> None:
    x = jnp.array([[2.0, 6.0, 1.0, 1.0], [0.0, 4.0, 8.0, 0.0]])
    y, mean, variance = normalise(x, [1], 0.25, jnp.array([1.0, 2.0, 1.0, 1.0]), jnp.array([0.0, 0.0, 0.0, 5.0]))
    assert mean.tolist() == [[2.5], [3.0]] and variance.tolist() == [[4.25], [11.0]]
    a = 4.5**-0.5
    np.testing.assert_allclose(y[0], [-0.5 * a, 7.0 * a, -1.5 * a, 5 - 1.5 * a], rtol=1e-6)
    y, mean, variance = normalise(x, [], 0.0, average=over_groups(1, 2))
    assert mean.tolist() == [[4, 4, 1, 1], [2, 2, 4, 4]] and variance.tolist() == [[4, 4, 0, 0], [4, 4, 16, 16]]
    assert y[1].tolist() == [-1, 1, 1, -1]
    assert rescale(x[:1], jnp.array(2.0), jnp.array(12.0), 4.0, jnp.array(8.0), jnp.array(1.0)).tolist() == [
        [1.0, 9.0, -1.0, -1.0]
    ]


@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_outputs_and_gradients_are_those_of_float64(mean: float) -> None:
    x = drawn(6, 13, 15, 6, mean=mean)
    kinds = [((0, 1, 2), 0), ((1, 2), 0), ((1, 2), 3), ((1, 2, 3), 0), ((3,), 0)]

    def case(axes: tuple[int, ...], groups: int) -> Case:
        average = over_groups(3, groups) if groups else unchanged
        return lambda x: (normalise(x, axes, EPSILON, average=average)[0], ()), (x,)

    found = outcomes({str(kind): case(*kind) for kind in kinds})
    for kind in kinds:
        y, gradient = exact(x, *kind)
        assert error(found[str(kind)]["y"], y) < 1e-6 and error(found[str(kind)]["gradients"][0], gradient) < 1e-6


def test_a_part_that_is_far_from_the_rest_costs_little() -> None:
    x = drawn(4, 64, 8)
    x[:, :4] += 1000  # the part whose mean is subtracted first
    assert error(normalise(jnp.asarray(x), [1], EPSILON)[0], exact(x, (1,))[0]) < 1e-5


@pytest.mark.parametrize("epsilon", [1e-12, 0.1])
def test_equal_numbers_become_zero(epsilon: float) -> None:
    x = np.full((2, 48), 1e6 + 1 / 3, np.float32)
    found = outcomes({"": (lambda x: (normalise(x, [1], epsilon)[0], ()), (x,))})[""]
    assert np.abs(found["y"]).max() < 1e-3 and np.isfinite(found["gradients"][0]).all()


def test_nan_and_infinity_reach_their_own_group_only() -> None:
    for bad in (np.nan, np.inf):
        x = drawn(2, 3, 4)
        x[0, 1, 2] = bad
        y = np.asarray(normalise(jnp.asarray(x), [2], EPSILON)[0])
        assert np.isnan(y[0, 1]).all() and np.isfinite(np.delete(y.reshape(6, 4), 1, 0)).all()


def test_bfloat16_is_summed_in_float32() -> None:
    x = jnp.asarray(drawn(4, 300, mean=10.0), jnp.bfloat16)
    y, mean, _ = normalise(x, [1], EPSILON)
    assert y.dtype == mean.dtype == jnp.float32
    assert error(y, exact(np.asarray(x, np.float32), (1,))[0]) < 1e-6


def test_no_numbers_give_no_numbers() -> None:
    assert normalise(jnp.zeros((2, 0, 4)), [2], EPSILON)[0].shape == (2, 0, 4)
