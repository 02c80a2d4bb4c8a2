"""Saved partitions: who has what, in a file, so that two programs train on the same clients.

The file is safetensors: ``index`` lists example numbers (rows of the data set as its source gives them); client k's
examples of a part, say ``train``, are ``index[train.start[k] : train.start[k] + train.size[k]]``; ``central.test`` are
examples that nobody owns. The header's ``about`` is JSON: names, the number of examples, a checksum of the labels. The
header also holds a checksum of the whole file.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.data.checksum import arrays_content, read_arrays
from fedloom.data.dataset import Dataset
from fedloom.data.federated import FederatedData, Ranges, check_rows
from fedloom.data.files import replacing
from fedloom.data.held import Held
from fedloom.data.partition.partition import Partition
from fedloom.data.split.split import PARTS
from fedloom.errors import DataError

VERSION = 2


def save(data: FederatedData, file: str | Path) -> None:
    """Write who has what. Not the examples, nor what noise or rotation made of them: those stay where they are."""
    arrays = {"index": data.index}
    for part, ranges in data.clients.items():
        arrays |= {f"{part}.start": ranges.start, f"{part}.size": ranges.size}
    arrays |= {f"central.{part}": examples for part, examples in data.central.items()}
    about = {
        "version": VERSION,
        "name": data.name.removesuffix(data.skew),
        "skew": data.skew,
        "note": data.note,
        "clients": list(data.client_names),
        **_identity(data.columns["y"]),
    }
    numbers = {name: np.ascontiguousarray(a, np.int32) for name, a in arrays.items()}
    with replacing(Path(file)) as temporary:
        temporary.write_bytes(arrays_content(numbers, {"about": json.dumps(about, ensure_ascii=False)}))


def load(file: str | Path, dataset: Dataset, skew: Partition | None = None, seed: int = 0) -> FederatedData:
    """The data set dealt as a file says.

    Arguments:
        file: what :func:`save` wrote.
        dataset: the examples; the same as when it was written.
        skew: a partition whose feature skew is made anew, with this seed; needed where the saved data had one.
    """
    arrays, about = _read(Path(file))
    differs = {k: v for k, v in _identity(dataset.columns["y"]).items() if about.get(k) != v}
    if differs:
        was = ", ".join(f"{about.get(k)} {k} there, {v} here" for k, v in differs.items())
        raise DataError(f"{file} is a partition of other data than {dataset.name} ({was})")
    given = skew.skew if skew else ""
    if about["skew"] and about["skew"] != given:
        raise DataError(
            f"{file} was saved with {about['skew']}: ask for the same noise and rotation, or save it without"
        )
    owned, nobodys = ([p for p in PARTS if name.format(p) in arrays] for name in ("{}.start", "central.{}"))
    having = Held(
        arrays["index"],
        {part: Ranges(arrays[f"{part}.start"], arrays[f"{part}.size"]) for part in owned},
        {part: arrays[f"central.{part}"] for part in nobodys},
        about["clients"],
        about["note"],
    )
    _check(Path(file), having, len(dataset.columns["y"]))
    return dataset.federated(about["name"], having, (), skew, seed)


def _identity(y: np.ndarray) -> dict[str, int]:
    """What the data must share with the data it was saved for."""
    kind = np.float32 if y.dtype.kind == "f" else np.int32
    return {"examples": len(y), "checksum of labels": zlib.crc32(np.ascontiguousarray(y, kind).tobytes())}


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the header of a file that has all that a partition needs."""
    if not path.is_file():
        raise DataError(f"there is no partition {path}")
    try:
        arrays, header = read_arrays(path.read_bytes())
        about = json.loads(header["about"])
        version = about["version"]
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} is damaged, or no partition that fedloom saved ({error})") from error
    if version != VERSION:
        raise DataError(f"{path} has the version {version}, but this fedloom reads {VERSION}")
    needed = {"index", *(f"{part}.{end}" for part in PARTS for end in ("start", "size") if f"{part}.start" in arrays)}
    lacking = sorted(needed - arrays.keys()) + sorted({"name", "skew", "note", "clients"} - about.keys())
    if lacking:
        raise DataError(f"{path} is no whole partition: it lacks {', '.join(lacking)}")
    return arrays, about


def _check(path: Path, having: Held, n: int) -> None:
    """Everything lies where it should, before anything is looked up."""
    if "train" not in having.clients:
        raise DataError(f"{path} has no training part")
    clients = len(having.clients["train"].start)
    for part, ranges in having.clients.items():
        ranges.check(f"the {part} ranges in {path}", clients, len(having.index))
    check_rows(str(path), {"index": having.index, **{f"central.{p}": rows for p, rows in having.central.items()}}, n)
