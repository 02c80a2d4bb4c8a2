"""Own models: every client has a model, trains it, and makes its next one from all clients' models."""

from __future__ import annotations

from typing import Any

from fedloom.algorithms.method import Method
from fedloom.combine.weighting import Weighting, by_size
from fedloom.errors import require
from fedloom.local import Local, given
from fedloom.mixing import Mixer, identity, neighbours, personal
from fedloom.routing import OwnModels


def personalised(
    *,
    weighting: Weighting = by_size,
    peers: int | None = None,
    peers_by: str | None = None,
    fraction: float = 0.1,
    selection: str = "uniform",
    local: Local | None = None,
    **local_options: Any,
) -> Method:
    """Return the method in which every client evaluates all models on its own data and makes its own average.

    Args:
        weighting: the weight of each model for a client, given what the client measures of it.
        peers: the number of other clients that each client averages with; ``None`` is all clients, which takes K²
            evaluations if models are measured.
        peers_by: with ``peers``, which other clients: ``random`` (the default), drawn anew in every round, or
            ``nearest``, whose models are nearest to the client's own.
        fraction: C, the share of clients in a round; the others neither train nor mix. 1 is all clients.
        selection: the way in which they are selected; see :data:`fedloom.selection.SELECTIONS`.
        local: the work of a client; or give the arguments of :func:`fedloom.local.sgd` here.

    >>> personalised(epochs=2).routing.describe()
    {'mixing': 'personal', 'weighting': 'size'}
    """
    require(peers is not None or peers_by is None, "peers_by", "left alone with all peers", peers_by)
    mixer = personal(weighting) if peers is None else neighbours(weighting, peers, peers_by or "random")
    return _method(mixer, fraction, selection, local, local_options)


def local_only(
    *, fraction: float = 0.1, selection: str = "uniform", local: Local | None = None, **local_options: Any
) -> Method:
    """Return the method in which clients share nothing: as many independent runs as there are clients.

    The arguments are those of :func:`personalised`.
    """
    return _method(identity, fraction, selection, local, local_options)


def _method(mixer: Mixer, fraction: float, selection: str, local: Local | None, options: dict[str, Any]) -> Method:
    work = given(local, options, "fraction", "selection", "local")
    return Method(work, OwnModels(mixer), fraction=fraction, selection=selection).checked()
