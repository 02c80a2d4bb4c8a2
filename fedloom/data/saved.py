"""Saved partitions: who has what, in a file, so that two programs train on the same clients.

The file is safetensors: ``index`` lists example numbers (rows of the data set as its source gives them); client k's
examples of a part, say ``train``, are ``index[train.start[k] : train.start[k] + train.size[k]]``; ``central.test`` are
examples that nobody owns. The header's ``about`` is JSON: names, the number of examples, a checksum of the labels.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from fedloom.data.dataset import Dataset
from fedloom.data.federated import FederatedData, Ranges
from fedloom.data.files import replacing
from fedloom.data.partition.partition import Partition
from fedloom.data.split.split import PARTS
from fedloom.errors import DataError

VERSION = 1


def save(data: FederatedData, file: str | Path) -> None:
    """Write who has what. Not the examples: they stay where they are."""
    arrays = {"index": data.index}
    for part, ranges in data.clients.items():
        arrays |= {f"{part}.start": ranges.start, f"{part}.size": ranges.size}
    arrays |= {f"central.{part}": examples for part, examples in data.central.items()}
    about = {
        "version": VERSION,
        "name": data.name,
        "note": data.note,
        "clients": list(data.client_names),
        **_identity(data.columns["y"]),
    }
    with replacing(Path(file)) as temporary:
        save_file({name: np.ascontiguousarray(a, np.int32) for name, a in arrays.items()}, temporary,
                  {"about": json.dumps(about, ensure_ascii=False)})  # fmt: skip


def load(file: str | Path, dataset: Dataset, skew: Partition | None = None, seed: int = 0) -> FederatedData:
    """The data set dealt as a file says.

    Arguments:
        file: what :func:`save` wrote.
        dataset: the examples; the same as when it was written.
        skew: a partition whose feature skew is applied anew (it is not in the file), with this seed.
    """
    arrays, about = _read(Path(file))
    differs = {k: v for k, v in _identity(dataset.columns["y"]).items() if about.get(k) != v}
    if differs:
        was = ", ".join(f"{about.get(k)} {k} there, {v} here" for k, v in differs.items())
        raise DataError(f"{file} is a partition of other data than {dataset.name} ({was})")
    owned, nobodys = ([p for p in PARTS if name.format(p) in arrays] for name in ("{}.start", "central.{}"))
    clients = {part: Ranges(arrays[f"{part}.start"], arrays[f"{part}.size"]) for part in owned}
    central = {part: arrays[f"central.{part}"] for part in nobodys}
    index, n = arrays["index"], len(dataset.columns["y"])
    _check(file, index, clients, central, n)
    columns = dataset.standardised(clients["train"].rows(index))
    if skew is not None and skew.change:
        whose = np.full(n, -1, np.int32)
        for ranges in clients.values():
            whose[ranges.rows(index)] = ranges.owner
        columns = skew.change(columns, whose, np.random.default_rng([seed, 0xFEA7]))
    return FederatedData(
        name=about["name"],
        columns=columns,
        classes=dataset.classes,
        index=index,
        clients=clients,
        central=central,
        client_names=about["clients"],
        class_names=dataset.class_names,
        note=about["note"],
    )


def _identity(y: np.ndarray) -> dict[str, int]:
    """What the data must share with the data it was saved for."""
    return {"examples": len(y), "checksum of labels": zlib.crc32(np.ascontiguousarray(y, np.int32).tobytes())}


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"there is no partition {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})["about"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise DataError(f"{path} is damaged, or no partition that fedloom saved ({error})") from error
    if about.get("version") != VERSION:
        raise DataError(f"{path} has the version {about.get('version')}, but this fedloom reads {VERSION}")
    return arrays, about


def _check(
    file: str | Path, index: np.ndarray, clients: dict[str, Ranges], central: dict[str, np.ndarray], n: int
) -> None:
    """Every range lies in the index, and no example is in two places."""
    if "train" not in clients:
        raise DataError(f"{file} has no training part")
    for part, ranges in clients.items():
        if (ranges.start < 0).any() or (ranges.size < 0).any() or (ranges.start + ranges.size > len(index)).any():
            raise DataError(f"{file} has {part} ranges that lie outside its index")
    owned = np.concatenate([*(r.rows(index) for r in clients.values()), *central.values()])
    if len(owned) and (owned.min() < 0 or owned.max() >= n):
        raise DataError(f"{file} names examples that are not there: the data has {n:,}")
    if len(owned) and np.bincount(owned, minlength=n).max() > 1:
        raise DataError(f"{file} gives an example away twice")
