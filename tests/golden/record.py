"""The numbers of a run in a form that can be stored and compared."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import fedloom as fl

DIGITS = 9  # significant digits, which tell all 32-bit floats apart
MEASURED_TIME = ("seconds",)  # columns of a history that differ from run to run
Record = Mapping[str, Any]


def record(run: fl.Run) -> dict[str, Any]:
    """Return the numbers of a run: its model, its history, and own models, clients and clock where there are any."""
    found: dict[str, Any] = {"history": history(run), "variables": summary(leaves(run.variables))}
    if own := own_models(run):
        found["own models"] = summary(own)
    if len(run.users):
        found["clients"] = summary([values for _, values in sorted(run.users.arrays().items())])
    if run.passed is not None:
        found["clock"] = summary([np.asarray(a) for a in (run.passed.ready, run.passed.up, run.passed.down)])
    return found


def leaves(tree: Any) -> list[np.ndarray]:
    """Return the arrays of a tree in its order."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def own_models(run: fl.Run) -> list[np.ndarray]:
    """Return the arrays of all clients' models, stacked; nothing if all clients use ``run.variables``."""
    shared, own = leaves(run.variables), [leaves(run.of(client)) for client in range(run.clients)]
    if all(len(one) == len(shared) and all(map(np.array_equal, one, shared)) for one in own):
        return []
    return [np.stack(arrays) for arrays in zip(*own, strict=True)]


def history(run: fl.Run) -> dict[str, list[float | None]]:
    """Return the columns of a run's history, without measured times."""
    names = sorted({name for row in run.history.rows for name in row} - set(MEASURED_TIME))
    number = lambda value: None if value is None else float(value)  # noqa: E731
    return {name: [number(row.get(name)) for row in run.history.rows] for name in names}


def summary(arrays: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return a hash of all bits, and of each array its type, shape, norm and first values."""
    bits = hashlib.sha256()
    for a in arrays:
        bits.update(f"{a.dtype} {a.shape} ".encode() + np.ascontiguousarray(a).tobytes())
    return {"arrays": [described(a) for a in arrays], "sha256": bits.hexdigest()}


def described(a: np.ndarray) -> list[Any]:
    """Return the type and shape of an array, its norm and its first two values."""
    wide = np.nan_to_num(a.astype(np.float64))
    numbers = [np.linalg.norm(wide.ravel()), *wide.ravel()[:2]]
    return [f"{a.dtype} {a.shape}", *(float(f"{number:.{DIGITS}g}") for number in numbers)]


def differences(found: Record, golden: Record, tolerance: float = 0.0) -> list[str]:
    """Return one sentence for each part of a record that differs from its golden values.

    Args:
        found: the record of a run.
        golden: the stored record.
        tolerance: the largest difference of a number, relative to numbers above 1; with 0, all bits must agree.
    """
    sentences = []
    for part in sorted({*found, *golden}):
        now, before = dict(flat(found.get(part))), dict(flat(golden.get(part)))
        paths = [path for path in {**before, **now} if not agree(path, now.get(path), before.get(path), tolerance)]
        if paths:
            first, others = paths[0], f", and {len(paths) - 1} more" if len(paths) > 1 else ""
            sentences.append(f"{part}: {first} is {now.get(first)}, golden {before.get(first)}{others}")
    return sentences


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each leaf of nested dictionaries and lists."""
    if isinstance(value, Mapping):
        for name in value:
            yield from flat(value[name], f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from flat(one, f"{path}[{i}]")
    else:
        yield path, value


def agree(path: str, now: Any, before: Any, tolerance: float) -> bool:
    """Return whether a leaf agrees with its golden value; hashes of bits count only without a tolerance."""
    if path == "sha256" and tolerance:
        return True
    if not (isinstance(now, float | int) and isinstance(before, float | int)):
        return bool(now == before)
    if math.isnan(now) or math.isnan(before):
        return math.isnan(now) and math.isnan(before)
    return abs(now - before) <= tolerance * max(1.0, abs(before))
