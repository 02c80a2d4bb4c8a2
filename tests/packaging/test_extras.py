"""Libraries are declared in pyproject.toml: the core's, and those of each extra."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTION = {"sklearn": "scikit-learn"}


def names(requirements: list[str]) -> set[str]:
    """The names of distributions, without versions."""
    return {re.split(r"[^\w.-]", line)[0] for line in requirements}


def loaded_by_name() -> list[tuple[str, str]]:
    """Each library that is imported by name, with the extra that its error message offers."""
    calls = [
        node
        for path in (ROOT / "fedloom").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("library", "MissingExtra")
    ]
    words = [[a.value for a in call.args if isinstance(a, ast.Constant)] for call in calls]
    return sorted({(found[0].split(".")[0], found[1]) for found in words if len(found) == 2})


def test_every_library_that_is_loaded_by_name_is_in_the_extra_that_its_error_names() -> None:
    pairs = loaded_by_name()
    assert {"torch", "torchax", "keras", "flax", "equinox", "ray", "h5py", "networkx"} <= {name for name, _ in pairs}
    extras = PROJECT["optional-dependencies"]
    wrong = [(n, e) for n, e in pairs if DISTRIBUTION.get(n, n).replace("_", "-") not in names(extras[e])]
    assert wrong == []


def test_processes_need_only_the_core() -> None:
    assert "cloudpickle" in names(PROJECT["dependencies"])


def test_messages_are_read_with_every_protobuf_that_is_allowed() -> None:
    """Code of protoc compares its version with that of the installed protobuf; `make flower` installs 5, 6 and 7."""
    pytest.importorskip("google.protobuf")
    lines = [
        "import runpy",
        "from google.protobuf import descriptor_pb2, runtime_version as v",
        "for v.MAJOR, v.MINOR, v.PATCH in [(5, 26, 0), (6, 33, 6), (7, 36, 2)]:",
        "    assert runpy.run_path('fedloom/federation/wire_pb2.py')['Verdict'].LATE == 2",
    ]
    subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(lines)], check=True, cwd=ROOT)
    assert "protobuf>=5.26" in PROJECT["optional-dependencies"]["federation"]
