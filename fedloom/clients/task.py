"""Task: what clients with code of their own learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from fedloom.clients.client import Client
from fedloom.direction import declared
from fedloom.tasks.task import Batch, Task, Variables
from fedloom.tasks.user_model import trained

if TYPE_CHECKING:
    from jaxtyping import Array, Key


def task(kind: Callable[..., Client], *given: Any, name: str | None = None, **options: Any) -> Task:
    """A task for clients that train by their own code; it runs on :func:`fedloom.engines.processes` and
    :func:`fedloom.engines.ray`.

    Arguments:
        kind: what makes a client: a class such as :class:`fedloom.clients.TorchClient`, or any function; called with
            what is given here and then the client's examples by part: ``{"train": {"x": …, "y": …}}``.
        name: what it is called in tables; by default as the kind.

    The model that the run begins with is that of ``kind(...).weights()``, with no examples.
    A client that measures more than accuracy, loss and error declares which way each improves, as an attribute:
    ``better = {"f1": "higher"}``.

    ``task.give_back(run.variables)`` is what the client's ``trained(weights)`` makes of the trained weights, or these
    by name where it has no such method.
    """
    make = partial(_made, kind, given, options)
    nobody = make({})
    begun = {n: np.asarray(w) for n, w in nobody.weights().items()}
    shapes = {f"params.{n}": w.shape for n, w in begun.items()}

    def init(key: Key[Array, ""]) -> Variables:  # noqa: ARG001
        return Variables({n: jnp.asarray(w) for n, w in begun.items()}, {})

    def never(*_: Any) -> Any:
        raise NotImplementedError("clients with code of their own have no loss to compile")

    def give_back(variables: Variables) -> Any:
        found = {n.removeprefix("params."): w for n, w in trained(variables, shapes).items()}
        own = getattr(nobody, "trained", None)
        return found if own is None else own(found)

    called = name or str(getattr(kind, "__name__", "client"))
    better = declared(getattr(nobody, "better", {}))
    return Task(called, init, never, never, give_back=give_back, client=make, better=better)


def _made(
    kind: Callable[..., Client], given: tuple[Any, ...], options: dict[str, Any], examples: dict[str, Batch]
) -> Client:
    return kind(*given, examples, **options)
