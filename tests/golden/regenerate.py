"""Write the golden files anew: ``make golden``; with the argument ``programs``, the programs only."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import conftest  # noqa: F401  sets up JAX as it is for tests
from golden.cases import CASES, LAYOUTS
from golden.gate import PROGRAMS, VALUES, measured, program_hashes
from golden.machine import machine
from golden.test_programs import LAYOUTS as COMPARED

FLAT_LIST = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")
SPACE = re.compile(r"\s+")


def write(file: Path, layouts: tuple[str, ...], make: Callable[[str, str], Any]) -> None:
    """Write a golden file, with each list of numbers on one line."""
    cases = {}
    for name in CASES:
        print(f"{file.name}: {name}", flush=True)
        cases[name] = {layout: make(name, layout) for layout in layouts}
    text = json.dumps({"machine": machine(), "cases": cases}, indent=1)
    file.write_text(FLAT_LIST.sub(lambda match: SPACE.sub(" ", f"[{match[1]}]"), text) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["programs"]:
        write(VALUES, tuple(LAYOUTS), measured)
    write(PROGRAMS, COMPARED, program_hashes)
