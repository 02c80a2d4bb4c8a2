"""Combiners by hand, as properties, and in every engine that knows them."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from often import often
from quadratic import points, quadratic

import fedloom as fl
from fedloom.combine import Combiner, Replies, by_size, clipped, combined, mean, median, trimmed
from fedloom.combine.ordered import ordered
from fedloom.data import FederatedData
from fedloom.engines import compiled
from fedloom.errors import ArgumentError, CheckpointError
from fedloom.local import Local, LocalWrapper
from fedloom.tasks import Variables, logistic
from fedloom.trees import flatten, member, record, static

Make = Callable[..., FederatedData]
TASK = logistic(inputs=4, classes=3)
SIZES = [30, 12, 21, 9, 15, 18, 24]
NAN = float("nan")


def made(combiner: Combiner, values: Any, sizes: Any = None, present: Any = None) -> Any:
    """What becomes of one number from each client."""
    m = len(values)
    replies = Replies(jnp.ones(m) if sizes is None else jnp.array(sizes, jnp.float32),
                      jnp.ones(m, bool) if present is None else jnp.array(present), {})  # fmt: skip
    return combined(by_size, Variables({"w": jnp.array(values, jnp.float32)}, {}), replies, combiner).params["w"]


@pytest.mark.parametrize(
    ("combiner", "values", "wanted"),
    [
        (median(), [3.0, 1.0, 2.0], 2.0),
        (median(), [4.0, 1.0, 2.0, 8.0], 3.0),
        (median(), [7.0], 7.0),
        (median(), [1.0, 1.0, 1.0, 5.0], 1.0),
        (median(), [-5.0, 5.0], 0.0),
        (trimmed(0.25), [0.0, 2.0, 4.0, 100.0], 3.0),
        (trimmed(0.25), [0.0, 2.0, 4.0], 2.0),  # ⌊0.75⌋ = 0 are left out
        (trimmed(0.2), [1.0, 1.0, 4.0, 4.0, 7.0], 3.0),
        (trimmed(0.4), [5.0, 1.0, 2.0, 9.0, 3.0], 3.0),
        (trimmed(0.0), [1.0, 2.0, 6.0], 3.0),
        (mean, [1.0, 2.0, 6.0], 3.0),
    ],
)
def test_by_hand(combiner: Combiner, values: list[float], wanted: float) -> None:
    assert float(made(combiner, values)) == wanted


@pytest.mark.parametrize("combiner", [median(), trimmed(0.1), trimmed(0.4), clipped(9.0), clipped(9.0, median())])
def test_who_has_no_weight_is_not_there_or_not_finite_does_not_count(combiner: Combiner) -> None:
    alone = float(made(combiner, [1.0, 2.0, 4.0]))
    assert float(made(combiner, [1.0, 1e6, 2.0, -8.0, 4.0], [1, 0, 1, 0, 1])) == alone
    assert float(made(combiner, [1.0, 1e6, 2.0, NAN, 4.0], present=[True, False, True, False, True])) == alone
    assert float(made(combiner, [1.0, NAN, 2.0, np.inf, 4.0])) == alone
    assert float(made(combiner, [1.0, 5.0], present=[False, False])) == 0
    assert float(made(combiner, [NAN, -np.inf])) == 0


def test_a_mean_of_what_is_not_finite_is_not() -> None:
    assert np.isnan(made(mean, [1.0, NAN]))


def test_a_reply_with_one_number_that_is_not_finite_is_left_out_altogether() -> None:
    values = [[1.0, 1.0], [2.0, NAN], [3.0, 5.0]]
    assert made(median(), values).tolist() == [2.0, 3.0]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=9), st.floats(0, 0.499), st.randoms())
def test_between_the_least_and_the_largest_whatever_the_order(values: list[float], share: float, rng: Any) -> None:
    turned = rng.sample(values, len(values))
    for combiner in (median(), trimmed(share)):
        found = float(made(combiner, values))
        assert min(values) - 1e-3 <= found <= max(values) + 1e-3
        assert found == float(made(combiner, turned))
    assert float(made(median(), values)) == pytest.approx(np.median(values), rel=1e-6, abs=1e-30)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 8, 9, 31, 64, 100])
def test_the_network_sorts(m: int) -> None:
    x = np.random.default_rng(m).integers(-5, 5, (m, 40, 2)).astype(np.float32)
    np.testing.assert_array_equal(ordered(jnp.asarray(x)), np.sort(x, axis=0))


@pytest.mark.parametrize("share", ["0.1", "0.29", "0.3", "0.35", "0.07", "0.49"])
def test_as_many_are_left_out_as_the_share_says_in_whole_numbers(share: str) -> None:
    """Of 0, 1, 4, 9, … of which none is left out without being missed."""
    for m in (1, 3, 10, 20, 29, 100):
        values, k = np.arange(m, dtype=np.float64) ** 2, int(Fraction(share) * m)
        assert float(made(trimmed(float(share)), values)) == pytest.approx(values[k : m - k].mean(), rel=1e-5)


def test_a_long_reply_is_shortened_and_a_short_one_is_not() -> None:
    update = Variables({"a": jnp.array([3.0]), "b": jnp.array([4.0])}, {"mean": jnp.array([100.0])})
    short, counts = clipped(2.5).heard(update)
    assert (short.params["a"].tolist(), short.params["b"].tolist()) == ([1.5], [2.0])
    assert short.state["mean"].tolist() == [100.0]  # statistics are no steps
    assert bool(counts)
    same, _ = clipped(5.0).heard(update)
    assert jax.tree.all(jax.tree.map(np.array_equal, same, update))


def test_clipping_weighs_as_the_mean_does() -> None:
    assert float(made(clipped(2.0), [1.0, -8.0, 4.0], [1, 1, 2])) == pytest.approx((1 - 2 + 2 * 2) / 4)
    assert float(made(clipped(2.0, median()), [1.0, -8.0, 4.0], [1, 1, 2])) == 1.0


def test_bad_numbers() -> None:
    for share in (-0.1, 0.5, NAN):
        with pytest.raises(ArgumentError, match=r"trim must be at least 0 and below 0\.5"):
            trimmed(share)
    with pytest.raises(ArgumentError, match="clip must be above 0, but is -1"):
        clipped(-1)
    with pytest.raises(ArgumentError, match="combiner must be one that takes a mean, with a weighting that divides"):
        fl.qfedavg(1.0, combiner=median())
    assert fl.qfedavg(1.0, combiner=clipped(1.0)).combiner == clipped(1.0)


@record
class Lying(LocalWrapper):
    """Work of a liar, who is known by the number of its examples: its reply is multiplied by a factor."""

    inner: Local
    factor: Any
    size: int = static()

    def end(self, work: Any, sent: Any, state: Any, client: Any) -> Any:
        reply, lies = self.inner.end(work, sent, state, client), client.examples == self.size
        return jax.tree.map(lambda u: jnp.where(lies, self.factor * u, u), reply)

    def label(self) -> str:
        return f"lying({float(self.factor)})"


def outcome(data: FederatedData, algorithm: Any, rounds: int = 3, engine: Any = None) -> Any:
    program = (engine or compiled()).program(data, TASK, [algorithm], [5])
    return member(program.advance(program.init(), 0, rounds)[0], 0)


def moved(data: FederatedData, combiner: Combiner, factor: float, work: Any = lambda local: local) -> float:
    """How far a liar (the client with 12 examples) moves the model."""
    ends = [outcome(data, fl.fedavg(fraction=1.0, combiner=combiner,
                                    local=Lying(work(fl.local.sgd(batch_size=4)), f, 12))).variables
            for f in (1.0, factor)]  # fmt: skip
    first, second = (np.concatenate([a.ravel() for a in flatten(end).values()]) for end in ends)
    return float(np.abs(first - second).max())


@pytest.mark.parametrize("factor", [1e6, NAN])
def test_a_liar_moves_the_mean_and_not_the_others(generated: Make, factor: float) -> None:
    data = generated(SIZES)
    assert not moved(data, mean, factor) < 100
    for combiner in (median(), trimmed(0.2), clipped(0.05), clipped(0.5, median())):
        assert moved(data, combiner, factor) < 0.15


def test_nothing_of_a_broken_reply_reaches_what_is_told_aside_or_kept(generated: Make) -> None:
    data = generated(SIZES)
    assert moved(data, median(), NAN, fl.local.scaffold) < 0.3
    how = fl.fedavg(
        fraction=1.0, combiner=median(), local=Lying(fl.local.scaffold(fl.local.sgd(batch_size=4)), NAN, 12)
    )
    assert all(np.isfinite(a).all() for a in flatten(outcome(data, how)).values())


COMBINERS = {"median": median(), "trimmed": trimmed(0.2), "clipped": clipped(0.05), "both": clipped(0.05, median())}
ALGORITHMS: dict[str, Callable[..., Any]] = {
    "fedavg": fl.fedavg,
    "fedprox": fl.fedprox,
    "scaffold": fl.scaffold,
    "ditto": fl.ditto,
    "adam": lambda **options: fl.fedavg(server=fl.server("adam", lr=0.01), **options),
    "by accuracy": lambda **options: fl.fedavg(weighting=fl.combine.by_accuracy("training"), **options),
    "excluding": lambda **options: fl.fedavg(weighting=fl.combine.excluding(0.5, on="training"), **options),
}


PAIRS = {
    f"{name}, {combiner}": (name, combiner)
    for name, combiner in (
        ("by accuracy", "both"), ("scaffold", "clipped"), ("fedavg", "median"), ("fedavg", "clipped"),
        ("fedprox", "trimmed"), ("ditto", "trimmed"), ("adam", "median"), ("excluding", "both"),
    )
}  # fmt: skip


@pytest.mark.parametrize("pair", often(PAIRS, ("by accuracy, both", "scaffold, clipped")))
def test_one_device_and_several_with_lanes_agree(generated: Make, pair: str) -> None:
    name, combiner = PAIRS[pair]
    algorithm, data = ALGORITHMS[name](fraction=0.7, batch_size=4, combiner=COMBINERS[combiner]), generated(SIZES)
    one, several = (
        outcome(data, algorithm, 2, engine).variables for engine in (compiled(devices=1), compiled(lanes=2))
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6), several, one)


@pytest.mark.parametrize(("name", "engine"), [("fedavg", None), ("by accuracy", compiled(devices=1, lanes=3))])
def test_clipped_to_infinity_is_plain_bit_for_bit(generated: Make, engine: Any, name: str) -> None:
    ends = [outcome(generated(SIZES), ALGORITHMS[name](fraction=0.7, batch_size=4, combiner=combiner), 3, engine)
            for combiner in (mean, clipped(np.inf))]  # fmt: skip
    jax.tree.map(np.testing.assert_array_equal, *(flatten(end) for end in ends))


def test_private_layers_stay_at_home() -> None:
    """Medians of the body's updates; of the output's there are none."""
    values, lr = [0.0, 1.0, 8.0], 0.25
    how = fl.fedper("output", fraction=1.0, lr=lr, batch_size=None, combiner=median())
    done = fl.run(points(values), quadratic(), how, rounds=1, evaluate=["test"])
    assert float(done.variables.params["body"]["w"]) == lr * 1.0
    assert float(done.variables.params["output"]["w"]) == 0


def test_numbers_are_swept_in_one_program_and_kinds_are_not(generated: Make) -> None:
    from fedloom.engines.round import advance

    data, engine = generated(SIZES), compiled(lanes=2, devices=1)
    rules = [fl.fedavg(fraction=1.0, combiner=clipped(c, trimmed(s))) for c, s in ((0.02, 0.1), (0.3, 0.3))]
    both = engine.program(data, TASK, rules, [5, 5])
    together = both.advance(both.init(), 0, 2)[0].variables
    for i, rule in enumerate(rules):
        apart = outcome(data, rule, 2, engine).variables
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-4, atol=1e-5), together, apart)
    compiled_before = advance._cache_size()
    outcome(data, fl.fedavg(fraction=1.0, combiner=clipped(0.1, trimmed(0.2))), 2, engine)
    assert advance._cache_size() == compiled_before
    runs = fl.sweep(data, TASK, rules[0], rounds=1, trim=[0.0, 0.4], clip=[0.1])
    assert len({float(run.history.last("test_loss")) for run in runs}) == 2


def test_broken_replies_are_counted(generated: Make) -> None:
    data = generated(SIZES)
    for combiner in (median(), clipped(1.0)):
        how = fl.fedavg(fraction=1.0, combiner=combiner, local=Lying(fl.local.sgd(batch_size=4), NAN, 12))
        done = fl.run(data, TASK, how, rounds=4, every=2, evaluate=["test"])
        assert [row.get("broken", 0) for row in done.history.rows] == [0, 2, 4]
    plain = fl.run(data, TASK, fl.fedavg(fraction=1.0), rounds=1, evaluate=["test"])
    assert "broken" not in plain.history.rows[-1]


def test_a_folder_of_another_combiner_is_refused_and_the_mean_says_nothing(generated: Make, tmp_path: Path) -> None:
    data, described = generated([9, 12]), fl.fedavg().describe()
    assert not {"combine", "trim", "clip"} & set(described)
    assert fl.fedavg(combiner=clipped(2.0, trimmed(0.2))).describe() == {
        **described, "combine": "trimmed", "trim": 0.2, "clip": 2.0}  # fmt: skip
    for i, (first, second) in enumerate(((mean, median()), (median(), mean), (trimmed(0.1), trimmed(0.2)))):
        fl.run(data, TASK, fl.fedavg(fraction=1.0, combiner=first), rounds=1, directory=tmp_path / str(i))
        with pytest.raises(CheckpointError, match="holds another run"):
            fl.run(data, TASK, fl.fedavg(fraction=1.0, combiner=second), rounds=2, directory=tmp_path / str(i))
