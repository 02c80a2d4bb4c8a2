import jax
import numpy as np
import pytest
from line_client import LineClient
from often import often
from quadratic import points, quadratic

import fedloom as fl
from fedloom.engines.crew import Crew
from fedloom.engines.spread import cut
from fedloom.engines.spreading import Spreading
from fedloom.errors import CrewError
from fedloom.trees import flatten

VALUES = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]


class Here(Crew):
    """A crew of one, in this process."""

    def __init__(self, make):
        self.thing, self.closed, self.sizes = make(), False, []

    def do(self, method, shared, pieces):
        self.sizes.append(len(pieces))
        return [getattr(self.thing, method)(shared, *piece) for piece in pieces]

    def close(self):
        self.closed = True


class Alone(Spreading):
    def crew(self, make):
        crews.append(Here(make))
        return crews[-1]


crews: list[Here] = []


def end(algorithm, engine=None, rounds=3, **options):
    return fl.run(points(VALUES), quadratic(), algorithm, rounds=rounds, evaluate=["test"], engine=engine, **options)


def test_a_cohort_is_cut_into_pieces_of_about_the_same_work() -> None:
    cohort, steps = np.array([[4, 5, 6, 7, 8]]), np.array([[1, 9, 2, 8, 3]])
    assert cut(cohort, steps, 2).tolist() == [[[5, 8, 4], [7, 6, -1]]]
    assert cut(cohort, steps, 9).tolist() == [[[5], [7], [8], [6], [4]]]


ALGORITHMS = {
    "fedavg": fl.fedavg(fraction=0.7, lr=0.1, epochs=2),
    "momentum": fl.fedavg(fraction=0.7, lr=0.1, server=fl.server("momentum")),
    "by accuracy": fl.fedavg(fraction=1.0, lr=0.1, weighting=fl.combine.by_accuracy(on="test")),
    "scaffold": fl.scaffold(fraction=0.7, lr=0.1),
    "ditto": fl.ditto(0.1, fraction=0.7, lr=0.1),
    "median": fl.fedavg(fraction=0.7, lr=0.1, combiner=fl.combine.median()),
    "clipped": fl.fedavg(fraction=0.7, lr=0.1, combiner=fl.combine.clipped(0.5)),
    "personalised": fl.personalised(fraction=0.7, lr=0.1, weighting=fl.combine.by_accuracy(on="test")),
    "local only": fl.local_only(fraction=0.7, lr=0.1),
    "ring": fl.dpa_sgd("ring", period=2, batch_size=1, lr=0.1),
    "multi-task": fl.algorithms.dpa_sgd_mtl("ring", period=2, batch_size=1, lr=0.1),
}


@pytest.mark.parametrize("name", often(ALGORITHMS, ("scaffold", "personalised")))
def test_a_crew_computes_what_one_process_does(name: str) -> None:
    algorithm = ALGORITHMS[name]
    alone, spread = end(algorithm), end(algorithm, Alone(1, pieces=2))
    for name, a in flatten(alone.variables).items():
        np.testing.assert_allclose(flatten(spread.variables)[name], a, rtol=1e-6)
    for mine, theirs in zip(spread.history.rows, alone.history.rows, strict=True):
        assert {k: v for k, v in mine.items() if k != "s"} | {"seconds": 0} == pytest.approx(
            {**theirs, "seconds": 0}, rel=1e-5, abs=1e-6
        )
    assert crews[-1].closed
    assert set(crews[-1].sizes) == {2}


def test_users_are_observed_too() -> None:
    alone, spread = (end(ALGORITHMS["fedavg"], engine, users=True) for engine in (None, Alone(1, pieces=3)))
    mine, theirs = (np.argsort(run.users.last("client")) for run in (spread, alone))
    for measure in ("before_loss", "after_loss"):
        np.testing.assert_allclose(spread.users.last(measure)[mine], alone.users.last(measure)[theirs], rtol=1e-5)


def test_a_run_in_a_crew_is_resumed_with_the_same_numbers(tmp_path) -> None:
    whole = end(ALGORITHMS["scaffold"], Alone(1, pieces=2), rounds=4)
    end(ALGORITHMS["scaffold"], Alone(1, pieces=2), rounds=2, directory=tmp_path)
    resumed = end(ALGORITHMS["scaffold"], Alone(1, pieces=2), rounds=4, directory=tmp_path)
    assert jax.tree.all(jax.tree.map(np.array_equal, resumed.variables, whole.variables))


def test_clients_with_code_of_their_own_choose_a_cluster_as_compiled_ones_do() -> None:
    """With one cluster, and with two that begin alike, of which all choose the first."""
    for clusters in (1, 2):
        method = fl.ifca(clusters, fraction=1.0, lr=0.5)
        compiled = fl.run(points(VALUES), quadratic(), method, rounds=2, evaluate=["test"])
        task = fl.clients.task(LineClient, rate=2.0)
        own = fl.run(points(VALUES), task, method, rounds=2, evaluate=["test"], engine=Alone(1, pieces=4))
        both = compiled.variables.params["body"]["w"] + compiled.variables.params["output"]["w"]
        np.testing.assert_allclose(own.variables.params["w"], both, rtol=1e-5)
        assert own.history.last("steps") == compiled.history.last("steps")


@pytest.mark.parametrize("algorithm", [fl.local_only(fraction=1.0, lr=0.5), fl.personalised(fraction=1.0, lr=0.5)])
def test_users_with_code_and_models_of_their_own_learn_what_the_compiled_ones_do(algorithm) -> None:
    compiled = fl.run(points(VALUES), quadratic(), algorithm, rounds=2, evaluate=["test"])
    task = fl.clients.task(LineClient, rate=2.0)  # w stands for a + b, which each move by η
    own = fl.run(points(VALUES), task, algorithm, rounds=2, evaluate=["test"], engine=Alone(1, pieces=4))
    both = compiled.variables.params["body"]["w"] + compiled.variables.params["output"]["w"]
    np.testing.assert_allclose(own.variables.params["w"], both, rtol=1e-5)
    for metric in ("own_test_loss", "own_test_accuracy", "steps"):
        assert own.history.last(metric) == pytest.approx(compiled.history.last(metric), rel=1e-5), metric


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("shape", r"client \d sent back an array of shape \(3,\) for w"), ("nan", r"client \d sent back w with numbers")],
)
def test_what_a_client_does_wrong_is_told_with_its_name(wrong: str, told: str) -> None:
    with pytest.raises(CrewError, match=told):
        native(fl.fedavg(fraction=1.0, lr=0.5), wrong=wrong)


def test_clients_with_code_of_their_own_say_what_their_models_are_worth() -> None:
    """Only the client whose examples are 0 is content with the model it is sent, 0, so that hardly another counts."""
    by_accuracy = fl.combine.by_accuracy(on="test", moment="before")
    done = native(fl.fedavg(fraction=1.0, lr=1.0, weighting=by_accuracy), rounds=1)
    assert float(done.variables.params["w"]) == pytest.approx(0, abs=1e-3)


class OneBroken(LineClient):
    """A client that sends back no number where its examples are 4."""

    def fit(self, broadcast):
        self.wrong = "nan" if self.examples["train"]["x"][0] == 4 else ""
        return super().fit(broadcast)


def test_replies_of_clients_with_code_of_their_own_are_combined() -> None:
    """Each comes half the way to its examples, from 0: to 0, ½, 1, 4 and 8, and one breaks."""
    learned = lambda combiner: native(  # noqa: E731
        fl.fedavg(fraction=1.0, lr=0.5, batch_size=None, combiner=combiner), rounds=1, make=OneBroken
    )
    assert float(learned(fl.combine.median()).variables.params["w"]) == 1.0
    done = learned(fl.combine.clipped(2.0))
    assert float(done.variables.params["w"]) == pytest.approx((0 + 0.5 + 1 + 2 + 2) / 5)
    assert done.history.last("broken") == 1
    with pytest.raises(CrewError, match="client 3 sent back w with numbers that are not finite"):
        learned(fl.combine.mean)


def native(algorithm, rounds: int = 2, make=LineClient, **options):
    task = fl.clients.task(make, **options)
    return fl.run(points(VALUES), task, algorithm, rounds=rounds, evaluate=["test"], engine=Alone(1, pieces=4))
