from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.algorithms import fedavg
from fedloom.combine import Replies, Weighting, by_accuracy, by_loss, by_size, excluding, reading, uniform
from fedloom.combine.weighting import BySize, with_directions
from fedloom.data import FederatedData
from fedloom.engines import compiled
from fedloom.errors import ArgumentError, CheckpointError, UnknownDirection, UnknownName
from fedloom.runs import run
from fedloom.tasks import Variables, logistic
from fedloom.trees import member, record

Make = Callable[..., FederatedData]
AFTER = "validation_accuracy_after"
TASK = logistic(inputs=4, classes=3)


def replies(values: list[float], present: list[bool] | None = None, name: str = AFTER) -> Replies:
    here = [True] * len(values) if present is None else present
    return Replies(jnp.arange(1.0, len(values) + 1), jnp.array(here), {name: jnp.array(values)})


def test_by_accuracy_weighs_in_proportion() -> None:
    np.testing.assert_allclose(by_accuracy().weigh(replies([0.2, 0.4])), [0.2, 0.4], rtol=1e-4)


def test_where_all_accuracies_are_zero_all_count_the_same() -> None:
    weights = by_accuracy().weigh(replies([0.0, 0.0]))
    assert weights[0] == weights[1] > 0


def test_by_loss_is_a_softmax() -> None:
    loss = np.array([0.5, 2.0, 1.0])
    weights = by_loss(temperature=0.5).weigh(replies(loss.tolist(), name="validation_loss_after"))
    wanted = np.exp(-loss / 0.5) / np.exp(-loss / 0.5).sum()
    np.testing.assert_allclose(weights / weights.sum(), wanted, rtol=1e-6)
    far = by_loss(temperature=1e-3).weigh(replies([900.0, 901.0], name="validation_loss_after"))
    assert far.tolist() == [1.0, 0.0]  # and not 0 / 0


def test_whoever_is_far_below_the_mean_is_left_out() -> None:
    values = [0.9, 0.9, 0.9, 0.1]  # mean 0.7, deviation 0.346
    assert excluding(z=1.0).weigh(replies(values)).tolist() == [1, 2, 3, 0]
    assert excluding(z=2.0).weigh(replies(values)).tolist() == [1, 2, 3, 4]
    assert excluding(z=1.0, among=uniform).weigh(replies(values)).tolist() == [1, 1, 1, 0]


def test_for_a_loss_it_is_far_above() -> None:
    rule = excluding(z=1.0, among=uniform, metric="loss")
    assert rule.weigh(replies([0.1, 0.1, 0.1, 0.9], name="validation_loss_after")).tolist() == [1, 1, 1, 0]


def test_clients_with_a_far_higher_error_are_excluded() -> None:
    rule = excluding(z=1.0, among=uniform, metric="error")
    assert rule.weigh(replies([0.1, 0.1, 0.1, 0.9], name="validation_error_after")).tolist() == [1, 1, 1, 0]


def test_excluding_by_a_metric_without_a_direction_is_refused() -> None:
    rule, told = excluding(metric="mae", among=uniform), replies([0.1, 0.1, 0.1, 0.9], name="validation_mae_after")
    with pytest.raises(UnknownDirection, match="'validation_mae'"):
        rule.weigh(told)
    assert with_directions(rule, {"mae": "lower"}).weigh(told).tolist() == [1, 1, 1, 0]
    assert with_directions(rule, {"mae": "higher"}).weigh(told).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("values", [[0.5], [0.3, 0.3, 0.3], [0.0, 0.0], [0.1] * 7, [0.0, 1.0]])
def test_somebody_always_stays(values: list[float]) -> None:
    weights = excluding(z=1e-9, among=uniform).weigh(replies(values))
    assert weights.sum() >= 1
    if len(set(values)) == 1:
        assert weights.tolist() == [1] * len(values)


def test_who_is_not_there_enters_neither_mean_nor_deviation() -> None:
    rule = excluding(z=1.0, among=uniform)
    with_nobody = rule.weigh(replies([0.9, 0.9, 0.9, 0.1, 0.0, 0.0], [True] * 4 + [False] * 2))
    assert with_nobody[:4].tolist() == [1, 1, 1, 0]


def test_infinitely_many_deviations_leave_out_nobody() -> None:
    assert excluding(z=float("inf")).weigh(replies([0.0, 1.0, 0.5, 0.5])).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_what_is_no_number_takes_nobody_else_out(broken: float) -> None:
    losses = replies([broken, 0.1, 0.1, 0.2], name="validation_loss_after")
    assert by_loss().weigh(losses)[0] == 0
    assert (by_loss().weigh(losses)[1:] > 0).all()
    assert excluding(z=2.0, among=uniform, metric="loss").weigh(losses).tolist() == [0, 1, 1, 1]
    assert excluding(z=2.0, among=uniform).weigh(replies([float("nan"), 0.5, 0.5])).tolist() == [0, 1, 1]


def test_a_softmax_is_among_those_who_stay() -> None:
    told = Replies(jnp.ones(4), jnp.ones(4, bool), {AFTER: jnp.array([0.1, 0.9, 0.9, 0.9]),
                   "validation_loss_after": jnp.array([0.1, 3.0, 3.1, 3.2])})  # fmt: skip
    weights = excluding(z=1.0, among=by_loss(0.02)).weigh(told)
    assert weights[0] == 0
    assert weights[1] == 1


def test_a_client_that_was_left_out_cannot_spoil_the_mean(validated: Make) -> None:
    """Its update is no number; it weighs nothing."""
    data, task = validated([30, 12, 21]), logistic(inputs=4, classes=3)
    data.columns["x"][data.examples("train", 1)[0]] = np.nan
    done = run(data, task, fedavg(fraction=1.0, weighting=excluding(5.0, metric="loss")), rounds=2, evaluate=["test"])
    assert np.isfinite(done.history.last("test_loss"))


def test_what_it_reads() -> None:
    rule = excluding(among=by_accuracy("training", "before"))
    assert [r.name for r in rule.readings] == [AFTER, "train_accuracy_before"]
    assert excluding(among=by_accuracy()).readings == (reading(),)
    assert rule.describe() == {"weighting": "train_accuracy_before", "exclude": 1.0, "exclude_by": AFTER}


@pytest.mark.parametrize("z", [0, -1.0, float("nan")])
def test_a_bad_number_of_deviations(z: float) -> None:
    with pytest.raises(ArgumentError, match="exclude must be above 0 deviations"):
        excluding(z=z)


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="temperature must be above 0, but is 0"):
        by_loss(temperature=0)
    with pytest.raises(UnknownName, match="moment must be one of after, before, but is 'later'"):
        by_accuracy(moment="later")
    with pytest.raises(UnknownName, match="on must be one of test, training, validation"):
        by_accuracy(on="holdout")


@record
class Only(BySize):
    """Who has so many examples counts, nobody else does."""

    size: Any

    def weigh(self, replies: Replies) -> Any:
        return (replies.examples == self.size).astype(jnp.float32)


@pytest.fixture(scope="module")
def everyone(validated: Make) -> tuple[FederatedData, list[tuple[Variables, Variables]]]:
    """Five clients: the model that is sent, and what each makes of it."""
    data = validated([30, 12, 21, 9, 15])

    def alone(k: int) -> tuple[Variables, Variables]:
        only = fedavg(fraction=1.0, weighting=Only(data.clients["train"].size[k]), batch_size=4, epochs=2)
        program = compiled().program(data, TASK, [only], [7])
        start = program.init()
        return member(start, 0).variables, member(program.advance(start, 0, 1)[0], 0).variables

    return data, [alone(k) for k in range(len(data))]


RULES: list[Weighting] = [
    by_accuracy(),
    by_accuracy("training", "before"),
    by_loss(0.3),
    excluding(0.5, among=by_size),
    excluding(0.5, among=by_accuracy("training"), metric="loss", moment="before"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.describe()))
@pytest.mark.parametrize("lanes", [pytest.param(None, marks=pytest.mark.slow), 3])
def test_the_engine_weighs_what_each_client_read(everyone: Any, rule: Any, lanes: int | None) -> None:
    """On every core, and in three lanes: the mean of all replies, each judged on its own data by NumPy."""
    data, made = everyone
    read = {need.name: [] for need in rule.readings}
    for k, (sent, model) in enumerate(made):
        for need in rule.readings:
            rows = data.examples(need.part, k)
            batch = {name: column[rows] for name, column in data.columns.items()}
            values = TASK.metrics(model if need.moment == "after" else sent, batch)
            read[need.name].append(float(values[need.metric].mean()))
    told = Replies(jnp.asarray(data.clients["train"].size, jnp.float32), jnp.ones(5, bool),
                   {name: jnp.array(values) for name, values in read.items()})  # fmt: skip
    weights = np.asarray(rule.weigh(told))
    shares, models = weights / weights.sum(), [model for _, model in made]
    wanted = jax.tree.map(lambda *w: sum(p * a for p, a in zip(shares, w, strict=True)), *models)
    engine = compiled() if lanes is None else compiled(lanes=lanes, devices=1)
    algorithm = fedavg(fraction=1.0, weighting=rule, batch_size=4, epochs=2)
    program = engine.program(data, TASK, [algorithm], [7])
    got = member(program.advance(program.init(), 0, 1)[0], 0).variables
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), got, wanted)


def test_infinite_exclusion_is_plain_averaging(validated: Make) -> None:
    data, task = validated([30, 12, 21, 9, 15]), logistic(inputs=4, classes=3)
    runs = [
        run(data, task, fedavg(fraction=0.6, weighting=rule), rounds=3) for rule in (by_size, excluding(float("inf")))
    ]
    first, second = (r.history.column("test_loss") for r in runs)
    np.testing.assert_allclose(first, second, rtol=1e-5)


def test_a_part_that_is_nobodys_is_read_by_the_server(generated: Make) -> None:
    data, task = generated([8, 8], test=40), logistic(inputs=4, classes=3)
    central = {"test": data.central["test"][:20], "validation": data.central["test"][20:]}
    data = FederatedData(data.name, data.columns, data.classes, data.index, data.clients, central)
    kept, streamed = (run(data, task, fedavg(fraction=1.0, weighting=by_loss(0.01)), rounds=2,
                          engine=compiled(stream=s)).history.column("test_loss") for s in (False, True))  # fmt: skip
    np.testing.assert_allclose(kept, streamed, rtol=1e-6)
    plain = run(data, task, fedavg(fraction=1.0), rounds=2).history.column("test_loss")
    assert not np.allclose(kept, plain)


def test_nobody_has_what_is_read(generated: Make, validated: Make) -> None:
    data, task = generated([8, 8]), logistic(inputs=4, classes=3)
    with pytest.raises(
        ArgumentError,
        match=r"weighting must be possible: it reads clients' validation data; give clients some .* or hold some out",
    ):
        run(data, task, fedavg(weighting=by_accuracy()), rounds=1)
    some = validated([8, 2, 2])
    with pytest.raises(
        ArgumentError,
        match="possible: it reads validation data, but client 1 and 1 more have none, but is 'validation_acc",
    ):
        run(some, task, fedavg(weighting=by_accuracy()), rounds=1)
    with pytest.raises(UnknownName, match="the metric of a weighting must be one of accuracy, loss, but is 'f1'"):
        run(validated([8, 8]), task, fedavg(weighting=excluding(metric="f1")), rounds=1)


def test_weightings_are_swept_side_by_side(validated: Make) -> None:
    """Experiments that differ in a temperature are members of one program."""
    data, task = validated([30, 12, 21]), logistic(inputs=4, classes=3)
    rules = [fedavg(fraction=1.0, weighting=by_loss(t)) for t in (0.01, 100.0)]
    engine = compiled(lanes=2, devices=1)
    both = engine.program(data, task, rules, [0, 0])
    together = both.advance(both.init(), 0, 2)[0].variables
    for i, rule in enumerate(rules):
        single = engine.program(data, task, [rule], [0])
        apart = single.advance(single.init(), 0, 2)[0].variables
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b[0], rtol=1e-4, atol=1e-5), together, apart)


def test_a_folder_of_another_weighting_is_refused_both_ways(validated: Make, tmp_path: Path) -> None:
    data, task = validated([9, 12]), logistic(inputs=4, classes=3)
    for first, second in ((excluding(), by_size), (by_size, excluding())):
        folder = tmp_path / type(first).__name__
        run(data, task, fedavg(fraction=1.0, weighting=first), rounds=1, directory=folder)
        with pytest.raises(CheckpointError, match="holds another run"):
            run(data, task, fedavg(fraction=1.0, weighting=second), rounds=2, directory=folder)
