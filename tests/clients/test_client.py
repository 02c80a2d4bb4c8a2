import jax
import jax.numpy as jnp
import numpy as np
import pytest
from broadcasts import told

import fedloom as fl
from fedloom.clients import Broadcast
from fedloom.shuffle import shuffle


@pytest.mark.parametrize(("n", "size"), [(11, 4), (3, 10)])
def test_batches_are_those_of_the_compiled_engine(n: int, size: int) -> None:
    local, key = fl.local.sgd(epochs=3, batch_size=size), jnp.array([5, 6], jnp.uint32)
    rows = local.batches.rows(np.array([n, 11]))  # where the largest client has eleven examples
    batch = jax.jit(lambda step: local.batches.batch(step, jnp.int32(n), key, rows)[:2])
    found = list(told({}, epochs=3, batch_size=size, key=(5, 6)).batches(n))
    assert len(found) == int(local.batches.steps(np.array(n), rows))
    for step, mine in enumerate(found):
        wanted, share = map(np.asarray, batch(jnp.int32(step)))
        assert mine.tolist() == wanted[share > 0].tolist()
        assert share.sum() == pytest.approx(1.0)


def test_every_epoch_is_another_permutation() -> None:
    batches = list(told({}, epochs=2, batch_size=6, key=(1, 2)).batches(6))
    key = jnp.array([1, 2], jnp.uint32)
    for epoch, rows in enumerate(batches):
        assert rows.tolist() == shuffle(jnp.arange(6), jnp.int32(6), key, epoch).tolist()
        assert sorted(rows.tolist()) == list(range(6))
    assert batches[0].tolist() != batches[1].tolist()


def test_all_examples_as_one_batch_are_in_their_order() -> None:
    assert [rows.tolist() for rows in told({}, epochs=2, batch_size=None).batches(3)] == [[0, 1, 2], [0, 1, 2]]


def test_nobodys_examples_are_no_batches() -> None:
    assert list(told({}, batch_size=4).batches(0)) == []
    assert list(told({}, batch_size=None).batches(0)) == []


def test_a_seed_is_one_number_that_differs_with_the_key() -> None:
    assert Broadcast({}, 0, 0.1, 1, 1, (0, 5)).seed == 5
    assert Broadcast({}, 0, 0.1, 1, 1, (1, 5)).seed != Broadcast({}, 0, 0.1, 1, 1, (2, 5)).seed
    assert 0 <= Broadcast({}, 0, 0.1, 1, 1, (2**32 - 1, 2**32 - 1)).seed < 2**31
