from typing import ClassVar

import jax
import numpy as np
import pytest
from line_client import LineClient

import fedloom as fl
from fedloom.clients import Answer
from fedloom.engines.station import NativeStation
from fedloom.errors import ArgumentError, CrewError
from fedloom.tasks import Variables


class Pair(LineClient):
    """It learns two numbers, and says what its model is."""

    def weights(self):
        return {"a": np.float64(1.5), "b.c": np.zeros((2, 1), np.float32)}

    def fit(self, broadcast):
        return Answer({"a": broadcast.weights["a"] + 1, "b.c": broadcast.weights["b.c"]}, 1)

    def trained(self, weights):
        return sorted(weights)


def test_a_run_begins_with_the_weights_of_a_client_without_examples() -> None:
    begun = fl.clients.task(Pair).init(jax.random.key(0)).params
    assert {n: a.shape for n, a in begun.items()} == {"a": (), "b.c": (2, 1)}
    assert float(begun["a"]) == 1.5


def test_what_is_given_comes_before_the_examples_and_options_after() -> None:
    task = fl.clients.task(lambda first, examples, *, wrong: LineClient(examples, wrong=wrong + first), "x", wrong="y")
    client = task.client({"train": {"x": np.ones(1)}})
    assert (client.wrong, client.examples["train"]["x"].tolist()) == ("yx", [1.0])


def test_it_is_called_as_the_kind_or_as_one_says() -> None:
    assert fl.clients.task(LineClient).name == "LineClient"
    assert fl.clients.task(LineClient, name="mine").name == "mine"


def test_the_model_is_given_back_by_the_client_or_as_arrays() -> None:
    assert fl.clients.task(LineClient).give_back(Variables({"w": np.float32(3)}, {})) == {"w": 3.0}
    assert fl.clients.task(Pair).give_back(Variables({"a": np.float32(3), "b.c": np.zeros((2, 1))}, {})) == ["a", "b.c"]
    with pytest.raises(ArgumentError, match=r"one model, with params.w of shape \(\), but is 2 models"):
        fl.clients.task(LineClient).give_back(Variables({"w": np.zeros(2)}, {}))


def test_a_class_of_clients_declares_which_way_its_metrics_improve() -> None:
    class Measuring(LineClient):
        better: ClassVar = {"f1": "higher", "distance": "lower"}

    directions = fl.clients.task(Measuring).directions
    assert (directions["f1"], directions["distance"], directions["loss"]) == ("higher", "lower", "lower")
    assert "f1" not in fl.clients.task(LineClient).directions
    Measuring.better = {"f1": "up"}
    with pytest.raises(ArgumentError, match='better must be "higher" or "lower" for `f1`'):
        fl.clients.task(Measuring)


def test_nothing_is_compiled() -> None:
    with pytest.raises(NotImplementedError, match="no loss to compile"):
        fl.clients.task(LineClient).loss(None, None, None)


def test_a_station_adds_up_what_its_clients_learned_weighted_by_examples(generated) -> None:
    data = generated([2, 3])
    station = NativeStation(data, fl.clients.task(Pair), [fl.fedavg()], [0])
    sent = {"variables.params.a": np.array([1.5], np.float32), "variables.params.b.c": np.zeros((1, 2, 1), np.float32)}
    total, _, _ = station.work(sent, 0, np.array([[0, 1, -1]]), None)
    assert (total.update.params["a"].tolist(), total.weight.tolist()) == ([5.0], [5.0])


def test_what_is_not_sent_back_is_told(generated) -> None:
    class Silent(Pair):
        def fit(self, broadcast):  # noqa: ARG002
            return Answer({"a": np.zeros(())}, 1)

    station = NativeStation(generated([2]), fl.clients.task(Silent), [fl.fedavg()], [0])
    sent = {"variables.params.a": np.zeros(1, np.float32), "variables.params.b.c": np.zeros((1, 2, 1), np.float32)}
    with pytest.raises(CrewError, match=r"sent back nothing for b.c, which has the shape \(2, 1\)"):
        station.work(sent, 0, np.array([[0]]), None)
