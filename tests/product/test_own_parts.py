"""Parts of a user's own run on every engine and in sweeps; what cannot work is refused by name."""

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.combine import Combiner, Weighting
from fedloom.errors import ArgumentError
from fedloom.local import sgd
from fedloom.mixing import identity
from fedloom.routing import OwnModels, Routing
from fedloom.trees import record

FOLDER = Path(__file__).parents[2] / "examples" / "own_parts"
FILES = sorted(file.stem for file in FOLDER.glob("*.py"))
TASK, SIZES = fl.tasks.logistic(inputs=4, classes=3), [12, 7, 9, 15]
ENGINES: dict[str, Callable[[], fl.engines.Engine]] = {
    "3 lanes": lambda: fl.engines.compiled(devices=1, lanes=3),
    "2 devices": lambda: fl.engines.compiled(devices=2),
    "reference": fl.engines.reference,
    "processes": lambda: fl.engines.processes(2),
    "Ray": lambda: fl.engines.ray(1),
}
SLOW = ("2 devices", "processes", "Ray")


def method(name: str, **options: Any) -> fl.Method:
    """Return the method of an example."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: fl.Method = module.method(**options)
    return made


def numbers(run: fl.Run) -> np.ndarray:
    """Return all numbers of all clients' models."""
    return np.concatenate([np.ravel(a) for k in range(len(SIZES)) for a in jax.tree.leaves(run.of(k))])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("engine", [pytest.param(e, marks=pytest.mark.slow if e in SLOW else ()) for e in ENGINES])
def test_it_runs_on_every_engine_with_the_same_numbers(name: str, engine: str, generated: Any) -> None:
    data, settings = generated(SIZES), {"rounds": 2, "evaluate": ["test"]}
    one = fl.run(data, TASK, method(name, lr=0.1, batch_size=4), engine=fl.engines.compiled(devices=1), **settings)
    other = fl.run(data, TASK, method(name, lr=0.1, batch_size=4), engine=ENGINES[engine](), **settings)
    np.testing.assert_allclose(numbers(other), numbers(one), atol=1e-6)
    plain = fl.run(data, TASK, fl.fedavg(fraction=1.0, lr=0.1, batch_size=4), **settings)
    assert not np.allclose(numbers(plain), numbers(one), atol=1e-3)  # the part has an effect


@pytest.mark.parametrize("name", FILES)
def test_it_is_swept(name: str, generated: Any) -> None:
    runs = fl.sweep(generated(SIZES), TASK, method(name, lr=0.1, batch_size=4), lr=[0.05, 0.2], rounds=1)
    assert len({numbers(run).tobytes() for run in runs}) == 2


@pytest.mark.parametrize("name", FILES)
def test_its_class_has_at_most_fifteen_lines(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    [defined] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    texts = [node.body[0] for node in ast.walk(defined) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    texts = [text for text in texts if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)]
    prose = {line for text in texts for line in range(text.lineno, (text.end_lineno or text.lineno) + 1)}
    source = (FOLDER / f"{name}.py").read_text().splitlines()
    every = range(defined.lineno, (defined.end_lineno or 0) + 1)
    lines = [i for i in every if i not in prose and source[i - 1].strip()]
    assert len(lines) <= 15


@record
class NoCombine(Combiner):
    """An aggregator without ``combine``."""


@record
class NoWeigh(Weighting):
    """A weighting without ``weigh``."""


@record
class NoChoice(Routing):
    """A routing whose clients choose, without a way to choose."""

    chooses = has_several_outputs = True

    def weigh(self, replies: Any) -> Any:
        return replies.examples

    def total(self, replies: Any, weights: Any) -> Any:  # noqa: ARG002
        return weights.sum()


@record
class Negative(Weighting):
    """Weights below zero."""

    def weigh(self, replies: Any) -> Any:
        return -replies.examples


@record
class Ranked(Weighting):
    """The weight of a reply depends on the others, and nothing says so."""

    def weigh(self, replies: Any) -> Any:
        return replies.examples / replies.examples.max()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: fl.fedavg(combiner=NoCombine()),
            "combiner must be a class that defines `combine`, but is 'NoCombine'",
        ),
        (lambda: fl.fedavg(weighting=NoWeigh()), "weighting must be a class that defines `weigh`, but is 'NoWeigh'"),
        (lambda: fl.fedavg(routing=NoChoice()), "routing must be a class that defines `choose`, but is 'NoChoice'"),
        (lambda: fl.fedavg(weighting=Negative()), "weighting must be one whose weights are finite and at least 0"),
        (lambda: fl.fedavg(weighting=Ranked()), "weighting must be one that defines `alone` as False"),
        (lambda: fl.Method(sgd(), "a ring"), "routing must be a Routing, such as fl.routing.one_server()"),
    ],
)
def test_what_cannot_work_is_refused_by_name(make: Callable[[], fl.Method], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make().checked()


@record
class Halved(Weighting):
    """Divide by twice the weights: half the mean update."""

    def weigh(self, replies: Any) -> Any:
        return replies.examples

    def total(self, replies: Any, weights: Any) -> Any:  # noqa: ARG002
        return 2 * weights.sum()


def test_a_total_of_ones_own_has_an_effect(generated: Any) -> None:
    data, options = generated(SIZES), {"fraction": 1.0, "lr": 0.1, "batch_size": None}
    first = fl.run(data, TASK, fl.fedavg(**options), rounds=1, evaluate=["test"])
    half = fl.run(data, TASK, fl.fedavg(weighting=Halved(), **options), rounds=1, evaluate=["test"])
    begun = fl.run(data, TASK, fl.fedavg(lr=1e-9), rounds=1, evaluate=["test"])
    models = (jax.tree.leaves(run.variables) for run in (begun, first, half))
    for start, whole, part in zip(*models, strict=True):
        np.testing.assert_allclose(part, (np.asarray(start) + np.asarray(whole)) / 2, rtol=1e-5, atol=1e-6)


def test_an_overridden_function_that_nothing_calls_is_an_error() -> None:
    @record
    class OwnModel(fl.Method):
        """A method whose ``model`` nothing asks for, since all clients use the server's."""

        def model(self, state: Any, client: Any) -> Any:  # noqa: ARG002
            return jnp.zeros(1)

    plain = fl.fedavg()
    with pytest.raises(ArgumentError, match="model must be overridden in personal work or a routing"):
        OwnModel(plain.local, plain.routing).checked()
    assert OwnModel(plain.local, OwnModels(identity), fraction=1.0).checked()
