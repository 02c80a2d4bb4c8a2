"""Messages between the server and a client: what is sent before local work, and the reply after it."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from fedloom.tasks.task import Variables
from fedloom.trees import record

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

    ClientState = dict[str, PyTree]


@record
class Sent:
    """A server's message to a client.

    Arguments:
        variables: the model.
        broadcast: named trees sent beside the model, such as SCAFFOLD's control; empty for most algorithms.
    """

    variables: Variables
    broadcast: dict[str, PyTree]


@record
class Message:
    """A client's message to the server: named trees, grouped by how the server adds them up.

    Arguments:
        mean: averaged with the clients' weights: ``params`` and ``state``, the change of the model.
        sum: added without weights. The broadcast of the same name grows by this sum, divided by the number of clients.
        listed: delivered one by one.
    """

    mean: dict[str, PyTree]
    sum: dict[str, PyTree] = field(default_factory=dict)
    listed: dict[str, PyTree] = field(default_factory=dict)


@record
class Reply:
    """The result of a client's local work.

    Arguments:
        message: sent to the server.
        state: stays with the client until its next round, by name.
        report: name → (sum, count) of a measure, for the history only.
    """

    message: Message
    state: ClientState
    report: dict[str, tuple[Array, Array]] = field(default_factory=dict)
