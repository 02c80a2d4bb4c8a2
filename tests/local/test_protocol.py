"""Local work of a user's own: what a class must define, and what nothing would call."""

from dataclasses import replace
from typing import Any

import pytest
from quadratic import points, quadratic

from fedloom.algorithms import fedavg
from fedloom.engines import compiled
from fedloom.errors import ArgumentError
from fedloom.local import Batches, LinearPenalty, Local, LocalWrapper, Sgd, proximal, scaffold, sgd
from fedloom.local.related import Related
from fedloom.trees import record


def nothing(self: Any) -> None:
    """A method of which only the name matters."""


@pytest.mark.parametrize(
    ("name", "current"),
    [
        ("start", "begin"),
        ("finish", "end"),
        ("keeps", "client_state"),
        ("tells", "broadcast"),
        ("hides", "private_leaves"),
        ("steps", "batches"),
        ("rows", "batches"),
        ("taken", "batches"),
        ("gradients", "gradient"),
        ("client_states", "client_state"),
        ("brodcast", "broadcast"),
        ("called", "label"),
    ],
)
@pytest.mark.parametrize("base", [Sgd, Local, LocalWrapper])
def test_a_method_that_nothing_calls_is_refused(base: type[Local], name: str, current: str) -> None:
    with pytest.raises(ArgumentError, match=f"a method of Mine must be named `{current}`.* but is '{name}'"):
        type("Mine", (base,), {name: nothing})


def test_helpers_and_the_protocols_own_names_are_allowed() -> None:
    allowed = dict.fromkeys(("begin", "end", "gradient", "move", "_start", "smooth", "model"), nothing)
    assert type("Mine", (Sgd,), {**allowed, "start": 3.0}).__name__ == "Mine"


@record
class WholeStep(Sgd):
    """A step of its own, without penalties."""

    def step(self, task: Any, work: Any, batch: Any, client: Any) -> Any:
        gradient, _ = self.gradient(task, work, batch, client)
        return self.move(work, gradient, client)


@record
class Noted(Sgd):
    """The inherited step and something beside it."""

    applies_penalties = True

    def step(self, task: Any, work: Any, batch: Any, client: Any) -> Any:
        return super().step(task, work, batch, client)


def test_a_penalty_around_a_whole_step_is_refused_by_name() -> None:
    plain = sgd()
    whole, noted = (kind(plain.batches, plain.optimizer).checked() for kind in (WholeStep, Noted))
    need = r"local must be work that overrides `gradient` or `move`.*of WholeStep"
    for wrap in (lambda local: proximal(0.1, local), scaffold, lambda local: Related(local).checked()):
        with pytest.raises(ArgumentError, match=need):
            wrap(whole)
        assert wrap(noted).has_penalties


@record
class Unsaid(LocalWrapper):
    """A wrapper whose step calls the inner one, but does not say so."""

    inner: Local

    def step(self, task: Any, work: Any, batch: Any, client: Any) -> Any:
        return self.inner.step(task, work, batch, client)


def test_a_whole_step_around_a_penalty_is_refused_by_name() -> None:
    assert Unsaid(sgd()).checked().inner.is_plain_sgd
    with pytest.raises(ArgumentError, match=r"not all of `step`.*Unsaid of proximal"):
        Unsaid(proximal(0.1, sgd())).checked()


@record
class Undeclared(LocalWrapper):
    """A penalty of which the class does not say that it has one."""

    inner: Local

    def begin(self, sent: Any, state: Any, client: Any) -> Any:
        work = self.inner.begin(sent, state, client)
        return replace(work, penalties=(LinearPenalty(work.variables.params),))


def test_a_penalty_that_is_not_declared_is_refused_when_the_work_begins() -> None:
    plain = sgd()
    algorithm = fedavg(fraction=1.0, local=Undeclared(WholeStep(plain.batches, plain.optimizer)))
    program = compiled(devices=1).program(points([1.0]), quadratic(), [algorithm], [0])
    with pytest.raises(ArgumentError, match="work whose step applies the penalties that `begin` adds"):
        program.advance(program.init(), 0, 1)


def test_a_model_that_nothing_calls_is_refused() -> None:
    mine = type("Mine", (Sgd,), {"model": nothing})
    plain = sgd()
    with pytest.raises(ArgumentError, match="is_personal of Mine must be True, or nothing calls its method `model`"):
        record(mine)(plain.batches, plain.optimizer).checked()
    around = record(type("Mine", (LocalWrapper,), {"__annotations__": {"inner": Local}, "model": nothing}))
    with pytest.raises(ArgumentError, match="is_personal of Mine"):
        around(plain).checked()


def test_a_class_that_lacks_a_function_is_refused_by_its_name() -> None:
    names = dict.fromkeys(("begin", "gradient", "move", "end"), nothing)
    for lacking in names:
        rest = {name: f for name, f in names.items() if name != lacking}
        kind = record(type("Mine", (Local,), {"__annotations__": {"batches": Batches}, **rest}))
        with pytest.raises(ArgumentError, match=f"local must be a class that defines `{lacking}`, but is 'Mine'"):
            fedavg(local=kind(sgd().batches))


def test_a_class_that_is_no_record_is_refused() -> None:
    plain = sgd()
    with pytest.raises(ArgumentError, match="local must be a record: decorate its class with @record, but is 'Bare'"):
        type("Bare", (Sgd,), {})(plain.batches, plain.optimizer).checked()
