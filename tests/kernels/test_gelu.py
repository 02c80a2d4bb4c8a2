"""The kernels of GELU against JAX's GELU in float64 and against PyTorch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.kernels.processor import reason

torch = pytest.importorskip("torch")
if reason():
    pytest.skip(reason(), allow_module_level=True)

from fedloom.kernels.gelu import gelu  # noqa: E402

X = np.linspace(-12, 12, 4099, dtype=np.float32)


@pytest.mark.parametrize("approximate", [False, True])
def test_as_accurate_as_torch(approximate: bool) -> None:
    """Neither the result nor the gradient is further from the exact one than PyTorch's."""
    exact = lambda x: jax.nn.gelu(x, approximate=approximate)  # noqa: E731
    with jax.enable_x64(True):
        wide = jnp.asarray(X.astype(float))
        expected = [np.asarray(exact(wide)), np.asarray(jax.vmap(jax.grad(exact))(wide))]
    found, pull = jax.vjp(lambda x: gelu(approximate, x), jnp.asarray(X))
    x = torch.from_numpy(X).requires_grad_()
    theirs = torch.nn.functional.gelu(x, approximate="tanh" if approximate else "none")
    theirs.sum().backward()
    kernels, torchs = (found, pull(jnp.ones_like(found))[0]), (theirs.detach(), x.grad)
    for ours, other, right in zip(kernels, torchs, expected, strict=True):
        error, limit = (np.abs(np.asarray(a) - right).max() for a in (ours, other))
        assert error <= max(1.3 * limit, 3e-7)


@pytest.mark.parametrize("approximate", [False, True])
def test_ends_and_nan(approximate: bool) -> None:
    """Far numbers are kept or become zero; a number that is none stays so."""
    found = np.asarray(gelu(approximate, jnp.array([[0.0, 50.0], [-50.0, jnp.nan]])))
    assert found[:1].tolist() == [[0.0, 50.0]]
    assert abs(found[1, 0]) <= 1e-6
    assert np.isnan(found[1, 1])


def test_several_models() -> None:
    """Mapped over models it is one larger array."""
    x = jnp.arange(6.0).reshape(2, 3)
    assert jnp.array_equal(jax.vmap(lambda x: gelu(True, x))(x), gelu(True, x))
