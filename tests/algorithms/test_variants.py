"""Each variant against the same algorithm written out by hand, on a task of two numbers."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from quadratic import points, quadratic

import fedloom.engines.client_states as client_states
from fedloom.algorithms import (
    Method,
    ditto,
    fedavg,
    fedbn,
    fedper,
    fedprox,
    fedrep,
    ifca,
    local_only,
    personalised,
    qfedavg,
    scaffold,
)
from fedloom.combine import by_size, fair, uniform
from fedloom.data import from_arrays
from fedloom.data.partition import natural
from fedloom.engines import Program, compiled
from fedloom.errors import ArgumentError
from fedloom.local import ditto as beside
from fedloom.local import private, proximal, sgd
from fedloom.local import scaffold as corrected
from fedloom.runs import run
from fedloom.tasks import Task, Variables, cnn, logistic, two_nn
from fedloom.trees import member

LAYOUTS: list[Any] = [{}, pytest.param({"lanes": 2, "devices": 1}, marks=pytest.mark.slow)]
ETA, STEPS, ROUNDS = 0.1, 3, 4
VALUES = [4.0, -1.0, 2.0, 0.5]
WORK = {"lr": ETA, "epochs": STEPS, "batch_size": None}


def trained(algorithm: Any, layout: dict[str, Any], rounds: int = ROUNDS, **start: float) -> tuple[Program, Any]:
    program = compiled(**layout).program(points(VALUES), quadratic(**start), [algorithm], [7])
    state = program.init()
    for r in range(rounds):
        state, _ = program.advance(state, r, 1)
    return program, state


def model(state: Any) -> tuple[float, float]:
    params = member(state, 0).variables.params
    return float(params["body"]["w"]), float(params["output"]["w"])


def own(program: Program, state: Any, k: int) -> tuple[float, float]:
    params = program.method.model(member(state, 0), jnp.int32(k)).params
    return float(params["body"]["w"]), float(params["output"]["w"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fedprox_by_hand(layout: dict[str, Any]) -> None:
    w, mu = 0.0, 0.7
    for _ in range(ROUNDS):
        ends = []
        for x in VALUES:
            y = w
            for _ in range(STEPS):
                y -= ETA * (2 * (y - x) + mu * (y - w))  # a and b move alike: their sum moves twice
            ends.append(y)
        w = float(np.mean(ends))
    _, state = trained(fedprox(mu, fraction=1.0, weighting=uniform, **WORK), layout)
    np.testing.assert_allclose(sum(model(state)), w, rtol=1e-5)


def test_fedprox_with_no_pull_is_fedavg() -> None:
    plain, pulled = (trained(a, {})[1] for a in (fedavg(fraction=0.5, **WORK), fedprox(0.0, fraction=0.5, **WORK)))
    assert model(plain) == model(pulled)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_scaffold_by_hand(fraction: float, layout: dict[str, Any]) -> None:
    program, state = trained(scaffold(fraction=fraction, **WORK), layout)
    clients = len(VALUES)
    w, c, controls = 0.0, 0.0, [0.0] * clients  # of one of the two numbers; the other is the same
    for cohort in program.cohorts(0, ROUNDS)[:, 0]:
        ends, before = [], list(controls)
        for k in cohort:
            y = w
            for _ in range(STEPS):
                y -= ETA * ((2 * y - VALUES[k]) - before[k] + c)
            controls[k] = before[k] - c + (w - y) / (STEPS * ETA)
            ends.append(y)
        w = float(np.mean(ends))
        c += (sum(controls) - sum(before)) / clients
    np.testing.assert_allclose(model(state), (w, w), rtol=1e-5)
    alone = member(state, 0)
    np.testing.assert_allclose(alone.broadcast["control"]["body"]["w"], c, rtol=1e-4)
    kept = [float(alone.clients.rows["control"]["output"]["w"][alone.clients.place[k]]) for k in range(clients)]
    np.testing.assert_allclose(kept, controls, rtol=1e-4, atol=1e-6)


def test_scaffold_finds_the_mean_that_unlike_clients_pull_from() -> None:
    """Clients with different curvatures: federated averaging ends beside the optimum, SCAFFOLD on it."""
    data = points([0.0, 8.0])
    task = quadratic()
    data.columns["x"][:3] = [0.0, 0.0, 0.0]
    stiff = task.loss
    steep = type(task)(
        "steep", task.init, lambda v, b, k: (stiff(v, b, k)[0] * jnp.where(b["x"] > 0, 4.0, 1.0), v.state), task.metrics
    )
    found = []
    for algorithm in (fedavg(fraction=1.0, lr=0.05, epochs=10), scaffold(fraction=1.0, lr=0.05, epochs=10)):
        final = run(data, steep, algorithm, rounds=200, evaluate=["test"]).variables.params
        found.append(float(final["body"]["w"] + final["output"]["w"]))
    assert abs(found[1] - 6.4) < 1e-3 < abs(found[0] - 6.4)  # ½(w² + 4 (w - 8)²) is least at 6.4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ditto_by_hand(layout: dict[str, Any]) -> None:
    mu = 0.5
    program, state = trained(ditto(mu, fraction=0.5, weighting=uniform, **WORK), layout)
    w, owned = 0.0, [0.0] * len(VALUES)
    for cohort in program.cohorts(0, ROUNDS)[:, 0]:
        ends = []
        for k in cohort:
            y = w
            for _ in range(STEPS):
                y -= ETA * (2 * y - VALUES[k])
                owned[k] -= ETA * (2 * owned[k] - VALUES[k] + mu * (owned[k] - w))
            ends.append(y)
        w = float(np.mean(ends))
    np.testing.assert_allclose(model(state), (w, w), rtol=1e-5)
    for k, v in enumerate(owned):
        np.testing.assert_allclose(own(program, state, k), (v, v), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("first", [None, 2])
def test_private_heads_by_hand(first: int | None, layout: dict[str, Any]) -> None:
    options = {"fraction": 0.5, "weighting": uniform, **WORK}
    algorithm = fedper("output", **options) if first is None else fedrep("output", first, **options)
    program, state = trained(algorithm, layout, a=1.0, b=0.25)
    body, heads = 1.0, [0.25] * len(VALUES)
    for cohort in program.cohorts(0, ROUNDS)[:, 0]:
        ends = []
        for k in cohort:
            a = body
            for _ in range(first or 0):
                heads[k] -= ETA * (a + heads[k] - VALUES[k])
            for _ in range(STEPS):
                slope = a + heads[k] - VALUES[k]
                a -= ETA * slope
                heads[k] -= 0.0 if first else ETA * slope
            ends.append(a)
        body = float(np.mean(ends))
    assert model(state)[1] == 0.25  # the server never sees a head
    for k, head in enumerate(heads):
        np.testing.assert_allclose(own(program, state, k), (body, head), rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("q", [1.0, 2.5])
def test_q_fedavg_by_hand(q: float, layout: dict[str, Any]) -> None:
    w = np.zeros(2)
    for _ in range(ROUNDS):
        top, bottom = np.zeros(2), 0.0
        for x in VALUES:
            y = w.copy()
            for _ in range(STEPS):
                y -= ETA * (y.sum() - x)
            loss, delta = 0.5 * (w.sum() - x) ** 2, (w - y) / ETA
            top += loss**q * delta
            bottom += q * loss ** (q - 1) * (delta @ delta) + loss**q / ETA
        w -= top / bottom
    _, state = trained(qfedavg(q, fraction=1.0, **WORK), layout)
    np.testing.assert_allclose(model(state), w, rtol=2e-4)


def test_q_of_zero_is_the_plain_average() -> None:
    fair, plain = (trained(a, {})[1] for a in (qfedavg(0.0, **WORK), fedavg(weighting=uniform, **WORK)))
    np.testing.assert_allclose(model(fair), model(plain), rtol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_clusters_find_their_clients(layout: dict[str, Any]) -> None:
    values = [10.0, 11.0, -9.0, -10.0, -11.0]
    task = quadratic()
    apart = type(task)("apart", lambda key: jax.tree.map(lambda a: a + jax.random.normal(key), task.init(key)),
                       task.loss, task.metrics)  # fmt: skip
    program = compiled(**layout).program(points(values), apart, [ifca(2, fraction=1.0, weighting=by_size, **WORK)], [1])
    state, _ = program.advance(program.init(), 0, 30)
    alone = member(state, 0)
    centres = sorted(float(sum(jax.tree.leaves(jax.tree.map(lambda a, c=c: a[c], alone.variables)))) for c in range(2))
    np.testing.assert_allclose(centres, [-10.0, 10.5], rtol=1e-3)
    assert len(set(alone.memory["choice"][:2].tolist())) == len(set(alone.memory["choice"][2:].tolist())) == 1
    found = program.users(state, "test")
    np.testing.assert_allclose(found["loss"][0], [0.125, 0.125, 0.5, 0, 0.5], atol=0.02)


def test_one_cluster_is_fedavg() -> None:
    program, state = trained(ifca(1, fraction=0.5, **WORK), {})
    _, plain = trained(fedavg(fraction=0.5, **WORK), {})
    one = jax.tree.map(lambda a: float(a[0, 0]), state.variables.params)
    np.testing.assert_allclose((one["body"]["w"], one["output"]["w"]), model(plain), rtol=1e-6)
    assert program.down == 1


def test_a_model_of_ones_own_takes_as_many_steps_again() -> None:
    n = np.array([0, 5, 10, 25])
    assert beside(0.1, sgd(batch_size=10, epochs=2)).gradient_count(n).tolist() == [0, 4, 4, 12]
    assert sgd(batch_size=10, epochs=2).gradient_count(n).tolist() == [0, 2, 2, 6]


@pytest.mark.parametrize("make", [scaffold, ditto, fedper, lambda **o: ifca(2, **o)])
def test_what_clients_keep_survives_a_stop(make: Any, tmp_path: Path) -> None:
    algorithm, data, task = make(fraction=0.5, **WORK), points(VALUES), quadratic(1.0, 0.5)
    whole = run(data, task, algorithm, rounds=6, evaluate=["test"], directory=tmp_path / "whole")
    run(data, task, algorithm, rounds=3, evaluate=["test"], directory=tmp_path / "cut")
    rest = run(data, task, algorithm, rounds=6, evaluate=["test"], directory=tmp_path / "cut")
    column = "own_test_loss" if algorithm.is_personal else "test_loss"
    assert whole.history.column(column).tolist() == rest.history.column(column).tolist()


def test_only_visited_clients_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_states, "ROOM", 0)
    program = compiled(devices=1).program(points([1.0] * 1000), quadratic(), [scaffold(fraction=0.004, **WORK)], [0])
    state, _ = program.advance(program.init(), 0, 3)
    visited = len(np.unique(program.cohorts(0, 3)))
    assert visited <= 12
    assert state.clients.rows["control"]["body"]["w"].shape == (1, visited + 1)
    assert int((np.asarray(state.clients.place) > 0).sum()) == visited


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scaffold_around_private_heads_by_hand(layout: dict[str, Any]) -> None:
    """The body is corrected, the head is not, and nobody hears of it."""
    local = corrected(private("output", sgd(**WORK), head_epochs=2))
    program, state = trained(fedavg(fraction=0.5, weighting=uniform, local=local), layout, a=1.0, b=0.25)
    clients = len(VALUES)
    body, c, controls, heads = 1.0, 0.0, [0.0] * clients, [0.25] * clients
    for cohort in program.cohorts(0, ROUNDS)[:, 0]:
        ends, before = [], list(controls)
        for k in cohort:
            a = body
            for _ in range(2):
                heads[k] -= ETA * (a + heads[k] - VALUES[k])
            for _ in range(STEPS):
                a -= ETA * ((a + heads[k] - VALUES[k]) - before[k] + c)
            controls[k] = before[k] - c + (body - a) / (STEPS * ETA)
            ends.append(a)
        body = float(np.mean(ends))
        c += (sum(controls) - sum(before)) / clients
    for k, head in enumerate(heads):
        np.testing.assert_allclose(own(program, state, k), (body, head), rtol=1e-4)
    control = member(state, 0).broadcast["control"]
    np.testing.assert_allclose(control["body"]["w"], c, rtol=1e-3)
    assert control["output"]["w"] == 0


def test_runs_that_differ_are_described_differently() -> None:
    made = [
        ditto(0.1, local=proximal(0.5, sgd())),
        ditto(0.1, local=proximal(50, sgd())),
        ditto(0.1),
        fedprox(0.1),
        fedprox(0.5, local=private("output", sgd())),
        fedavg(local=private("output", proximal(0.5, sgd()))),
    ]
    assert len({str(a.describe()) for a in made}) == len(made)
    assert made[0].describe()["work"] == "ditto(0.1) of proximal(0.5) of sgd"


def test_fair_weights_leave_statistics_a_mean() -> None:
    """A task that counts its steps: after three of one each everybody has three, whatever the weights of gradients."""
    plain = quadratic()
    counting = type(plain)(
        "counting",
        lambda key: Variables(plain.init(key).params, {"n": jnp.float32(0)}),
        lambda v, b, k: (plain.loss(v, b, k)[0], {"n": v.state["n"] + 1}),
        plain.metrics,
    )
    program = compiled(devices=1).program(points(VALUES), counting, [qfedavg(1.0, fraction=1.0, **WORK)], [0])
    state, _ = program.advance(program.init(), 0, 2)
    np.testing.assert_allclose(state.variables.state["n"], 2 * STEPS, rtol=1e-5)


@pytest.mark.parametrize("layout", [{"devices": 1}, {"lanes": 3}])
def test_clients_without_examples_change_nothing_but_the_mean(layout: dict[str, Any]) -> None:
    data = points([4.0, -1.0, 2.0, 0.5, 3.0, 1.0])
    data.clients["train"].size[2:] = 0
    program = compiled(**layout).program(data, quadratic(), [fedavg(fraction=1.0, weighting=uniform, **WORK)], [0])
    state, _ = program.advance(program.init(), 0, 1)
    ends = [x / 2 * (1 - 0.8**STEPS) for x in (4.0, -1.0)]
    np.testing.assert_allclose(model(state)[0], sum(ends) / 6, rtol=1e-5)


@pytest.mark.parametrize("make", [fedavg, scaffold, lambda **o: personalised(**{**o, "fraction": 1.0}),
                                  lambda **o: personalised(**{**o, "fraction": 1.0}, peers=1)])  # fmt: skip
def test_a_cohort_without_examples_changes_nothing(make: Any) -> None:
    data = points(VALUES)
    data.clients["train"].size[:] = [0, 0, 0, 2]
    done = run(data, quadratic(1.0, 0.5), make(fraction=0.0, **WORK), rounds=8, evaluate=["test"])
    assert all(np.isfinite(done.history.column(name)).all() for name in done.history.columns)


@pytest.mark.parametrize(("make", "sent"), [(fedavg, 16), (scaffold, 32), (fedper, 8)])
def test_bytes_are_those_that_are_sent(make: Any, sent: int) -> None:
    program, state = trained(make(fraction=0.5, **WORK), {}, 1)
    assert program.model_bytes(state) * program.moved == sent  # two clients, two numbers of four bytes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fedprox(-1.0), "mu must be at least 0, but is -1.0"),
        (lambda: ditto(-0.5), "mu must be at least 0"),
        (lambda: fedper(""), "private must be at least one layer"),
        (lambda: fedrep(head_epochs=0), "head_epochs must be at least 1, but is 0"),
        (lambda: ifca(0), "clusters must be at least 1, but is 0"),
        (lambda: qfedavg(-1), "q must be at least 0"),
        (lambda: scaffold(optimizer="momentum"), "optimizer must be sgd with scaffold, but is 'momentum'"),
        (lambda: fedrep(optimizer="adam"), "optimizer must be sgd where layers take turns"),
        (lambda: fedprox(local=sgd(), lr=0.5), "local must be given alone, or by its arguments"),
        (lambda: qfedavg(2.0, weighting=uniform), "weighting must be left alone with q-FedAvg"),
        (lambda: private("output", corrected(sgd())), "local must be work without scaffold"),
        (lambda: ditto(local=corrected(sgd())), "local must be work without scaffold"),
        (lambda: personalised(weighting=fair()), "weighting must be one that makes a mean, but is 'fair'"),
        (lambda: personalised(weighting=fair(), peers=2), "weighting must be one that makes a mean"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (fedper("ouput"), r"private must be layers that the model has \(body, output\), but is 'ouput'"),
        (fedper("*"), r"private must be some of the model's layers \(body, output\), not all"),
        (local_only(local=corrected(sgd())), "local must be work that needs nothing from a server"),
    ],
)
def test_a_model_must_have_what_is_private(algorithm: Method, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        run(points(VALUES), quadratic(), algorithm, rounds=1, evaluate=["test"])


def test_a_variant_on_a_real_model() -> None:
    task = two_nn(inputs=784)
    leaves = fedper("output").local.private_leaves(task.init(jax.random.key(0)))
    assert leaves.keys() == {"params.output.b", "params.output.w"}


def test_fedbn_keeps_norms_and_their_statistics_at_home(generated: Any) -> None:
    data = generated([6, 5], features=16, test=4)
    task = cnn(size=4, classes=3, normalised=True)
    program = compiled(lanes=2, devices=1).program(data, task, [fedbn(fraction=1.0, batch_size=3, lr=0.1)], [0])
    state, _ = program.advance(program.init(), 0, 2)
    server, first, second = (member(state, 0).variables, *(program.method.model(member(state, 0), jnp.int32(k))
                                                           for k in range(2)))  # fmt: skip
    assert (server.params["norm1"]["scale"] == 1).all() and (server.state["norm2"]["mean"] == 0).all()
    for a, b in ((first, second), (first, server), (second, server)):
        np.testing.assert_array_equal(a.params["hidden"]["w"], b.params["hidden"]["w"])
        assert (a.params["norm1"]["scale"] != b.params["norm1"]["scale"]).any()
        assert (a.state["norm2"]["mean"] != b.state["norm2"]["mean"]).any()
    assert (server.params["hidden"]["w"] != member(program.init(), 0).variables.params["hidden"]["w"]).any()


def after(algorithm: Method, task: Any = None, rounds: int = 6) -> list[dict[str, float]]:
    """Every client's own model after some rounds."""
    data = points(VALUES)
    done = run(data, task or quadratic(), algorithm, rounds=rounds, evaluate=["test"])
    return [{name: float(layer["w"]) for name, layer in done.of(k).params.items()} for k in range(len(data))]


def three() -> Task:
    """X ≈ body + norm + output."""
    names = ("body", "norm", "output")
    each = lambda v, b: 0.5 * (sum(v.params[name]["w"] for name in names) - b["x"]) ** 2  # noqa: E731
    return Task(
        "three",
        lambda key: Variables({name: {"w": jnp.float32(0)} for name in names}, {}),  # noqa: ARG005
        lambda v, b, key: (each(v, b), v.state),  # noqa: ARG005
        lambda v, b: {"loss": each(v, b), "accuracy": 0 * each(v, b), "count": jnp.ones_like(b["x"])},
    )


def test_private_layers_around_private_layers_are_all_of_them() -> None:
    at_once = after(fedper("norm,output", fraction=1.0, **WORK), three())
    nested = after(fedbn("norm", fraction=1.0, local=private("output", sgd(**WORK))), three())
    assert nested == at_once
    assert all(model["norm"] != 0 and model["output"] != 0 for model in nested)


def test_a_client_is_pulled_to_what_it_began_with_its_own_layers_included() -> None:
    around = after(fedprox(2.0, fraction=1.0, local=private("output", sgd(**WORK))), rounds=60)
    inside = after(fedper("output", fraction=1.0, local=proximal(2.0, sgd(**WORK))), rounds=60)
    assert around == inside
    for model, value in zip(around, VALUES, strict=True):
        assert model["body"] + model["output"] == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fedrep("output", 1, batch_size=1, period=4), "period must be left alone where layers take turns"),
        (lambda: ditto(0.1, local=private("output", sgd())), "local must be work without layers or a model of one's"),
        (lambda: ditto(0.1, local=beside(0.2, sgd())), "local must be work without layers or a model of one's own"),
        (lambda: scaffold(local=corrected(sgd())), "local must be work without scaffold, to be corrected by it"),
        (lambda: scaffold(optimizer=lambda lr: optax.adam(lr)), "optimizer must be sgd with scaffold"),
        (lambda: fedavg(epochs=3, period=2), "epochs must be left alone with a period, but is 3"),
        (lambda: personalised(peers_by="nearest"), "peers_by must be left alone with all peers"),
    ],
)
def test_work_around_work_that_makes_no_sense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("make", [
    lambda: local_only(fraction=1.0), lambda: ditto(0.1, fraction=1.0), lambda: ifca(1, fraction=1.0),
])  # fmt: skip
def test_every_model_is_measured_on_all_examples_where_some_belong_to_no_client(make: Any) -> None:
    """Before the first round all models are the same, and so are their means over the same eight examples."""
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", 24), ("test", 8)):
        arrays |= {f"x_{part}": rng.normal(size=(n, 3)), f"y_{part}": rng.integers(0, 2, n)}
        arrays[f"user_{part}"] = np.repeat(range(4), n // 4)
    data, task = from_arrays("toy", arrays).partition(natural(most=2)), logistic(3, 2)
    assert (len(data.central["test"]), int(data.clients["test"].size.sum())) == (4, 4)
    begun = [run(data, task, a, rounds=1, evaluate=["test"]).history.rows[0] for a in (fedavg(fraction=1.0), make())]
    assert begun[1]["own_on_all_test_loss"] == pytest.approx(begun[0]["test_loss"], rel=1e-6)
    assert begun[1]["own_on_all_test_accuracy"] == begun[0]["test_accuracy"]
    assert "own_test_loss" in begun[1] and "own_test_loss" not in begun[0]
