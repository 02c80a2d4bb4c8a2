"""Equal layers: consecutive layers of a traced model that differ in their parameters only.

A part of the program that occurs several times is one layer after another: each operand of an operation is a result of
the same layer, a result of the layer before, or an array from outside, which all layers share or of which each layer
has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend.core import Jaxpr, Literal

from fedloom.tasks.repetition import Repetition

TRIES = 4  # places in a layer at which a cut is tried


@dataclass(frozen=True)
class Inner:
    """An operand that is a result of the same layer: of the step at a place, its output of a number."""

    step: int
    output: int


@dataclass(frozen=True)
class Carried:
    """An operand that is a result of the layer before: the number of the value that is carried."""

    number: int


@dataclass(frozen=True)
class Stacked:
    """An operand of which each layer has its own: the number of the stack."""

    number: int


@dataclass(frozen=True)
class Shared:
    """An operand from outside that all layers share."""

    atom: Any


@dataclass
class Layers:
    """Equal layers of a program.

    Attributes:
        start, period, count: the place of the first layer's first operation, operations in a layer, layers.
        operands: for each operation of a layer, where its operands come from.
        carried: the results that the next layer takes.
        first: what the first layer takes in their place.
        stacks: for each stack, the array of each layer.
        kept: results of a layer that are used after all layers, where only the last layer's are used.
        listed: results of a layer that are used after all layers, of any layer.
    """

    start: int
    period: int
    count: int
    operands: list[list[Inner | Carried | Stacked | Shared]]
    carried: list[Inner]
    first: list[Any]
    stacks: list[list[Any]]
    kept: list[Inner]
    listed: list[Inner]

    @property
    def end(self) -> int:
        """The place after the last layer's last operation."""
        return self.start + self.period * self.count


def layers_in(program: Jaxpr, found: Repetition) -> Layers | None:
    """Return the equal layers in a stretch of operations that repeat; ``None`` if they are connected differently.

    Where the stretch is longer than its layers, the layers begin where the fewest numbers are carried.
    """
    cuts = range(found.start, found.end - found.count * found.period + 1)
    cost = _live_bytes(program, found)
    for cut in sorted(cuts, key=lambda cut: cost[cut + found.period - found.start])[:TRIES]:
        if layers := _connected(program, cut, found.period, found.count):
            return layers
    return None


def _live_bytes(program: Jaxpr, found: Repetition) -> np.ndarray:
    """Return, for each place in a stretch, the bytes of results of the stretch that are used from the place on."""
    made: dict[Any, int] = {}
    last: dict[Any, int] = {}
    for i in range(found.start, found.end):
        equation = program.eqns[i]
        last |= {v: i for v in equation.invars if not isinstance(v, Literal)}
        made |= dict.fromkeys(equation.outvars, i)
    change = np.zeros(found.end - found.start + 1, np.int64)
    for variable, i in made.items():
        if variable in last:
            size = int(np.prod(variable.aval.shape)) * getattr(variable.aval.dtype, "itemsize", 4)
            change[i + 1 - found.start] += size
            change[last[variable] + 1 - found.start] -= size
    return np.cumsum(change)


def _connected(program: Jaxpr, start: int, period: int, count: int) -> Layers | None:
    """Return equal layers from a place on, if each layer is connected as the others."""
    layers = Layers(start, period, count, [], [], [], [], [], [])
    source = {v: (*divmod(i - start, period), o)
              for i in range(start, layers.end) for o, v in enumerate(program.eqns[i].outvars)}  # fmt: skip
    numbers: dict[Any, int] = {}
    for step in range(period):
        equations = [program.eqns[start + layer * period + step] for layer in range(count)]
        row = []
        for atoms in zip(*(e.invars for e in equations), strict=True):
            operand = _operand(layers, numbers, source, atoms)
            if operand is None:
                return None
            row.append(operand)
        layers.operands.append(row)
    for place, is_last in _used_after(program, layers, source):
        if not is_last:
            layers.listed.append(place)
        elif place not in layers.carried:
            layers.kept.append(place)
    layers.kept = [place for place in layers.kept if place not in layers.listed]
    return layers


def _operand(
    layers: Layers, numbers: dict[Any, int], source: dict[Any, tuple[int, int, int]], atoms: Sequence[Any]
) -> Inner | Carried | Stacked | Shared | None:
    """Return where an operand comes from, given the variable or literal of each layer; ``None`` if that differs."""
    places = [None if isinstance(a, Literal) else source.get(a) for a in atoms]
    inside = [None if p is None else (layer - p[0], p[1], p[2]) for layer, p in enumerate(places)]
    if all(p is None for p in inside):
        return _outside(layers, numbers, atoms)
    if any(p != inside[1] for p in inside[2:]) or inside[1] is None:
        return None
    behind, step, output = inside[1]
    if behind == 0 and inside[0] == inside[1]:
        return Inner(step, output)
    if behind != 1 or inside[0] is not None:
        return None
    key = ("carried", step, output, _identity(atoms[0]))
    if key not in numbers:
        numbers[key] = len(layers.carried)
        layers.carried.append(Inner(step, output))
        layers.first.append(atoms[0])
    return Carried(numbers[key])


def _outside(layers: Layers, numbers: dict[Any, int], atoms: Sequence[Any]) -> Stacked | Shared:
    """Return an operand that comes from outside: shared if it is one array, or one number."""
    identities = tuple(map(_identity, atoms))
    if len(set(identities)) == 1:
        return Shared(atoms[0])
    if identities not in numbers:
        numbers[identities] = len(layers.stacks)
        layers.stacks.append(list(atoms))
    return Stacked(numbers[identities])


def _used_after(
    program: Jaxpr, layers: Layers, source: dict[Any, tuple[int, int, int]]
) -> Iterator[tuple[Inner, bool]]:
    """Yield the results of layers that are used after all layers, and whether only the last layer's are used."""
    after = [v for e in program.eqns[layers.end :] for v in e.invars] + list(program.outvars)
    used: dict[Inner, set[int]] = {}
    for variable in after:
        if not isinstance(variable, Literal) and variable in source:
            layer, step, output = source[variable]
            used.setdefault(Inner(step, output), set()).add(layer)
    for place, which in used.items():
        yield place, which == {layers.count - 1}


def _identity(atom: Any) -> Any:
    """Return what two operands have in common if they are the same array or the same number."""
    if not isinstance(atom, Literal):
        return atom
    value = np.asarray(atom.val)
    return str(value.dtype), value.shape, value.tobytes()
