"""Prepare: the data that an experiment names, read, dealt to clients and split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedloom.data import Dataset, FederatedData, csv, hdf5, images, leaf, npz, partition, saved, split
from fedloom.data.files import OPENERS, find
from fedloom.data.partition import Partition
from fedloom.data.split import Split
from fedloom.errors import ArgumentError, UnknownName, choose, require
from fedloom.runs.catalogue import DATA, LISTING, is_path
from fedloom.runs.experiment import Experiment
from fedloom.settings import data_folder
from fedloom.trees import listed

PARTITION = ".safetensors"
TABLE = (
    "label", "user", "task", "drop", "categorical", "numeric", "dates", "case", "unlabelled", "delimiter", "decimal",
    "thousands", "window", "step",
)  # fmt: skip
IMAGES = ("image_size", "colours", "unreadable")
ARRAYS = ("images", "task")
OPTIONS = {
    "data": TABLE + IMAGES + ARRAYS,
    "partition": ("clients", "most", "shards", "alpha", "sigma", "exponent", "labels_each", "affinity"),
}
"""Options of which a data set or a partition uses some and not others."""
DECLARED = {"auto": None, "yes": True, "no": False}
"""Whether arrays are images → the argument of the readers."""

SCHEMES: dict[str, tuple[tuple[str, ...], Callable[[Experiment], Partition]]] = {
    "natural": (("most",), lambda e: partition.natural(least=e.least, most=e.most)),
    "iid": (("clients",), lambda e: partition.iid(e.clients)),
    "shards": (("clients", "shards"), lambda e: partition.shards(e.clients, e.shards)),
    "dirichlet": (("clients", "alpha"), lambda e: partition.dirichlet(e.clients, e.alpha, least=e.least)),
    "dirichlet-balanced": (("clients", "alpha"), lambda e: partition.dirichlet(e.clients, e.alpha, balanced=True)),
    "lognormal": (("clients", "sigma"), lambda e: partition.lognormal(e.clients, e.sigma, least=e.least)),
    "power": (("clients", "exponent"), lambda e: partition.power(e.clients, e.exponent, least=e.least)),
    "labels": (("clients", "labels_each"), lambda e: partition.labels(e.clients, e.labels_each, least=e.least)),
    "affinity": (("clients", "affinity"), lambda e: partition.affinity(e.clients, e.affinity)),
}
"""Partition → the options it uses, and what makes it."""
SPLITS: dict[str, Callable[[float, float], Split | None]] = {
    "none": lambda validation, test: None,  # noqa: ARG005
    "stratified": split.stratified,
    "by-label": lambda validation, test: split.stratified(validation, test, by_label=True),
    "temporal": split.temporal,
    "naive": split.naive,
    "shuffled": lambda validation, test: split.naive(validation, test, shuffle=True),
}


def federated(e: Experiment, folder: Path | None = None) -> FederatedData:
    """The data of an experiment, dealt to clients; with algorithm central, all of it one client's.

    Arguments:
        e: the experiment.
        folder: the data folder; see :mod:`fedloom.settings`.

    >>> federated(Experiment(partition="shards", clients=50))
    FederatedData('mnist/shards2': 50 clients of 1,200 to 1,200 examples)
    """
    data = deal(e, read(e, folder), folder)
    return data.union() if e.algorithm == "central" else data


def read(e: Experiment, folder: Path | None = None) -> Dataset:
    """The data set that an experiment names: from the catalogue, or a file or folder of a known kind."""
    if e.data in DATA:
        _check_used(e, "data", e.data, ())
        return DATA[e.data](folder)
    if not is_path("data", e.data) and not (data_folder(folder) / e.data).exists():
        raise UnknownName("data", e.data, LISTING["data"])
    path = find(e.data, folder)
    for kinds, used, reader in READERS:
        if _ending(path) in kinds:
            _check_used(e, "data", path.name, used)
            return reader(e, path)
    known = ", ".join(suffix for kinds, _, _ in READERS for suffix in kinds if suffix)
    raise ArgumentError("data", f"a folder or a file that ends in {known} (compressed or not)", e.data)


def _ending(path: Path) -> str:
    """What a file's name ends in, compression apart, in small letters; nothing for a folder.

    >>> _ending(Path("a.CSV.gz"))
    '.csv'
    """
    inner = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return "" if path.is_dir() else inner.suffix.lower() or "none"


def deal(e: Experiment, dataset: Dataset, folder: Path | None = None) -> FederatedData:
    """The data set dealt to clients and split as an experiment says."""
    if e.partition.endswith(PARTITION):
        for name in ("split", "validation_share", "test_share", "validation", "pool", "least"):
            e.leave_alone(name, "with a saved partition, which says who has what")
        _check_used(e, "partition", e.partition, ())
        return saved.load(find(e.partition, folder), dataset, _skewed(e, partition.iid(1)), seed=e.data_seed)
    if e.pool == "yes":
        need = f"left alone with {dataset.name}, which has no test or validation set of its own to pool"
        require(len(dataset.test) + len(dataset.validation) > 0, "pool", need, e.pool)
        dataset = dataset.pool()
    if e.validation:
        dataset = dataset.hold_out(e.validation, seed=e.data_seed)
    name = e.partition
    if name == "auto":
        name = "natural" if dataset.users is not None else "iid"
    used, scheme = choose("partition", name, SCHEMES)
    _check_used(e, "partition", name, used)
    data = dataset.partition(_skewed(e, scheme(e)), _cut(e, dataset), seed=e.data_seed)
    least = int(np.sum([ranges.size for ranges in data.clients.values()], axis=0).min())
    require(e.least <= least, "least", f"at most {least:,}, which the smallest client of {name} has", e.least)
    return data


def _check_used(e: Experiment, kind: str, name: str, used: Sequence[str]) -> None:
    """Raise an :class:`ArgumentError` for an option that was given and would do nothing."""
    for option in OPTIONS[kind]:
        if option not in used:
            e.leave_alone(option, f"with the {kind} {name}, which has no use for it")


def _cut(e: Experiment, dataset: Dataset) -> Split | None:
    """How clients' data is split; a part that the data set has of its own is not made again."""
    name = e.split
    if name == "auto":
        asked = e.validation_share is not None or e.test_share is not None
        name = "stratified" if asked or not len(dataset.test) else "none"
    if name == "none":
        for option in ("validation_share", "test_share"):
            require(getattr(e, option) is None, option, "left alone without a split", getattr(e, option))
    validation = e.validation_share if e.validation_share is not None else 0.0 if len(dataset.validation) else 0.2
    test = e.test_share if e.test_share is not None else 0.0 if len(dataset.test) else 0.2
    return choose("split", name, SPLITS)(validation, test)


def _skewed(e: Experiment, scheme: Partition) -> Partition:
    if e.rotation:
        scheme = partition.rotated(scheme, e.rotation)
    return partition.noisy(scheme, e.noise) if e.noise else scheme


def _table(e: Experiment, path: Path) -> Dataset:
    if e.label is None:
        raise ArgumentError("label", f"the column of {path.name} that is predicted", None)
    return csv(
        path, e.label, e.user, drop=listed(e.drop), categorical=listed(e.categorical), numeric=listed(e.numeric),
        dates=listed(e.dates), task=e.task, case=e.case, unlabelled=e.unlabelled, delimiter=e.delimiter,
        decimal=e.decimal, thousands=e.thousands, window=e.window, step=e.step,
    )  # fmt: skip


def _folder(e: Experiment, path: Path) -> Dataset:
    """LEAF's files, or images, also in an archive."""
    if any(path.glob("*.json")) or any(path.glob("train/*.json")):
        _check_used(e, "data", path.name, ())
        return leaf(path)
    return images(path, e.image_size, grey=e.colours == "grey", skip=e.unreadable == "skip")


READERS: tuple[tuple[tuple[str, ...], tuple[str, ...], Callable[[Experiment, Path], Dataset]], ...] = (
    ((".csv", ".tsv", ".txt", ".data"), TABLE, _table),
    ((".npz",), ARRAYS, lambda e, path: npz(path, images=DECLARED[e.images], numbers=e.task == "regression")),
    ((".h5", ".hdf5"), ARRAYS, lambda e, path: hdf5(path, images=DECLARED[e.images], numbers=e.task == "regression")),
    ((".json",), (), lambda e, path: leaf(path)),  # noqa: ARG005
    (("", ".tar", ".tgz", ".zip"), IMAGES, _folder),
)
"""Endings ("" is a folder), the options that are of use, and what reads it."""
