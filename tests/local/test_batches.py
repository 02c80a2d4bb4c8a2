"""Which examples a step trains on, and how many steps there are."""

from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.errors import ArgumentError
from fedloom.local import Batches, sgd
from fedloom.shuffle import words

KEY = words(jax.random.key(3))
SIZES = np.array([0, 1, 12, 640])


def rows_of(batches: Batches, n: int, rows: int) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    steps = int(batches.steps(jnp.int32(n), rows))
    parts = [batches.batch(jnp.int32(t), jnp.int32(n), KEY, rows) for t in range(steps)]
    return [(np.asarray(a), np.asarray(b), bool(c.is_last)) for a, b, c in parts]


def test_an_epoch_sees_every_example_once_and_the_next_in_another_order() -> None:
    steps = rows_of(sgd(epochs=2, batch_size=4).batches, n=10, rows=4)
    assert len(steps) == 6
    seen = [place[share > 0].tolist() for place, share, _ in steps]
    first, second = (list(chain.from_iterable(part)) for part in (seen[:3], seen[3:]))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_the_short_last_batch_counts_with_its_true_weight() -> None:
    _, share, last = rows_of(sgd(batch_size=4).batches, n=10, rows=4)[2]
    assert share.tolist() == [0.5, 0.5, 0, 0]
    assert last


def test_a_whole_set_is_one_batch_of_several_steps() -> None:
    batches = sgd(batch_size=None, epochs=2, microbatch=4).batches
    rows = batches.rows(np.array([10]))
    assert rows == 4
    assert batches.accumulates(rows, 10)
    assert not batches.accumulates(10, 10)
    steps = rows_of(batches, 10, rows)
    assert [last for *_, last in steps] == [False, False, True] * 2
    np.testing.assert_allclose(sum(share.sum() for _, share, _ in steps[:3]), 1, rtol=1e-6)
    assert sorted(chain.from_iterable(place[share > 0].tolist() for place, share, _ in steps[:3])) == list(range(10))


def test_a_batch_larger_than_every_client_is_cut() -> None:
    assert sgd(batch_size=50).batches.rows(np.array([30, 10])) == 30


def test_a_whole_set_is_computed_in_pieces_that_small_clients_fill() -> None:
    batches, sizes = sgd(batch_size=None, microbatch=200).batches, np.array([640] + [12] * 99)
    rows = batches.rows(sizes)
    assert rows == 16  # 99 × 12 + 640 = 1,828 examples in (99 + 40) × 16 = 2,224 rows; by 32 they would be 3,808
    assert batches.rows(np.array([3, 3, 12])) == 6  # fewer than 16: halves
    assert batches.rows(np.full(100, 600)) == 200
    assert batches.most_steps(sizes) == 40


def test_an_accelerator_gets_larger_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, sizes = sgd(batch_size=None).batches, np.array([600, 600])
    assert batches.rows(sizes) == 200
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert batches.rows(sizes) == 600
    assert sgd(batch_size=None, microbatch=100).batches.rows(sizes) == 100


def test_the_learning_rate_decays_by_round() -> None:
    batches = sgd(lr=0.5, decay=0.5).batches
    assert [float(batches.rate(jnp.int32(r))) for r in range(3)] == [0.5, 0.25, 0.125]


def test_epochs_go_on_from_round_to_round_with_a_period() -> None:
    batches = sgd(period=3, batch_size=4).batches
    assert [int(batches.steps_before(jnp.int32(r))) for r in range(3)] == [0, 3, 6]
    assert [int(batches.shuffle_round(jnp.int32(r))) for r in range(3)] == [0, 0, 0]
    assert batches.steps(SIZES, 4).tolist() == batches.moves(SIZES).tolist() == [0, 3, 3, 3]
    epochs = sgd(batch_size=4).batches
    assert [int(epochs.steps_before(jnp.int32(r))) for r in range(3)] == [0, 0, 0]
    assert [int(epochs.shuffle_round(jnp.int32(r))) for r in range(3)] == [0, 1, 2]


def test_epochs_for_private_layers_take_steps_but_do_not_move_the_shared_ones() -> None:
    each = Batches(0.1, 1.0, 3, batch_size=10, head_epochs=2)
    assert each.all_epochs == 5
    assert each.steps(SIZES, 10).tolist() == each.moves(SIZES).tolist() == [0, 5, 10, 320]
    assert each.shared_moves(SIZES).tolist() == [0, 3, 6, 192]
    whole = Batches(0.1, 1.0, 3, batch_size=None, head_epochs=2)
    assert whole.steps(SIZES, 10).tolist() == [0, 5, 10, 320]
    assert whole.moves(SIZES).tolist() == [0, 5, 5, 5]
    assert whole.shared_moves(SIZES).tolist() == [0, 3, 3, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.0}, "lr must be above 0, but is 0.0"),
        ({"epochs": 0}, "epochs must be at least 1, but is 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"decay": 1.5}, "decay must be above 0 and at most 1, but is 1.5"),
        ({"microbatch": 0}, "microbatch must be at least 1"),
        ({"period": 0}, "period must be at least 1 step"),
    ],
)
def test_bad_numbers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Batches(**{"lr": 0.1, "decay": 1.0, "epochs": 1, "batch_size": 10, "microbatch": None, **options}).checked()
