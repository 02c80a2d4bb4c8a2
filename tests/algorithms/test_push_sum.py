from dataclasses import replace

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from quadratic import points, quadratic

import fedloom as fl
from fedloom.algorithms import push_sum
from fedloom.combine.replies import Replies
from fedloom.errors import ArgumentError, UnknownName
from fedloom.mixing import Graph, gossip, pushed
from fedloom.tasks import Variables

HEARD = np.array([[0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0], [1, 0, 1, 0]], bool)  # nobody hears whom it tells, quite


def exchange(method: fl.Method, state: fl.algorithms.RoundState, there: list[bool]) -> fl.algorithms.RoundState:
    told, routing = Replies(jnp.ones(4), jnp.array(there), {}, round=state.round), method.routing
    peers = routing.peers(None, told, 4, state.variables)  # type: ignore[arg-type]
    models, memory = routing.exchange(state.variables, state.variables, state.memory, told, peers)
    return replace(state, variables=models, memory=memory, round=state.round + 1)


def test_all_come_to_the_mean_of_all_along_a_directed_graph() -> None:
    algorithm = push_sum(pushed(Graph("odd", HEARD)))
    values = np.array([1.0, 2.0, 4.0, 9.0], np.float32)
    state = algorithm.init(Variables({"w": jnp.zeros(4)}, {}), 4)
    state = replace(state, variables=Variables({"w": jnp.asarray(values)}, {}))
    x, m, a = values.copy(), np.ones(4), (HEARD + np.eye(4)) / (1 + HEARD.sum(axis=0))
    for round in range(40):
        there = [True, True, round % 3 != 1, True]  # one is lost now and then, and keeps what it has
        now = a.copy()
        if not there[2]:
            now[2], now[:, 2] = 0, 0
            np.fill_diagonal(now, 0)
            np.fill_diagonal(now, 1 - now.sum(axis=0))
        x, m = now @ x, now @ m
        state = exchange(algorithm, state, there)
        assert np.asarray(state.variables.params["w"]) == pytest.approx(x / m, abs=1e-5)
    assert np.asarray(state.variables.params["w"]) == pytest.approx(np.full(4, 4.0), abs=1e-4)
    assert float(state.memory["mass"].sum()) == pytest.approx(4.0, abs=1e-4)


def test_plain_averaging_does_not() -> None:
    """Which is why there is push-sum: rows that sum to one favour those whom many hear."""
    w = gossip(Graph("odd", HEARD), weights="uniform")
    matrix = np.zeros((4, 4))
    np.add.at(matrix, (np.arange(4)[:, None], w.index[0]), w.share[0])
    assert (np.linalg.matrix_power(matrix, 60) @ [1.0, 2.0, 4.0, 9.0])[0] != pytest.approx(4.0, abs=0.1)


def test_training_goes_on_from_the_models() -> None:
    """One step of a quarter, on both halves, brings a + b half the way from 0; then everybody pushes."""
    data, values = points([0.0, 2.0, 4.0, 8.0], each=1), np.array([0.0, 2.0, 4.0, 8.0])
    how = push_sum(pushed(Graph("odd", HEARD)), period=1, batch_size=1, lr=0.25)
    done = fl.run(data, quadratic(), how, rounds=2, evaluate=["train"])
    a = (HEARD + np.eye(4)) / (1 + HEARD.sum(axis=0))
    x, m = np.zeros(4), np.ones(4)
    for _ in range(2):
        x, m = a @ (x + (values - x / m) / 2), a @ m
    params = done.variables.params
    assert np.asarray(params["body"]["w"] + params["output"]["w"]) == pytest.approx(x / m, abs=1e-6)


def test_on_a_regular_graph_it_is_plain_averaging() -> None:
    data = points([0.0, 2.0, 4.0, 8.0, 1.0], each=1)
    kept = {"rounds": 3, "evaluate": ["train"]}
    options = {"period": 1, "batch_size": 1, "lr": 0.25}
    pushing = fl.run(data, quadratic(), push_sum("exponential", **options), **kept)
    plain = fl.run(data, quadratic(), fl.dpa_sgd("exponential", weights="uniform", **options), **kept)
    for a, b in zip(pushing.variables.params.values(), plain.variables.params.values(), strict=True):
        assert np.asarray(a["w"]) == pytest.approx(np.asarray(b["w"]), abs=1e-6)


def test_other_matrices_are_refused() -> None:
    with pytest.raises(ArgumentError, match="topology must be one of push-sum's"):
        push_sum(gossip("ring", 4))
    with pytest.raises(ArgumentError, match="a topology must be connected"):
        pushed(Graph("one way", np.array([[0, 1], [0, 0]], bool)))


def test_one_peer_at_a_time() -> None:
    """Columns of its matrices sum to one, as rows do: push-sum is plain averaging there."""
    data, kept = points([0.0, 2.0, 4.0, 8.0], each=1), {"rounds": 3, "evaluate": ["train"]}
    options = {"period": 1, "batch_size": 1, "lr": 0.25}
    runs = [fl.run(data, quadratic(), how("one-peer-exponential", **options), **kept) for how in (push_sum, fl.dpa_sgd)]
    one, other = (r.variables.params["body"]["w"] for r in runs)
    assert np.asarray(one) == pytest.approx(np.asarray(other), abs=1e-6)


def test_of_a_graph_it_makes_its_own_matrix() -> None:
    odd = Graph("odd", HEARD)
    assert push_sum(odd).describe() == push_sum(pushed(odd)).describe()
    directed = nx.DiGraph([(j, i) for i, j in np.argwhere(HEARD)])  # j tells i
    assert push_sum(directed).routing.mixer.share.tolist() == pushed(odd).share.tolist()
    with pytest.raises(ArgumentError, match="topology must be a name or a graph, of which push-sum makes its matrix"):
        push_sum(np.eye(4))
    with pytest.raises(UnknownName, match=r"an argument must be one of .*topology, but is 'weights'"):
        push_sum("exponential", weights="uniform")
