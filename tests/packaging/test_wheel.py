"""What is built from the sources: a wheel and an archive with the package, its data and nothing else."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from fedloom.version import VERSION

ROOT = Path(__file__).parents[2]
FILES = ["CHANGELOG.md", "LICENSE", "NOTICE", "README.md", "pyproject.toml", ".gitignore"]
DATA = {
    "fedloom/py.typed",
    "fedloom/data/files/mnist/t10k-images-idx3-ubyte.gz",
    "fedloom/data/files/mnist/t10k-labels-idx1-ubyte.gz",
    "fedloom/data/files/mnist/train-images-idx3-ubyte.gz",
    "fedloom/data/files/mnist/train-labels-idx1-ubyte.gz",
    "fedloom/data/files/shakespeare/roles.jsonl.gz",
    "fedloom/federation/page.html",
    "fedloom/federation/wire.binpb",
    "fedloom/federation/wire.proto",
    "fedloom/federation/wire_pb2.pyi",
    "fedloom/recipes/published/mcmahan2017.json",
    "fedloom/recipes/published/panda2018.json",
}
BACKEND = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["build-backend"]
BUILD = f"import {BACKEND} as backend; backend.build_wheel('../out'); backend.build_sdist('../out')"
pytest.importorskip(BACKEND)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the sources, in which both were built, and what came out."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    shutil.copytree(ROOT / "fedloom", source / "fedloom", ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, source)
    (source / "fedloom" / "__pycache__").mkdir()
    (source / "fedloom" / "__pycache__" / "x.pyc").touch()
    subprocess.run([sys.executable, "-c", BUILD], cwd=source, check=True)
    return folder


@pytest.fixture(scope="module")
def metadata(built: Path) -> Message:
    with zipfile.ZipFile(next((built / "out").glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(wheel.read(name).decode())


def modules() -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / "fedloom").rglob("*.py")}


def test_a_wheel_holds_the_modules_their_data_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(next((built / "out").glob("*.whl"))) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == modules() | DATA


def test_an_archive_of_the_sources_can_be_built_from_again(built: Path) -> None:
    with tarfile.open(next((built / "out").glob("*.tar.gz"))) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames()}
    assert held == modules() | DATA | {*FILES, "PKG-INFO"}


def test_a_build_leaves_nothing_behind_in_the_sources(built: Path) -> None:
    assert {path.name for path in (built / "source").iterdir()} == {"fedloom", *FILES}


def test_the_metadata_says_version_licence_authors_and_types(metadata: Message) -> None:
    assert metadata["Version"] == VERSION
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert metadata["Author"] == "The fedloom authors"
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.12"} <= set(metadata.get_all("Classifier") or [])
