from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import networkx as nx
import numpy as np
import pytest
from quadratic import points, quadratic

from fedloom.algorithms import dpa_sgd, dpa_sgd_mtl, fedavg, local_only
from fedloom.combine import uniform
from fedloom.data import FederatedData
from fedloom.engines import clock, compiled
from fedloom.engines.clock import Clock
from fedloom.engines.schedule import PEERS, stream
from fedloom.errors import ArgumentError, UnknownName
from fedloom.local import sgd
from fedloom.mixing import from_matrix, gossip, graph, identity, matcha, one_peer_exponential, random_pairs, weights
from fedloom.runs import run
from fedloom.tasks import logistic
from fedloom.trees import member

Make = Callable[..., FederatedData]
TASK = logistic(inputs=4, classes=3)
LAYOUTS: list[dict[str, Any]] = [{}, {"lanes": 3, "devices": 1}]
SIZES = [30, 12, 21, 9, 15]


def models(data: FederatedData, algorithm: Any, rounds: int, layout: dict[str, Any]) -> Any:
    program = compiled(**layout).program(data, TASK, [algorithm], [3])
    return jax.tree.map(np.asarray, member(program.advance(program.init(), 0, rounds)[0], 0).variables.params)


def close(a: Any, b: Any) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5), a, b)


@pytest.mark.parametrize("layout", LAYOUTS[:1])
def test_along_the_complete_graph_everybody_has_the_central_average(generated: Make, layout: dict[str, Any]) -> None:
    data = generated(SIZES)
    own = models(data, dpa_sgd("complete", period=3, batch_size=4, lr=0.2), 4, layout)
    local = sgd(lr=0.2, batch_size=4, period=3)
    shared = models(data, fedavg(fraction=1.0, weighting=uniform, local=local), 4, layout)
    for k in range(5):
        close(jax.tree.map(lambda a, k=k: a[k], own), shared)


def test_the_identity_is_independent_training(generated: Make) -> None:
    data = generated(SIZES)
    own = models(data, dpa_sgd(identity, period=3, batch_size=4), 4, {})
    close(own, models(data, local_only(fraction=1.0, local=sgd(batch_size=4, period=3)), 4, {}))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("period", [1, 4])
def test_a_ring_by_hand(period: int, layout: dict[str, Any]) -> None:
    values = [4.0, -1.0, 2.0, 0.5, 3.0]
    algorithm = dpa_sgd("ring", period=period, batch_size=2, lr=0.1)
    program = compiled(**layout).program(points(values), quadratic(), [algorithm], [0])
    state, _ = program.advance(program.init(), 0, 6)
    w, x = weights("metropolis", graph("ring", 5)), np.zeros(5)
    for _ in range(6):
        for _ in range(period):
            x = x - 0.1 * (2 * x - np.array(values))
        x = w @ x
    np.testing.assert_allclose(member(state, 0).variables.params["body"]["w"], x, rtol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_epochs_go_on_from_round_to_round(generated: Make, layout: dict[str, Any]) -> None:
    """Eight steps at once are two rounds of four, whatever the sizes, where nobody mixes."""
    data = generated(SIZES)
    split, whole = (models(data, dpa_sgd(identity, period=p, batch_size=4), 8 // p, layout) for p in (4, 8))
    close(split, whole)


def test_one_peer_exponential_averages_exactly() -> None:
    mixer = one_peer_exponential(8)
    product = np.eye(8)
    for index, share in zip(mixer.index, mixer.share, strict=True):
        w = np.zeros((8, 8))
        np.add.at(w, (np.arange(8)[:, None], index), share)
        product = w @ product
    np.testing.assert_allclose(product, 1 / 8, rtol=1e-6)
    assert mixer.moved(8) == 8


def test_matrices_take_turns() -> None:
    swap, stay = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
    algorithm = dpa_sgd(from_matrix(stay, swap), period=1, lr=1e-9)
    program = compiled(devices=1).program(points([1.0, 5.0]), quadratic(), [algorithm], [0])
    state = program.init()
    state = jax.tree.map(lambda a: a.at[0, 1].set(9.0) if a.ndim == 2 else a, state)
    seen = []
    for r in range(4):
        state, _ = program.advance(state, r, 1)
        seen.append(np.round(np.asarray(member(state, 0).variables.params["body"]["w"]), 3).tolist())
    assert seen == [[0.0, 9.0], [9.0, 0.0], [9.0, 0.0], [0.0, 9.0]]


def test_a_run_counts_connections_and_survives_a_stop(tmp_path: Path) -> None:
    data = points([4.0, -1.0, 2.0, 0.5])
    algorithm = dpa_sgd("line", period=2, lr=0.05)
    whole = run(data, quadratic(), algorithm, rounds=6, evaluate=["test"])
    assert whole.history.last("bytes_up") == 6 * 6 * 8  # six directions, two numbers of four bytes
    assert whole.history.last("bytes_down") == 0  # the same bytes, and there is no server
    for rounds in (3, 6):
        cut = run(data, quadratic(), algorithm, rounds=rounds, evaluate=["test"], directory=tmp_path / "run")
    assert cut.history.column("own_test_loss").tolist() == whole.history.column("own_test_loss").tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"period": 0}, "period must be at least 1 step, but is 0"),
        ({"batch_size": None}, "batch_size must be a number, not all, with a period"),
        ({"topology": "moebius"}, "topology must be one of complete"),
        ({"degree": 3}, "an option of ring must be one of"),
        ({"weights": "fair"}, "weights must be one of metropolis, optimised, uniform, but is 'fair'"),
        ({"weights": "push"}, "topology must be one whose rows sum to one"),
        ({"by": "uniform"}, "an argument must be one of .*, seed, share, sparsity, topology, weights, but is 'by'"),
        (
            {"topology": 5},
            "topology must be a name, a CSV file of pairs, a graph .*, a matrix or a mixer, but is 'int'",
        ),
        ({"topology": [[0.5, 0.5], [0.5, 0.5]]}, "a matrix or a mixer, but is 'list'"),
        ({"topology": np.eye(3), "weights": "uniform"}, "weights must be left alone with a matrix, which has its own"),
        ({"topology": np.ones((3, 3))}, r"a mixing matrix must be one whose rows sum to 1 \(row 0\), but is 3.0"),
        ({"topology": graph("ring", 5), "seed": 3}, r"topology must be a name, to have options, but is \['seed'\]"),
        ({"topology": nx.Graph([(0, 1), (2, 3)])}, "a topology must be connected"),
        ({"topology": "random-pairs", "weights": "uniform"}, "weights must be left alone with random-pairs"),
        ({"topology": "random-pairs:2"}, "topology must be random-pairs, without a number"),
        ({"topology": "random-pairs", "seed": 3}, "the topology must be one that has options"),
        ({"topology": "matcha:ring"}, "topology must be matcha, a topology, and a budget .*, such as matcha:ring:0.5"),
        (
            {"topology": "matcha:ring:2"},
            "a budget above 0 and at most 1, such as matcha:ring:0.5, but is 'matcha:ring:2'",
        ),
        ({"topology": "matcha:moebius:0.5"}, "topology must be matcha, a topology, and"),
        ({"topology": "matcha:ring:0.5", "degree": 3}, "an option of matcha:ring:0.5 must be one of"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ArgumentError, UnknownName), match=message):
        dpa_sgd(**options)


def test_a_ring_of_two_is_refused_when_there_are_two() -> None:
    with pytest.raises(ArgumentError, match=r"workers must be at least 3 in a ring \(2 are a line\), but is 2"):
        run(points([1.0, 2.0]), quadratic(), dpa_sgd("ring"), rounds=1, evaluate=["test"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dpa_sgd("one-peer-exponential", weights="optimised"), "weights must be left alone with one-peer-exp"),
        (lambda: dpa_sgd("one-peer-exponential", degree=7), "the topology must be one that has options"),
        (
            lambda: dpa_sgd("pairs.csv", seed=7),
            "the topology must be one that has options, .*'pairs.csv with",
        ),
        (lambda: dpa_sgd(gossip("ring", 5), weights="optimised"), "weights must be left alone with a mixer"),
        (lambda: graph("regular:4", 12, degree=6), "degree must be given once, with regular:4 or alone, but is 6"),
    ],
)
def test_what_a_topology_has_no_use_for_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("timed", [None, clock(0.01)])
def test_what_is_sent_is_counted_round_by_round(timed: Clock | None) -> None:
    """Everybody meets in every second round, or when MATCHA says so: with a clock the same bytes as without."""
    data, model = points([1.0, 2.0, 3.0, 4.0]), 8  # two numbers
    turns = from_matrix(np.eye(4), np.full((4, 4), 1 / 4))
    sent = run(data, quadratic(), dpa_sgd(turns, batch_size=1), rounds=5, every=5, clock=timed, evaluate=["test"])
    assert sent.history.last("bytes_up") == 2 * 12 * model
    some = matcha("ring", 4, 0.5)
    runs = [run(data, quadratic(), dpa_sgd(some, batch_size=1), rounds=9, clock=timed, seed=seed, evaluate=["test"])
            for seed in (0, 1, 2)]  # fmt: skip
    used = [sum(2 * 2 * int(some.used(stream(seed, PEERS, t)).sum()) for t in range(9)) for seed in (0, 1, 2)]
    assert [r.history.last("bytes_up") for r in runs] == [n * model for n in used]
    assert len(set(used)) > 1


def test_a_graph_a_matrix_and_networkx_are_topologies() -> None:
    ring = dpa_sgd("ring", weights="optimised").for_clients(8).describe()
    assert dpa_sgd(graph("ring", 8), weights="optimised").describe() == ring
    named = {**ring, "mixing": "networkx graph, optimised"}
    assert dpa_sgd(nx.cycle_graph(8), weights="optimised").describe() == named
    given = dpa_sgd(weights("optimised", graph("ring", 8))).describe()
    assert given == {**ring, "mixing": "matrix"}
    assert (
        dpa_sgd_mtl(graph("ring", 8)).routing.mixer.describe()
        == dpa_sgd_mtl("ring").for_clients(8).routing.mixer.describe()
    )


def test_topologies_that_are_drawn_anew_have_names() -> None:
    assert dpa_sgd("random-pairs").for_clients(6).routing.mixer is random_pairs
    assert dpa_sgd("random-pairs").routing.mixer.moved(7) == 6
    found = dpa_sgd("matcha:regular:0.3", degree=3, seed=2).for_clients(8).routing.mixer.describe()
    assert found == matcha("regular", 8, 0.3, degree=3, seed=2).describe()
    assert found["mixing"] == "MATCHA 0.3 on random 3-regular"
    assert found != dpa_sgd("matcha:regular:3:0.3", seed=1).for_clients(8).routing.mixer.describe()
    data = points([4.0, -1.0, 2.0, 0.5, 3.0])
    for name, mixer in (("random-pairs", random_pairs), ("matcha:ring:0.5", matcha("ring", 5))):
        named, same = (run(data, quadratic(), dpa_sgd(how, period=2, lr=0.05), rounds=3, evaluate=["test"])
                       for how in (name, mixer))  # fmt: skip
        assert named.history.column("own_test_loss").tolist() == same.history.column("own_test_loss").tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_mean_of_all_models_is_measured_too(generated: Make, layout: dict[str, Any]) -> None:
    data, engine = generated([12, 9, 20]), compiled(**layout)
    done = run(data, TASK, dpa_sgd("complete", batch_size=4), rounds=3, evaluate=["test", "train"], engine=engine)
    far = run(data, TASK, dpa_sgd(from_matrix(np.eye(3)), batch_size=4), rounds=3, evaluate=["test"], engine=engine)
    for split, own in (("test", "own_on_all_test_loss"), ("train", "own_train_loss")):  # all agree
        assert done.history.last(f"mean_{split}_loss") == pytest.approx(done.history.last(own), rel=1e-5)
    assert "test_loss" not in done.history.columns  # there is no shared model
    mean = jax.tree.map(lambda a: a.mean(0), far.variables)
    rows = data.examples("test")
    found = TASK.metrics(mean, {name: column[rows] for name, column in data.columns.items()})
    for metric in ("loss", "accuracy"):
        assert far.history.last(f"mean_test_{metric}") == pytest.approx(float(found[metric].mean()), rel=1e-5)
    assert far.history.last("mean_test_loss") != pytest.approx(far.history.last("own_on_all_test_loss"), rel=1e-3)
    assert not any("mean" in name for name in run(data, TASK, local_only(), rounds=1).history.columns)
