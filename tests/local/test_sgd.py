from itertools import chain

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedloom.errors import ArgumentError, UnknownName
from fedloom.local import Sent, Sgd, Step, Turn, private, sgd
from fedloom.shuffle import words
from fedloom.tasks import logistic

KEY = words(jax.random.key(3))
TURN = Turn(jnp.asarray(True), jnp.int32(0))


def rows_of(local: Sgd, n: int, rows: int) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    steps = int(local.steps(jnp.int32(n), rows))
    parts = [local.batch(jnp.int32(t), jnp.int32(n), KEY, rows) for t in range(steps)]
    return [(np.asarray(a), np.asarray(b), bool(c.last)) for a, b, c in parts]


def test_an_epoch_sees_every_example_once_and_the_next_in_another_order() -> None:
    steps = rows_of(sgd(epochs=2, batch_size=4), n=10, rows=4)
    assert len(steps) == 6
    seen = [place[share > 0].tolist() for place, share, _ in steps]
    first, second = (list(chain.from_iterable(part)) for part in (seen[:3], seen[3:]))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_the_short_last_batch_counts_with_its_true_weight() -> None:
    _, share, last = rows_of(sgd(batch_size=4), n=10, rows=4)[2]
    assert share.tolist() == [0.5, 0.5, 0, 0]
    assert last


def test_a_whole_set_is_one_batch_of_several_steps() -> None:
    local = sgd(batch_size=None, epochs=2, microbatch=4)
    rows = local.rows(np.array([10]))
    assert rows == 4
    steps = rows_of(local, 10, rows)
    assert [last for *_, last in steps] == [False, False, True] * 2
    np.testing.assert_allclose(sum(share.sum() for _, share, _ in steps[:3]), 1, rtol=1e-6)
    assert sorted(chain.from_iterable(place[share > 0].tolist() for place, share, _ in steps[:3])) == list(range(10))


def test_a_batch_larger_than_every_client_is_cut() -> None:
    assert sgd(batch_size=50).rows(np.array([30, 10])) == 30


def test_a_whole_set_is_computed_in_pieces_that_small_clients_fill() -> None:
    local, sizes = sgd(batch_size=None, microbatch=200), np.array([640] + [12] * 99)
    rows = local.rows(sizes)
    assert rows == 16  # 99 × 12 + 640 = 1,828 examples in (99 + 40) × 16 = 2,224 rows; by 32 they would be 3,808
    assert local.rows(np.array([3, 3, 12])) == 6  # fewer than 16: halves
    assert local.rows(np.full(100, 600)) == 200


def test_the_learning_rate_decays_by_round() -> None:
    local = sgd(lr=0.5, decay=0.5)
    assert [float(local.rate(jnp.int32(r))) for r in range(3)] == [0.5, 0.25, 0.125]


def test_any_optax_optimiser_takes_its_own_step() -> None:
    task, local = logistic(inputs=2, classes=2), sgd(lr=0.1, optimizer=optax.adam)
    variables = task.init(jax.random.key(0))
    batch = {"x": jnp.ones((1, 2)), "y": jnp.array([0])}
    work = local.start(Sent(variables, {}), {}, 0.1, accumulates=False)
    moved = local.step(task, work, Step(batch, jnp.ones(1), TURN, 0.1, jax.random.key(0))).variables
    change = moved.params["output"]["w"] - variables.params["output"]["w"]
    np.testing.assert_allclose(jnp.abs(change), 0.1, rtol=1e-4)  # Adam's first step is lr in every direction


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.0}, "lr must be above 0, but is 0.0"),
        ({"epochs": 0}, "epochs must be at least 1, but is 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"decay": 1.5}, "decay must be above 0 and at most 1, but is 1.5"),
        ({"microbatch": 0}, "microbatch must be at least 1"),
    ],
)
def test_bad_arguments(options: dict[str, float], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        sgd(**options)  # type: ignore[arg-type]


def test_an_unknown_optimiser_lists_the_known() -> None:
    with pytest.raises(
        UnknownName, match="optimizer must be one of adagrad, adam, momentum, rmsprop, sgd, but is 'lion'"
    ):
        sgd(optimizer="lion")


@pytest.mark.parametrize("microbatch", [None, 4, 30])
def test_a_whole_set_is_one_step_in_however_many_pieces(microbatch: int | None) -> None:
    local, sizes = sgd(batch_size=None, epochs=3, microbatch=microbatch), np.array([0, 1, 12, 640])
    assert local.taken(sizes).tolist() == [0, 3, 3, 3]
    assert private("output", local, head_epochs=2).taken(sizes).tolist() == [0, 5, 5, 5]
    assert sgd(batch_size=10, epochs=2).taken(sizes).tolist() == [0, 2, 4, 128]
    assert private("output", sgd(batch_size=10, period=5)).taken(sizes).tolist() == [0, 5, 5, 5]
    assert private("output", sgd(batch_size=10), head_epochs=2).taken(sizes).tolist() == [0, 3, 6, 192]


def test_an_accelerator_gets_larger_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    local, sizes = sgd(batch_size=None), np.array([600, 600])
    assert local.rows(sizes) == 200
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert local.rows(sizes) == 600
    assert sgd(batch_size=None, microbatch=100).rows(sizes) == 100
