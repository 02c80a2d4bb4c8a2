"""Methods: every algorithm by its name, as an experiment describes it, and of which options it has a use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedloom.algorithms import (
    Method,
    ditto,
    dpa_sgd,
    dpa_sgd_mtl,
    fedavg,
    fedavg_mtl,
    fedbn,
    fedper,
    fedprox,
    fedrep,
    ifca,
    local_only,
    personalised,
    push_sum,
    qfedavg,
    scaffold,
)
from fedloom.mixing.gossip import changes, is_random
from fedloom.runs.catalogue import LISTING


def useless(
    algorithm: str, combine: str, weighting: str, server: str, exclude: float | None, peers: int | None, topology: str
) -> dict[str, str]:
    """The options of which an experiment has no use → why; by the fields of DECIDING.

    >>> useless("fedavg", "mean", "size", "average", None, None, "ring")["mu"]
    'with algorithm fedavg'
    """
    used, beside = METHODS[algorithm][0], f"with algorithm {algorithm}"
    how, which, along = f"with combine {combine}", f"with the weighting {weighting}", f"with the topology {topology}"
    reads = "-" in weighting or exclude is not None
    found: dict[str, str] = {}
    for name, is_used, why in (
        *((option, option in used, beside) for option in OPTIONS),
        ("moment", reads, which), ("temperature", "-loss" in weighting, which),
        ("exclude_by", exclude is not None, which), ("peers_by", peers is not None, "with all peers"),
        ("trim", combine == "trimmed", how), ("weighting", combine == "mean", how),
        ("topology_seed", is_random(topology), along), ("neighbours", not changes(topology), along),
        ("server_momentum", server == "momentum", f"with the server {server}"),
    ):  # fmt: skip
        if not is_used:
            found.setdefault(name, why)
    return found


WORK = ("fraction", "epochs")
SERVED = (*WORK, "weighting", "exclude", "combine", "clip", "server", "server_lr", "server_momentum")
DECIDING = ("algorithm", "combine", "weighting", "server", "exclude", "peers", "topology")
"""The fields that decide of which others there is a use."""
ALONG = ("topology", "topology_seed", "neighbours", "period")
RELATED = ("lambda1", "lambda2", "lambda3", "lambda4", "eta", "private", "upper")
METHODS: dict[str, tuple[tuple[str, ...], Callable[[Any], Method]]] = {
    "fedavg": (SERVED, lambda e: fedavg(**e.averaged_arguments)),
    "fedsgd": (SERVED, lambda e: fedavg(**e.averaged_arguments)),  # federated averaging with E = 1 and B = ∞
    "fedprox": ((*SERVED, "mu"), lambda e: fedprox(e.mu, **e.averaged_arguments)),
    "scaffold": (SERVED, lambda e: scaffold(**e.averaged_arguments)),
    "qfedavg": (
        (*WORK, "clip", "server", "server_lr", "server_momentum", "q"),
        lambda e: qfedavg(e.q, **{name: a for name, a in e.averaged_arguments.items() if name != "weighting"}),
    ),
    "ditto": ((*SERVED, "mu"), lambda e: ditto(e.mu, **e.averaged_arguments)),
    "fedper": ((*SERVED, "private"), lambda e: fedper(e.private, **e.averaged_arguments)),
    "fedrep": ((*SERVED, "private", "head_epochs"), lambda e: fedrep(e.private, e.head_epochs, **e.averaged_arguments)),
    "fedbn": (SERVED, lambda e: fedbn(**e.averaged_arguments)),
    "ifca": (
        (*WORK, "weighting", "clusters"),
        lambda e: ifca(e.clusters, weighting=e.build_weighting(), **e.work_arguments),
    ),
    "personalised": (
        (*WORK, "weighting", "exclude", "peers"),
        lambda e: personalised(weighting=e.build_weighting(), peers=e.peers, peers_by=e.peers_by, **e.work_arguments),
    ),
    "dpa-sgd": (ALONG, lambda e: dpa_sgd(weights=e.neighbours, **e.along_arguments, **e.step_arguments)),
    "dpa-sgd-mtl": (
        (*ALONG, *RELATED),
        lambda e: dpa_sgd_mtl(weights=e.neighbours, **e.along_arguments, **e.related_arguments),
    ),
    "push-sum": (("topology", "topology_seed", "period"), lambda e: push_sum(**e.along_arguments, **e.step_arguments)),
    "fedavg-mtl": (("epochs", *RELATED), lambda e: fedavg_mtl(epochs=e.epochs, **e.related_arguments)),
    "local": (WORK, lambda e: local_only(**e.work_arguments)),
    "central": ((*WORK, "server", "server_lr", "server_momentum"), lambda e: fedavg(**e.averaged_arguments)),
}
"""Algorithm → the options of which others have no use, and what builds it."""
OPTIONS = tuple(dict.fromkeys(option for used, _ in METHODS.values() for option in used))
assert METHODS.keys() == LISTING["algorithm"].keys()
