"""What a reply carries, and what engines refuse of it."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import points, quadratic

from fedloom.algorithms import fedavg
from fedloom.engines import compiled
from fedloom.errors import ArgumentError
from fedloom.local import Local, LocalWrapper, Message, Reply, sgd
from fedloom.trees import record, static


@record
class Counting(LocalWrapper):
    """Every client adds its number of examples to a sum that is broadcast."""

    inner: Local
    name: str = static()

    def broadcast(self, variables: Any) -> Any:
        return {**self.inner.broadcast(variables), "seen": jnp.float32(0)}

    def end(self, work: Any, sent: Any, state: Any, client: Any) -> Any:
        reply = self.inner.end(work, sent, state, client)
        return replace(reply, message=replace(reply.message, sum={self.name: client.examples.astype(float)}))


@record
class Adding(LocalWrapper):
    """A reply with something that no engine delivers."""

    inner: Local
    part: str = static()

    def end(self, work: Any, sent: Any, state: Any, client: Any) -> Any:
        reply, one = self.inner.end(work, sent, state, client), jnp.float32(1)
        if self.part == "report":
            return replace(reply, report={"loss": (one, one)})
        if self.part == "listed":
            return replace(reply, message=replace(reply.message, listed={"head": one}))
        return replace(reply, message=replace(reply.message, mean={**reply.message.mean, "steps": one}))


def after(local: Local, rounds: int = 2) -> Any:
    data, algorithm = points([1.0, 2.0, 3.0]), fedavg(fraction=1.0, local=local)
    program = compiled(devices=1).program(data, quadratic(), [algorithm], [0])
    return program.advance(program.init(), 0, rounds)[0]


def test_a_message_is_empty_but_for_its_mean() -> None:
    message = Message({"params": 1})
    assert (message.sum, message.listed) == ({}, {})
    assert Reply(message, {}).report == {}


def test_a_broadcast_grows_by_the_sum_over_the_clients() -> None:
    state = after(Counting(sgd(), "seen"))
    np.testing.assert_allclose(state.broadcast["seen"], [2 * (2 + 2 + 2) / 3])


def test_a_sum_that_is_not_broadcast_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"the sum of a message must be of trees that are broadcast \(seen\)"):
        after(Counting(sgd(), "others"))


@pytest.mark.parametrize("part", ["report", "listed", "mean"])
def test_what_no_engine_delivers_is_refused(part: str) -> None:
    with pytest.raises(ArgumentError, match=part):
        after(Adding(sgd(), part))
