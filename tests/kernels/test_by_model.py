"""One call for all models, however many axes they are laid out on."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from fedloom.kernels.by_model import by_model

Both = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


def spied() -> tuple[Both, list[tuple[int, ...]]]:
    """A function that was not traced before, and the shapes that it will have seen."""
    seen: list[tuple[int, ...]] = []

    @by_model
    def both(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        seen.append(a.shape)
        return a + b, a.sum(1)

    return both, seen


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_what_all_share_is_given_to_each(axes: tuple[int | None, int | None]) -> None:
    a, b = (jnp.array([5.0, 7.0]) if axis is None else jnp.arange(6.0).reshape(3, 2) + k for k, axis in enumerate(axes))
    both, seen = spied()
    one = lambda a, b: tuple(y[0] for y in both(a[None], b[None]))  # noqa: E731
    total, of_a = jax.vmap(one, axes)(a, b)
    assert seen[-1] == (3, 2)
    assert (total == a + b).all()
    assert (of_a == jnp.broadcast_to(a, (3, 2)).sum(1)).all()


def test_several_axes_become_one() -> None:
    a, b = jnp.arange(24.0).reshape(3, 4, 2), jnp.arange(8.0).reshape(4, 2)
    both, seen = spied()
    one = lambda a, b: both(a[None], b[None])[0][0]  # noqa: E731
    found = jax.vmap(jax.vmap(one), (0, None))(a, b)
    assert seen[-1] == (12, 2)
    assert (found == a + b).all()
