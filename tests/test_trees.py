from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedloom import ditto, fedavg, fedprox, trees
from fedloom.combine import median


def test_where_selects_by_the_leading_axes() -> None:
    a, b = {"w": jnp.ones((2, 3))}, {"w": jnp.zeros((2, 3))}
    assert trees.where(jnp.array([True, False]), a, b)["w"].tolist() == [[1, 1, 1], [0, 0, 0]]


def test_flatten_and_unflatten_are_inverse_with_optimiser_state() -> None:
    params = {"w": jnp.arange(3.0)}
    tree = {"p": params, "o": optax.adam(0.1).init(params)}
    back = trees.unflatten(tree, trees.flatten(tree))
    assert trees.flatten(back).keys() == trees.flatten(tree).keys()
    np.testing.assert_array_equal(back["p"]["w"], params["w"])


def test_nbytes_counts_types() -> None:
    assert trees.nbytes({"a": np.zeros(3, np.float32), "b": np.zeros(2, np.uint8)}) == 14


def test_the_structures_of_different_records_differ() -> None:
    """With equal ones a compiled function may run the program of another class, depending on addresses in memory."""
    structures = [jax.tree.structure(made) for made in (fedprox(), ditto(), fedavg(), fedavg(combiner=median()))]
    assert all(a != b for a, b in combinations(structures, 2))
    assert jax.tree.structure(fedprox()) == jax.tree.structure(fedprox(0.5))
