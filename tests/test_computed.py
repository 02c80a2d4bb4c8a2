import jax
import jax.numpy as jnp

from fedloom.computed import computed


def test_arrays_stay_as_they_are_and_what_is_broken_stays_broken() -> None:
    x, y = jnp.arange(3), jnp.array([1.0, jnp.nan])
    a, b = jax.jit(computed)(jnp.asarray(False), x, y)
    assert a.tolist() == [0, 1, 2] and b[0] == 1 and jnp.isnan(b[1])
    assert jnp.isnan(jax.jit(computed)(jnp.asarray(True), x, y)[1][1])
    assert "while" in jax.jit(computed).lower(jnp.asarray(False), x, y).compile().as_text()
