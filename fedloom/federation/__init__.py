"""Federation: a server and real participants, over a network on which everybody proves who they are.

Needs the extra ``federation``; nothing of it is imported before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.errors import MissingExtra
from fedloom.federation.rules import Rules
from fedloom.version import VERSION

if TYPE_CHECKING:
    from fedloom.algorithms import Method
    from fedloom.data import FederatedData
    from fedloom.runs import Run
    from fedloom.runs.stopping import Stop
    from fedloom.tasks import Task, Variables

LIBRARIES = {"google": "protobuf", "grpc": "grpcio", "cryptography": "cryptography"}
"""What the extra brings, by the name under which it is imported."""

__all__ = ["Rules", "serve", "take_part"]


def serve(
    task: Task,
    algorithm: Method,
    *,
    folder: str | Path,
    address: str = "0.0.0.0:8443",
    keys: str | Path | None = None,
    revoked: str | Path | None = None,
    data: FederatedData | None = None,
    stop: Stop | None = None,
    rules: Rules | None = None,
    seed: int = 0,
    page: str | None = None,
    label: str | None = None,
    new_run: bool = False,
    **more: Any,
) -> Run:
    """Serve a run until it is over; begun again with the same folder, it goes on where it was.

    Arguments:
        task, algorithm: what is learned and how, as in a simulation.
        folder: where everything is kept.
        address: ``host:port`` for participants.
        keys: the server's folder of keys (``fedloom keys issue … --server``); ``None`` secures nothing, which only
            this machine's own address may.
        revoked: the authority's ``revoked.json``.
        data: whose test examples every model is judged on, if the server has any; its classes and columns are those
            that participants number and scale theirs by.
        stop: when the run has done enough; by default after 100 rounds.
        rules: how rounds begin and end, and what is believed of participants.
        seed: of everything random.
        page: ``host:port`` of the live page.
        label: what the run is called.
        new_run: begin a new run in a folder whose run cannot go on, because its journal or its state is lost or
            damaged; the files of that run are moved to a folder ``before-1`` within it.
    """
    with extra():
        from fedloom.federation.agreement import described
        from fedloom.federation.course import course
        from fedloom.federation.hosting import Place, host
    place = Place(Path(folder), address, page, _path(keys), _path(revoked), new_run=new_run, **more)
    alike = {**described(data), "classes": max(data.classes, task.classes or 0)} if data else {}
    run = course(task, algorithm, seed=seed, data=data, stop=stop, rules=rules, label=label, more=alike)
    return host(run, place)


def take_part(
    server: str,
    task: Task,
    algorithm: Method,
    data: FederatedData,
    *,
    folder: str | Path,
    keys: str | Path | None = None,
    name: str = "",
    ready: Callable[[], bool] = lambda: True,
    **more: Any,
) -> Variables | None:
    """Take part in a server's run until it is over: the final model; ``None`` if one was asked to leave before.

    Arguments:
        server: ``host:port``.
        task, algorithm: the server's, which is checked; the task's clients may have code of their own.
        data: one client's. It never leaves. Classes are numbered, and a table's columns ordered and scaled, as the
            server's.
        folder: where updates wait until the server has them, and where what is kept is kept.
        keys: this participant's folder of keys (``fedloom keys issue``); ``None`` secures nothing.
        name: what it is called where nothing is secured.
        ready: whether it may be asked to work now: plugged in, idle, not on a metered network.
    """
    with extra():
        from fedloom.federation.agreement import aligned
        from fedloom.federation.arithmetic import arithmetic, told
        from fedloom.federation.joining import Way, join
        from fedloom.federation.trainer import LocalTrainer
    trainer = LocalTrainer(data, lambda about: (task, algorithm), aligned)  # noqa: ARG005
    done = join(trainer, Way(server, Path(folder), _path(keys), name, ready, **more), VERSION)
    if not done.model:
        return None
    mine = trainer.ready.arithmetic if trainer.ready else arithmetic(task, algorithm, 0)
    return told(mine.like.sent, done.model, mine.first.variables).variables


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


@contextmanager
def extra() -> Iterator[None]:
    """Report a library that is not installed as a missing extra; other import errors stay as they are."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").split(".")[0]
        if library not in LIBRARIES:
            raise
        raise MissingExtra(LIBRARIES[library], "federation") from error
