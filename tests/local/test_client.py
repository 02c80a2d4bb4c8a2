"""What a client knows about its round."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import points, quadratic

from fedloom.algorithms import fedavg
from fedloom.engines import compiled
from fedloom.keys import CLIENT, END, client_key
from fedloom.local import Client, Local, LocalWrapper, private, sgd
from fedloom.trees import member, record

SIZES = [5, 2, 0]


def noted(client: Client) -> dict[str, Any]:
    return {"examples": client.examples, "steps": client.steps, "lr": jnp.asarray(client.lr), "round": client.round,
            "key": jax.random.key_data(client.key), "readings": client.readings}  # fmt: skip


@record
class Noting(LocalWrapper):
    """Keep what the client knew when it began and when it ended."""

    inner: Local

    def client_state(self, variables: Any) -> Any:
        zero = {"examples": jnp.int32(0), "steps": jnp.int32(0), "lr": jnp.float32(0), "round": jnp.int32(0),
                "key": jnp.zeros(2, jnp.uint32), "readings": {}}  # fmt: skip
        return {**self.inner.client_state(variables), "begin": zero, "end": zero}

    def begin(self, sent: Any, state: Any, client: Client) -> Any:
        work = self.inner.begin(sent, state, client)
        return replace(work, optimizer=(work.optimizer, noted(client)))

    def step(self, task: Any, work: Any, batch: Any, client: Client) -> Any:
        optimizer, first = work.optimizer
        after = self.inner.step(task, replace(work, optimizer=optimizer), batch, client)
        return replace(after, optimizer=(after.optimizer, first))

    def end(self, work: Any, sent: Any, state: Any, client: Client) -> Any:
        reply = self.inner.end(work, sent, state, client)
        return replace(reply, state={**reply.state, "begin": work.optimizer[1], "end": noted(client)})


@pytest.mark.parametrize("layout", [{"devices": 1}, {"lanes": 2, "devices": 1}, {"lanes": 3, "devices": 1}])
def test_a_client_knows_its_own_round(layout: dict[str, Any]) -> None:
    """The same in every layout, when it begins and when it ends; steps are those of the shared layers."""
    data = points([1.0, 2.0, 3.0], each=5)
    data.clients["train"].size[:] = SIZES
    local = Noting(private("output", sgd(epochs=3, batch_size=2, lr=0.5, decay=0.5), head_epochs=4))
    program = compiled(**layout).program(data, quadratic(), [fedavg(fraction=1.0, local=local)], [7])
    state, _ = program.advance(program.init(), 0, 2)
    kept = member(state, 0).clients
    for k, n in enumerate(SIZES):
        rows = jax.tree.map(lambda a, k=k: np.asarray(a[kept.place[k]]), kept.rows)
        assert (rows["end"]["examples"], rows["end"]["steps"], rows["end"]["round"]) == (n, 3 * -(-n // 2), 1)
        assert rows["end"]["lr"] == 0.25
        key = jax.random.key_data(client_key(jnp.uint32(7), jnp.int32(1), jnp.int32(k), END))
        assert rows["end"]["key"].tolist() == key.tolist()
        assert rows["begin"]["key"].tolist() == key.tolist()
        assert rows["begin"]["examples"] == n


def test_the_key_is_none_of_the_keys_of_steps() -> None:
    keys = [client_key(jnp.uint32(1), jnp.int32(2), jnp.int32(3), purpose) for purpose in (CLIENT, END)]
    assert jax.random.key_data(keys[0]).tolist() != jax.random.key_data(keys[1]).tolist()
