from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedloom.algorithms import fedavg, local_only, personalised
from fedloom.combine import Replies, by_accuracy, by_loss, by_size, excluding, uniform
from fedloom.data import FederatedData, Ranges
from fedloom.engines import compiled
from fedloom.errors import ArgumentError
from fedloom.local import sgd
from fedloom.mixing import personal
from fedloom.runs import run
from fedloom.tasks import logistic
from fedloom.trees import member

Make = Callable[..., FederatedData]
TASK = logistic(inputs=4, classes=3)
LAYOUTS: list[dict[str, Any]] = [{}, {"lanes": 3, "devices": 1}]


def models(data: FederatedData, algorithm: Any, rounds: int, layout: dict[str, Any], seed: int = 3) -> Any:
    program = compiled(**layout).program(data, TASK, [algorithm], [seed])
    return jax.tree.map(np.asarray, member(program.advance(program.init(), 0, rounds)[0], 0).variables.params)


def close(a: Any, b: Any) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5), a, b)


@pytest.mark.parametrize(("weighting", "layout"), [(uniform, LAYOUTS[0]), (by_size, LAYOUTS[1])])
def test_everybodys_plain_average_is_the_servers(generated: Make, weighting: Any, layout: dict[str, Any]) -> None:
    data = generated([30, 12, 21, 9, 15])
    own = models(data, personalised(fraction=1.0, weighting=weighting, batch_size=4, epochs=2), 3, layout)
    shared = models(data, fedavg(weighting=weighting, fraction=1.0, batch_size=4, epochs=2), 3, layout)
    for k in range(5):
        close(jax.tree.map(lambda a, k=k: a[k], own), shared)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_local_only_is_as_many_runs_as_there_are_users(generated: Make, layout: dict[str, Any]) -> None:
    data = generated([30, 12, 21])
    own = models(data, local_only(fraction=1.0, batch_size=None, epochs=2, lr=0.3), 3, layout)
    for k in range(3):
        whole = data.clients["train"]
        mine = {"train": Ranges(whole.start[k : k + 1], whole.size[k : k + 1])}
        alone = FederatedData(data.name, data.columns, data.classes, data.index, mine, data.central)
        close(
            jax.tree.map(lambda a, k=k: a[k], own), models(alone, fedavg(batch_size=None, epochs=2, lr=0.3), 3, layout)
        )


@pytest.mark.parametrize(
    ("rule", "layout"),
    [(by_accuracy(), LAYOUTS[0]), (by_loss(0.5), LAYOUTS[1]), (excluding(0.5, among=by_size), LAYOUTS[0])],
)
def test_each_users_mix_is_made_of_what_it_reads(validated: Make, rule: Any, layout: dict[str, Any]) -> None:
    data = validated([30, 12, 21, 9, 15])
    local = {"batch_size": 4, "epochs": 2}
    trained = models(data, local_only(fraction=1.0, **local), 1, layout)
    mixed = models(data, personalised(fraction=1.0, weighting=rule, **local), 1, layout)
    variables = TASK.init(jax.random.key(0))
    for i in range(5):
        rows = data.examples("validation", i)
        batch = {name: column[rows] for name, column in data.columns.items()}
        read = []
        for j in range(5):
            model = type(variables)(jax.tree.map(lambda a, j=j: a[j], trained), {})
            read.append(float(TASK.metrics(model, batch)[rule.readings[0].metric].mean()))
        if rule.readings[0].metric == "loss":
            weights = np.exp(-np.array(read) / 0.5)
        elif rule.describe().get("exclude"):
            weights = np.where(
                np.array(read) >= np.mean(read) - 0.5 * np.std(read) - 1e-6, data.clients["train"].size, 0
            )
        else:
            weights = np.array(read) + 1e-6
        weights = weights / weights.sum()
        wanted = jax.tree.map(lambda a, w=weights: np.tensordot(w, a, 1), trained)
        close(jax.tree.map(lambda a, i=i: a[i], mixed), wanted)


def test_who_does_not_take_part_keeps_its_model(generated: Make) -> None:
    data = generated([9] * 6)
    program = compiled().program(data, TASK, [personalised(fraction=0.5)], [0])
    start = program.init()
    here = set(program.cohorts(0, 1)[0, 0].tolist())
    assert len(here) == 3
    before, after = (member(s, 0).variables.params["output"]["w"] for s in (start, program.advance(start, 0, 1)[0]))
    for k in range(6):
        assert np.array_equal(before[k], after[k]) == (k not in here)


def test_evaluation_is_of_each_users_own_model(validated: Make) -> None:
    data = validated([30, 12, 21])
    for layout in LAYOUTS:
        program = compiled(**layout).program(data, TASK, [local_only(fraction=1.0)], [0])
        state = program.advance(program.init(), 0, 2)[0]
        params = member(state, 0).variables.params
        variables = TASK.init(jax.random.key(0))
        correct, loss = [], []
        for k in range(3):
            batch = {name: column[data.examples("validation", k)] for name, column in data.columns.items()}
            found = TASK.metrics(type(variables)(jax.tree.map(lambda a, k=k: a[k], params), {}), batch)
            correct += found["accuracy"].tolist()
            loss += found["loss"].tolist()
        got = program.evaluate(state, "validation")
        assert sorted(got) == ["own_validation_accuracy", "own_validation_loss"]
        assert got["own_validation_accuracy"][0] == pytest.approx(np.mean(correct), rel=1e-5)
        assert got["own_validation_loss"][0] == pytest.approx(np.mean(loss), rel=1e-5)
        on_all = program.evaluate(state, "test")  # these belong to no client: every client's model is measured on all
        assert {name: value.shape for name, value in on_all.items()} == {
            "own_on_all_test_accuracy": (1,), "own_on_all_test_loss": (1,)
        }  # fmt: skip


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="fraction must be between 0 and 1, but is 2"):
        personalised(fraction=2)
    with pytest.raises(ArgumentError, match="lr must be above 0"):
        local_only(lr=0)
    with pytest.raises(ArgumentError, match="local must be given alone"):
        personalised(local=sgd(), lr=0.1)


def test_a_run_counts_what_everybody_sends(validated: Make) -> None:
    data, size = validated([9, 9, 9]), 4 * (4 * 3 + 3)
    done = run(
        data, TASK, personalised(fraction=1.0, weighting=by_accuracy()), rounds=2, evaluate=("validation", "test")
    )
    assert done.history.last("bytes_up") == 2 * 3 * 2 * size  # in two rounds, three send to two each
    assert done.variables.params["output"]["w"].shape == (3, 4, 3)
    alone = run(data, TASK, local_only(fraction=1.0), rounds=2)
    assert alone.history.last("bytes_up") == 0


def test_a_personalised_run_is_resumed_with_the_same_numbers(validated: Make, tmp_path: Path) -> None:
    data = validated([9, 12, 15])
    whole = run(data, TASK, personalised(fraction=1.0, weighting=by_loss()), rounds=4)
    run(data, TASK, personalised(fraction=1.0, weighting=by_loss()), rounds=2, directory=tmp_path / "a")
    again = run(data, TASK, personalised(fraction=1.0, weighting=by_loss()), rounds=4, directory=tmp_path / "a")
    jax.tree.map(np.testing.assert_array_equal, again.variables, whole.variables)


def test_nobody_has_the_data_to_judge_by(generated: Make) -> None:
    with pytest.raises(
        ArgumentError, match="weighting must be possible: it reads clients' validation data; give clients some"
    ):
        run(generated([9, 9]), TASK, personalised(fraction=1.0, weighting=by_accuracy()), rounds=1)
    with pytest.raises(
        ArgumentError, match="data must be one whose examples fit on the device, since users have models of their own"
    ):
        run(generated([9, 9]), TASK, local_only(fraction=1.0), rounds=1, engine=compiled(stream=True))
    with pytest.raises(ArgumentError, match=r"fraction must be enough for 2 of 5 users to meet, but is 0\.1"):
        run(generated([9] * 5), TASK, personalised(), rounds=1)


def test_models_may_be_judged_before_they_are_trained(validated: Make) -> None:
    data = validated([30, 12, 21])
    early, late = (models(data, personalised(fraction=1.0, weighting=by_loss(0.05, moment=m)), 2, {})
                   for m in ("before", "after"))  # fmt: skip
    assert not np.allclose(early["output"]["w"], late["output"]["w"])
    first = models(data, personalised(fraction=1.0, weighting=by_loss(0.05, moment="before")), 1, {})
    plain = models(data, personalised(fraction=1.0, weighting=uniform), 1, {})
    close(first, plain)  # before the first round all models are the same


def test_a_model_that_broke_spoils_only_the_mixes_it_is_in() -> None:
    stack = {"w": jnp.array([[1.0], [jnp.nan], [3.0]])}
    told = Replies(jnp.ones(3), jnp.array([True, True, True]), {"validation_accuracy_after": jnp.array(
        [[0.9, 0.0, 0.9], [0.9, 0.0, 0.9], [0.9, 0.0, 0.9]])})  # fmt: skip
    mixed = personal(excluding(1.0, among=uniform)).mix(told, stack)
    np.testing.assert_allclose(mixed["w"], [[2.0], [2.0], [2.0]])
    absent = Replies(jnp.ones(3), jnp.array([True, False, True]), {})
    mixed = personal(uniform).mix(absent, stack)["w"]
    np.testing.assert_allclose(mixed[jnp.array([0, 2])], [[2.0], [2.0]])
    assert jnp.isnan(mixed[1, 0])
    everybody = personal(uniform).mix(Replies(jnp.ones(3), jnp.ones(3, bool), {}), stack)["w"]
    assert jnp.isnan(everybody).all()


def test_several_experiments_in_one_program(validated: Make) -> None:
    data = validated([30, 12, 21])
    rules = [personalised(fraction=1.0, weighting=by_loss(t)) for t in (0.05, 5.0)]
    engine = compiled(lanes=2, devices=1)
    both = engine.program(data, TASK, rules, [0, 1])
    together = both.advance(both.init(), 0, 2)[0].variables
    for i, rule in enumerate(rules):
        single = engine.program(data, TASK, [rule], [i])
        close(member(together, i), member(single.advance(single.init(), 0, 2)[0].variables, 0))
