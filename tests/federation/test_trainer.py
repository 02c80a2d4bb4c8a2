"""A server and participants compute what the simulation computes, by every algorithm that has a server."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from line_client import LineClient
from often import often
from quadratic import points

import fedloom as fl
from fedloom.algorithms import Method
from fedloom.data import FederatedData
from fedloom.data.federated import Ranges
from fedloom.errors import ArgumentError, DivergedError
from fedloom.federation.arithmetic import Arithmetic, Contribution, arithmetic
from fedloom.federation.course import about, about_one
from fedloom.federation.trainer import SHARE, LocalTrainer
from fedloom.federation.wire_pb2 import Welcome
from fedloom.tasks import Task
from fedloom.trees import flatten, member

K, SEED, ROUNDS = 3, 3, 2
STEP = {"lr": 0.1, "batch_size": 4, "epochs": 2, "fraction": 1.0}


def data() -> FederatedData:
    """Three clients of one size, each with examples to train on, to validate and to test."""
    draw = np.random.default_rng(0)
    sizes = np.array([6, 6, 6])
    x = draw.normal(size=(3 * sizes.sum(), 5)).astype(np.float32)
    y = (x[:, 0] + 0.3 * x[:, 1] > 0).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(3 * sizes)[:-1]])
    parts = {part: Ranges((starts + i * sizes).astype(np.int32), sizes.astype(np.int32))
             for i, part in enumerate(("train", "validation", "test"))}  # fmt: skip
    return FederatedData("toy", {"x": x, "y": y}, 2, np.arange(len(x), dtype=np.int32), parts, {})


DATA = data()
TASK = fl.tasks.two_nn(5, hidden=6, classes=2)
ALGORITHMS: dict[str, Callable[[], Method]] = {
    "fedavg": lambda: fl.fedavg(**STEP),
    "fedsgd": lambda: fl.fedsgd(lr=0.1, fraction=1.0),
    "fedprox": lambda: fl.fedprox(0.1, **STEP),
    "scaffold": lambda: fl.scaffold(**STEP),
    "ditto": lambda: fl.ditto(0.1, **STEP),
    "fedper": lambda: fl.fedper("output", **STEP),
    "fedrep": lambda: fl.fedrep("output", 1, **STEP),
    "qfedavg": lambda: fl.qfedavg(1.0, **STEP),
    "median": lambda: fl.fedavg(combiner=fl.combine.median(), **STEP),
    "clipped": lambda: fl.fedavg(combiner=fl.combine.clipped(0.05), **STEP),
    "epochs drawn": lambda: fl.fedprox(0.1, **STEP | {"epochs": "uniform:1:4"}),
    "epochs listed": lambda: fl.scaffold(**STEP | {"epochs": [2, 1, 3]}),
    "by accuracy": lambda: fl.fedavg(weighting=fl.combine.by_accuracy(), server=fl.server("adam", lr=0.01), **STEP),
}


def served(algorithm: Method, rounds: int, task: Task = TASK) -> tuple[Arithmetic, dict[str, np.ndarray]]:
    """The model after some rounds of a server and three participants who hand files to each other."""
    mine = arithmetic(task, algorithm, SEED)
    trainers = [LocalTrainer(DATA.alone(k), lambda said: (task, algorithm)) for k in range(K)]  # noqa: ARG005
    for k, trainer in enumerate(trainers):
        trainer.prepare(Welcome(number=k, about=about_one(mine, about(mine, {}), k, f"p{k}")))
    state, kept = mine.first, [{} for _ in range(K)]
    for round in range(rounds):
        sent = mine.model_schema.arrays(mine.model_schema.content(mine.sent(state)))
        done = [trainers[k].train(round, sent, kept[k]) for k in range(K)]
        kept = [dict(one.keeps) for one in done]
        who = mine.preference(round, [1] * K)
        given = [Contribution(k, done[k].examples, done[k].readings) for k in who]
        order = mine.ordered(given)
        updates = [mine.update_schema.arrays(mine.update_schema.content(done[who[i]].update)) for i in order]
        state, *_ = mine.step(state, [given[i] for i in order], updates, K)
    return mine, flatten(state.variables)


@pytest.mark.parametrize("name", often(ALGORITHMS, ("fedavg", "fedrep")))
def test_a_server_and_its_participants_compute_what_the_simulation_does(name: str) -> None:
    algorithm = ALGORITHMS[name]()
    program = fl.engines.compiled(devices=1).program(DATA, TASK, [algorithm], [SEED])
    state, _ = program.advance(program.init(), 0, ROUNDS)
    wanted = flatten(member(state.variables, 0))
    mine, found = served(algorithm, ROUNDS)
    for array in found:
        if array in mine.hidden:
            continue
        np.testing.assert_allclose(found[array], wanted[array], rtol=0, atol=2e-6, err_msg=array)


def test_private_layers_are_neither_sent_nor_sent_back() -> None:
    mine = arithmetic(TASK, fl.fedper("output", **STEP), SEED)
    assert mine.hidden == {"params.output.w", "params.output.b"}
    named = [name for schema in (mine.model_schema, mine.update_schema) for name, _, _ in schema.fields]
    assert named and not [name for name in named if "output" in name]


def test_what_participants_measure_is_of_the_model_that_was_sent() -> None:
    algorithm = ALGORITHMS["fedavg"]()
    mine = arithmetic(TASK, algorithm, SEED)
    trainer = LocalTrainer(DATA.alone(2), lambda said: (TASK, algorithm))  # noqa: ARG005
    trainer.prepare(Welcome(number=2, about=about(mine, {})))
    done = trainer.train(0, mine.sent(mine.first), {})
    program = fl.engines.compiled(devices=1).program(DATA, TASK, [algorithm], [SEED])
    sums = program.users(program.init(), "test")
    assert done.measures["count"] == 6
    assert done.measures["accuracy"] == pytest.approx(float(sums["accuracy"][0, 2]))


def test_both_sides_must_mean_the_same() -> None:
    mine = arithmetic(TASK, fl.fedavg(**STEP), SEED)
    welcome = Welcome(number=0, about=about(mine, {}))
    other = LocalTrainer(DATA.alone(0), lambda said: (TASK, fl.fedavg(**STEP | {"lr": 0.2})))  # noqa: ARG005
    with pytest.raises(ArgumentError, match=r"algorithm: lr must be the server's \(0\.1"):
        other.prepare(welcome)
    larger = LocalTrainer(DATA.alone(0), lambda said: (fl.tasks.two_nn(5, hidden=7, classes=2), fl.fedavg(**STEP)))  # noqa: ARG005
    with pytest.raises(ArgumentError, match=r"model: variables\.params\.hidden1\.b must be the server's"):
        larger.prepare(welcome)


def test_a_weighting_needs_the_examples_that_it_looks_at() -> None:
    algorithm = ALGORITHMS["by accuracy"]()
    alone = DATA.alone(1)
    bare = FederatedData("bare", alone.columns, 2, alone.index, {"train": alone.clients["train"]}, {})
    mine = arithmetic(TASK, algorithm, SEED)
    trainer = LocalTrainer(bare, lambda said: (TASK, algorithm))  # noqa: ARG005
    trainer.prepare(Welcome(number=1, about=about(mine, {})))
    with pytest.raises(ArgumentError, match=r"data must be with examples for validation"):
        trainer.train(0, mine.sent(mine.first), {})


def test_so_does_one_of_clients_with_code_of_their_own() -> None:
    algorithm, task = fl.fedavg(fraction=1.0, weighting=fl.combine.by_accuracy()), fl.clients.task(LineClient)
    mine = arithmetic(task, algorithm, SEED)
    trainer = LocalTrainer(points([1.0]), lambda said: (task, algorithm))  # noqa: ARG005
    trainer.prepare(Welcome(number=0, about=about(mine, {})))
    with pytest.raises(ArgumentError, match=r"data must be with examples for validation"):
        trainer.train(0, mine.sent(mine.first), {})


def test_what_is_not_finite_is_not_sent() -> None:
    algorithm = fl.fedavg(**STEP | {"lr": 1e30})
    mine = arithmetic(TASK, algorithm, SEED)
    trainer = LocalTrainer(DATA.alone(1), lambda said: (TASK, algorithm))  # noqa: ARG005
    trainer.prepare(Welcome(number=1, about=about(mine, {})))
    with pytest.raises(DivergedError, match=r"is not finite after round 1: the learning rate may be too large"):
        trainer.train(0, mine.sent(mine.first), {})


def test_algorithms_without_a_server_are_refused() -> None:
    for algorithm in (fl.local_only(), fl.dpa_sgd("ring"), fl.ifca(2), fl.personalised()):
        with pytest.raises(ArgumentError, match=r"algorithm must be one with a server and one model for all"):
            arithmetic(TASK, algorithm, 0)


def test_what_is_told_of_a_run_is_json_without_any_data() -> None:
    said = json.loads(about(arithmetic(TASK, fl.fedavg(**STEP), SEED), {"more": 1}))
    assert said.keys() == {"seed", "task", "algorithm", "model", "more"}
    assert said["model"]["variables.params.hidden1.w"] == [[5, 6], "float32"]


class Clock:
    """A clock that stands still, so that the seconds of a step stay as they are."""

    def __call__(self) -> float:
        return 0.0


@pytest.mark.parametrize("name", ["fedprox", "scaffold"])
def test_a_participant_that_is_stopped_does_what_the_simulated_one_does(name: str) -> None:
    """Two seconds a step, seven seconds: three of four steps, which the message says."""
    algorithm = ALGORITHMS[name]()
    timed = fl.engines.clock(2.0, deadline=7.0, late="stopped")
    program = fl.engines.compiled(devices=1).program(DATA, TASK, [algorithm], [SEED], clock=timed)
    state, _ = program.advance(program.init(), 0, ROUNDS)
    wanted = flatten(member(state.variables, 0))
    mine = arithmetic(TASK, algorithm, SEED)
    trainers = [LocalTrainer(DATA.alone(k), lambda said: (TASK, algorithm), timer=Clock()) for k in range(K)]  # noqa: ARG005
    for k, trainer in enumerate(trainers):
        trainer.prepare(Welcome(number=k, about=about(mine, {"late": "stopped"})))
        trainer.pace = 2.0
    state, kept = mine.first, [{} for _ in range(K)]
    for round in range(ROUNDS):
        sent = mine.model_schema.arrays(mine.model_schema.content(mine.sent(state)))
        done = [trainers[k].train(round, sent, kept[k], 7.0 / SHARE) for k in range(K)]
        assert [one.steps for one in done] == [3, 3, 3]
        kept = [dict(one.keeps) for one in done]
        who = mine.preference(round, [1] * K)
        given = [Contribution(k, done[k].examples, done[k].readings) for k in who]
        order = mine.ordered(given)
        state, *_ = mine.step(state, [given[i] for i in order], [done[who[i]].update for i in order], K)
    found = flatten(state.variables)
    for array in found:
        np.testing.assert_allclose(found[array], wanted[array], rtol=0, atol=2e-6, err_msg=array)


def test_with_time_enough_or_without_leave_a_participant_is_not_stopped() -> None:
    algorithm = ALGORITHMS["fedavg"]()
    mine = arithmetic(TASK, algorithm, SEED)
    sent = mine.sent(mine.first)
    updates = []
    for more, seconds in (({}, 0.001), ({"late": "stopped"}, 1000.0), ({"late": "stopped"}, None)):
        trainer = LocalTrainer(DATA.alone(0), lambda said: (TASK, algorithm))  # noqa: ARG005
        trainer.prepare(Welcome(number=0, about=about(mine, more)))
        done = trainer.train(0, sent, {}, seconds)
        assert done.steps == 0
        updates.append(done.update)
    for name in updates[0]:
        np.testing.assert_array_equal(updates[1][name], updates[0][name])
        np.testing.assert_array_equal(updates[2][name], updates[0][name])
