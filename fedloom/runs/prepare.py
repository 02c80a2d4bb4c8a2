"""Prepare: the data that an experiment names, read, dealt to clients and split."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedloom.data import Dataset, FederatedData, csv, hdf5, images, leaf, npz, partition, saved, split
from fedloom.data.files import OPENERS, find
from fedloom.data.partition import Partition
from fedloom.data.split import Split
from fedloom.errors import ArgumentError, choose
from fedloom.runs.catalogue import DATA, is_path
from fedloom.runs.experiment import Experiment

TABLES = (".csv", ".tsv", ".txt", ".data")
ARRAYS = (".npz", ".h5", ".hdf5")
ARCHIVES = (".tar", ".tgz", ".zip")
PARTITION = ".safetensors"

SCHEMES: dict[str, Callable[[Experiment], Partition]] = {
    "natural": lambda e: partition.natural(least=e.least),
    "iid": lambda e: partition.iid(e.clients),
    "shards": lambda e: partition.shards(e.clients, e.shards),
    "dirichlet": lambda e: partition.dirichlet(e.clients, e.alpha, least=e.least),
    "dirichlet-balanced": lambda e: partition.dirichlet(e.clients, e.alpha, balanced=True),
    "lognormal": lambda e: partition.lognormal(e.clients, e.sigma, least=e.least),
    "power": lambda e: partition.power(e.clients, e.exponent, least=e.least),
    "labels": lambda e: partition.labels(e.clients, e.labels_each),
    "affinity": lambda e: partition.affinity(e.clients, e.affinity),
}
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
    data = deal(e, read(e, folder))
    return data.union() if e.algorithm == "central" else data


def read(e: Experiment, folder: Path | None = None) -> Dataset:
    """The data set that an experiment names: from the catalogue, or a file or folder of a known kind."""
    if not is_path("data", e.data):
        return choose("data", e.data, DATA)(folder)
    path = find(e.data, folder)
    kinds = path.suffixes[-2:-1] if path.suffix in OPENERS else path.suffixes[-1:]
    kind = kinds[0].lower() if kinds else ""
    if path.is_dir():
        return _folder(e, path)
    if kind in TABLES:
        return _table(e, path)
    if kind in ARRAYS:
        return (npz if kind == ".npz" else hdf5)(path)
    if kind in ARCHIVES:
        return _images(e, path)
    if kind == ".json":
        return leaf(path)
    known = ", ".join((*TABLES, *ARRAYS, ".json", *ARCHIVES))
    raise ArgumentError("data", f"a folder or a file that ends in {known} (compressed or not)", e.data)


def deal(e: Experiment, dataset: Dataset) -> FederatedData:
    """The data set dealt to clients and split as an experiment says."""
    if e.validation:
        dataset = dataset.hold_out(e.validation, seed=e.data_seed)
    if e.partition.endswith(PARTITION):
        return saved.load(e.partition, dataset, _skewed(e, partition.iid(1)), seed=e.data_seed)
    name = e.partition
    if name == "auto":
        name = "natural" if dataset.users is not None else "iid"
    scheme = _skewed(e, choose("partition", name, SCHEMES)(e))
    return dataset.partition(scheme, _cut(e, dataset), seed=e.data_seed)


def _cut(e: Experiment, dataset: Dataset) -> Split | None:
    """How clients' data is split; a part that the data set has of its own is not made again."""
    name = e.split
    if name == "auto":
        name = "none" if len(dataset.test) else "stratified"
    validation = e.validation_share if e.validation_share is not None else 0.0 if len(dataset.validation) else 0.2
    test = e.test_share if e.test_share is not None else 0.0 if len(dataset.test) else 0.2
    return choose("split", name, SPLITS)(validation, test)


def _skewed(e: Experiment, scheme: Partition) -> Partition:
    if e.rotation:
        scheme = partition.rotated(scheme, e.rotation)
    return partition.noisy(scheme, e.noise) if e.noise else scheme


def _table(e: Experiment, path: Path) -> Dataset:
    if e.label is None:
        raise ArgumentError("label", f"the column of {path.name} that holds the class", None)
    return csv(path, e.label, e.user, drop=_names(e.drop), categorical=_names(e.categorical), window=e.window,
               step=e.step)  # fmt: skip


def _folder(e: Experiment, path: Path) -> Dataset:
    """LEAF's files, all together or in train and test as LEAF puts them; or images."""
    if any(path.glob("*.json")):
        return leaf(path)
    if any(path.glob("train/*.json")) and any(path.glob("test/*.json")):
        return leaf(path / "train", path / "test")
    return _images(e, path)


def _images(e: Experiment, path: Path) -> Dataset:
    return images(path, e.image_size, grey=e.colours == "grey", skip=e.unreadable == "skip")


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
