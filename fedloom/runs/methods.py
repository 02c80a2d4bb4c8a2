"""Methods: every algorithm by its name, what builds it from an experiment, and the options that it uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

DECIDING = ("algorithm", "combine", "weighting", "server", "exclude", "peers", "topology", "upper", "compute", "lost",
            "deadline", "engine", "fraction")  # fmt: skip
"""The fields that decide which others have an effect."""
CLOCK = ("latency", "bandwidth", "server_bandwidth", "lost", "deadline", "late", "until_clock")
MESSAGES = ("latency", "bandwidth", "until_bytes")
WORKERS = {"actors": ("processes", "ray"), "address": ("ray",), "pieces": ("processes", "ray")}
"""Option → the engines that have a use for it."""


def useless(e: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that have no effect, with the reason, given the values of the fields in ``DECIDING``.

    >>> usual = {"algorithm": "fedavg", "combine": "mean", "weighting": "size", "server": "average", "exclude": None,
    ...          "peers": None, "topology": "ring", "upper": "", "compute": None, "lost": 0.0, "deadline": None,
    ...          "engine": "compiled", "fraction": 0.1}
    >>> useless(usual)["mu"], useless(usual)["latency"]
    ('with algorithm fedavg, which has no use for it', 'without a clock (set compute)')
    """
    algorithm, exclude = e["algorithm"], e["exclude"]
    used, beside = METHODS[algorithm][0], f"with algorithm {algorithm}"
    how, which, along = (f"with {what}, which has no use for it" for what in (
        f"combine {e['combine']}", f"the weighting {e['weighting']}", f"the topology {e['topology']}"))  # fmt: skip
    reads, has_server = "-" in e["weighting"] or exclude is not None, algorithm not in WITHOUT_SERVER
    found: dict[str, str] = {}
    for name, is_used, why in (
        *((option, option in used, f"{beside}, which has no use for it") for option in OPTIONS),
        ("selection", e["fraction"] < 1, "with fraction 1, with which all clients take part"),
        ("moment", reads, which), ("temperature", "-loss" in e["weighting"], which),
        ("exclude_by", exclude is not None, which), ("peers_by", e["peers"] is not None, "with all peers"),
        ("trim", e["combine"] == "trimmed", how), ("weighting", e["combine"] == "mean", how),
        ("topology_seed", is_random(e["topology"]), along), ("neighbours", not changes(e["topology"]), along),
        ("server_momentum", e["server"] == "momentum", f"with the server {e['server']}, which has no use for it"),
        ("lambda4", bool(e["upper"]), "without upper layers (set upper)"),
        *((name, e["compute"] is not None, "without a clock (set compute)") for name in CLOCK),
        *((name, algorithm not in SILENT, f"{beside}, which sends nothing") for name in MESSAGES),
        ("server_bandwidth", has_server and algorithm != "central", f"{beside}, which has no server"),
        ("deadline", has_server or e["lost"] > 0, "unless workers are lost: without a server one waits for late ones"),
        ("late", has_server, f"{beside}, which has no server"),
        ("late", e["deadline"] is not None, "without a deadline (set deadline)"),
        *((name, e["engine"] in engines, f"with the engine {e['engine']}, which has none")
          for name, engines in WORKERS.items()),
    ):  # fmt: skip
        if not is_used:
            found.setdefault(name, why)
    return found


WORK = ("fraction", "selection", "epochs")
FIXED: dict[str, dict[str, Any]] = {"fedsgd": {"epochs": 1, "batch_size": None}, "central": {"fraction": 1.0}}
"""Algorithm → the fields that it determines: other values contradict it."""
SERVED = (*WORK, "weighting", "exclude", "combine", "clip", "server", "server_lr", "server_momentum")
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
        (*SERVED, "clusters"),
        lambda e: ifca(e.clusters, **e.averaged_arguments),
    ),
    "personalised": (
        (*WORK, "weighting", "exclude", "peers"),
        lambda e: personalised(weighting=e.build_weighting(), **e.peer_arguments, **e.work_arguments),
    ),
    "dpa-sgd": (ALONG, lambda e: dpa_sgd(**e.weight_arguments, **e.along_arguments, **e.step_arguments)),
    "dpa-sgd-mtl": (
        (*ALONG, *RELATED),
        lambda e: dpa_sgd_mtl(**e.weight_arguments, **e.along_arguments, **e.related_arguments),
    ),
    "push-sum": (("topology", "topology_seed", "period"), lambda e: push_sum(**e.along_arguments, **e.step_arguments)),
    "fedavg-mtl": (("epochs", *RELATED), lambda e: fedavg_mtl(epochs=e.epochs, **e.related_arguments)),
    "local": (WORK, lambda e: local_only(**e.work_arguments)),
    "central": (
        ("fraction", "epochs", "server", "server_lr", "server_momentum"),
        lambda e: fedavg(**e.averaged_arguments),
    ),
}
"""Algorithm → the options of which others have no use, and what builds it."""
SILENT = ("local", "central")
"""The algorithms that send nothing."""
WITHOUT_SERVER = ("personalised", "dpa-sgd", "dpa-sgd-mtl", "push-sum", "local")
OPTIONS = tuple(dict.fromkeys(option for used, _ in METHODS.values() for option in used))
assert METHODS.keys() == LISTING["algorithm"].keys()
