"""Download: a data set's files, fetched from its public mirror into the data folder and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from fedloom.data.files import replacing
from fedloom.errors import DataError, choose
from fedloom.progress import amount
from fedloom.settings import data_folder

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte after which a mirror counts as gone

FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master"


@dataclass(frozen=True)
class Remote:
    """A file somewhere else: its address, its place in the data folder and the MD5 that its publisher gives."""

    url: str
    file: str
    md5: str


def _remote(base: str, folder: str, name: str, md5: str) -> Remote:
    return Remote(f"{base}/{name}", f"{folder}/{name}", md5)


MIRRORS: dict[str, tuple[Remote, ...]] = {
    "cifar10": (
        _remote("https://www.cs.toronto.edu/~kriz", "cifar10", "cifar-10-binary.tar.gz",
                "c32a1d4ab5d03f1284b67883e8d87530"),
    ),
    "fashion-mnist": (
        _remote(FASHION, "fashion-mnist", "train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        _remote(FASHION, "fashion-mnist", "train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        _remote(FASHION, "fashion-mnist", "t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        _remote(FASHION, "fashion-mnist", "t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
    "mnist-writers": (
        _remote(QMNIST, "mnist-writers", "qmnist-train-labels-idx2-int.gz", "0058f8dd561b90ffdd0f734c6a30e5e4"),
        _remote(QMNIST, "mnist-writers", "qmnist-test-labels-idx2-int.gz", "5b5b05890a5e13444e108efe57b788aa"),
    ),
}  # fmt: skip


def get(name: str, folder: str | Path | None = None) -> tuple[Path, ...]:
    """A data set's files in the data folder, fetched from its mirror unless they are there and right.

    >>> get("imagenet")
    Traceback (most recent call last):
    fedloom.errors.UnknownName: data set must be one of cifar10, fashion-mnist, mnist-writers, but is 'imagenet'
    """
    remotes = choose("data set", name, MIRRORS)
    paths = tuple(data_folder(folder) / remote.file for remote in remotes)
    for remote, path in zip(remotes, paths, strict=True):
        if not path.is_file() or md5(path) != remote.md5:
            _fetch(remote, path)
    return paths


def missing(name: str, files: Iterable[str], folders: Iterable[Path], origin: str = "") -> DataError:
    """The error that says where a data set was looked for, and how to get it.

    >>> missing("cifar10", ["test_batch.bin"], [Path("/data/cifar10")])  # doctest: +ELLIPSIS
    DataError('cifar10 is missing (no test_batch.bin in /data/cifar10): `fedloom data get cifar10` fetches it, or ...
    """
    looked = f"no {' or '.join(files)} in {', '.join(map(str, folders))}"
    advice = f"`fedloom data get {name}` fetches it" if name in MIRRORS else f"get it from {origin}"
    return DataError(
        f"{name} is missing ({looked}): {advice}, or name the data folder that has it (--data-folder, FEDLOOM_DATA, "
        "or data_folder in fedloom.toml)"
    )


def md5(path: Path) -> str:
    """The MD5 checksum of a file as it is stored, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _fetch(remote: Remote, path: Path) -> None:
    try:
        with replacing(path) as temporary:
            _copy(remote.url, temporary)
            if (came := md5(temporary)) != remote.md5:
                raise DataError(f"{remote.url} must have the MD5 {remote.md5}, but what came has {came}: not kept")
    except (OSError, HTTPException) as error:
        raise DataError(f"{remote.url} cannot be fetched to {path} ({error})") from error


def _copy(url: str, path: Path) -> None:
    """Copy what an address holds, all of it, to a file."""
    with urlopen(url, timeout=TIMEOUT) as body, path.open("wb") as file:
        total: int | None = body.length
        with amount(total, f"fetching {url.rsplit('/', 1)[-1]}") as advance:
            while chunk := body.read(CHUNK):
                file.write(chunk)
                advance(len(chunk))
        if total is not None and file.tell() != total:
            raise DataError(f"{url} ended after {file.tell():,} of {total:,} bytes: not kept, try again")
