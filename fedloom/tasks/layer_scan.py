"""Layer scan: a traced model whose equal layers are one ``lax.scan`` over their stacked parameters.

A model of twelve equal layers is then differentiated, lowered and compiled as one layer. Parameters keep their names
and shapes: they are stacked inside the program, and each layer has its own gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from fedloom.tasks.equal_layers import Carried, Inner, Layers, Shared, Stacked, layers_in
from fedloom.tasks.repetition import repetitions
from fedloom.tasks.rewriting import done
from fedloom.tasks.signature import Signatures, size

LEAST_COUNT = 8
"""Equal layers from which a scan pays: it copies each layer's weights in every step, but is compiled once."""
LEAST_SAVED = 100
"""Operations that need not be compiled from which a scan pays."""


@lru_cache(maxsize=64)
def scanned(traced: ClosedJaxpr) -> ClosedJaxpr:
    """Return the same program, in which equal layers are one scan; the program itself if it has none."""
    program = traced.jaxpr
    found = equal_layers(program)
    if not found:
        return traced
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in program.invars]
    return jax.make_jaxpr(lambda *inputs: _evaluate(program, found, [*traced.consts, *inputs]))(*shapes)


def equal_layers(program: Jaxpr) -> list[Layers]:
    """Return the groups of equal layers of a program, in its order, for which a scan pays."""
    if len(program.eqns) < LEAST_COUNT:
        return []
    signatures = Signatures()
    values = np.array([signatures.of(equation) for equation in program.eqns])
    sizes = np.cumsum([0, *map(size, program.eqns)])
    candidates = []
    for one in repetitions(values, LEAST_COUNT):
        saved = int(sizes[one.start + (one.count - 1) * one.period] - sizes[one.start])
        if saved >= LEAST_SAVED:
            candidates.append((saved, one))
    found: list[Layers] = []
    for _, one in sorted(candidates, key=lambda pair: -pair[0]):
        if all(one.end <= other.start or other.end <= one.start for other in found):
            layers = layers_in(program, one)
            found += [layers] if layers else []
    return sorted(found, key=lambda layers: layers.start)


def _evaluate(program: Jaxpr, found: list[Layers], arrays: Sequence[Any]) -> list[Any]:
    """Return the outputs of a program, given its constants and inputs."""
    known: dict[Any, Any] = dict(zip([*program.constvars, *program.invars], arrays, strict=True))
    at = 0
    for layers in [*found, None]:
        for equation in program.eqns[at : layers.start if layers else None]:
            results = done(equation, [_read(known, v) for v in equation.invars], {}, ())
            known |= zip(equation.outvars, results, strict=True)
        if layers:
            _scan(program, layers, known)
            at = layers.end
    return [_read(known, v) for v in program.outvars]


def _scan(program: Jaxpr, layers: Layers, known: dict[Any, Any]) -> None:
    """Compute equal layers, and add to the known arrays those of their results that are used after them."""
    steps = program.eqns[layers.start : layers.start + layers.period]
    first = [_array(known, atom) for atom in layers.first]
    blank = [jnp.zeros(v.aval.shape, v.aval.dtype) for v in (_result(program, layers, 0, p) for p in layers.kept)]
    stacks = [jnp.stack([_array(known, atom) for atom in stack]) for stack in layers.stacks]

    def layer(carry: tuple[list[Any], list[Any]], own: list[Any]) -> tuple[tuple[list[Any], list[Any]], list[Any]]:
        results: list[list[Any]] = []

        def operand(place: Inner | Carried | Stacked | Shared) -> Any:
            match place:
                case Inner():
                    return results[place.step][place.output]
                case Carried():
                    return carry[0][place.number]
                case Stacked():
                    return own[place.number]
                case Shared():
                    return _read(known, place.atom)

        for equation, operands in zip(steps, layers.operands, strict=True):
            results.append(done(equation, [operand(place) for place in operands], {}, ()))
        parts = (layers.carried, layers.kept, layers.listed)
        carried, kept, listed = ([results[p.step][p.output] for p in places] for places in parts)
        return (carried, kept), listed

    (carried, kept), listed = lax.scan(layer, (first, blank), stacks, length=layers.count)
    for places, arrays in ((layers.carried, carried), (layers.kept, kept)):
        known |= {_result(program, layers, layers.count - 1, p): a for p, a in zip(places, arrays, strict=True)}
    for place, array in zip(layers.listed, listed, strict=True):
        known |= {_result(program, layers, i, place): array[i] for i in range(layers.count)}


def _result(program: Jaxpr, layers: Layers, layer: int, place: Inner) -> Any:
    """Return the variable of a layer's result."""
    return program.eqns[layers.start + layer * layers.period + place.step].outvars[place.output]


def _read(known: dict[Any, Any], atom: Any) -> Any:
    return atom.val if isinstance(atom, Literal) else known[atom]


def _array(known: dict[Any, Any], atom: Any) -> Any:
    """Return the array of a variable or literal, of the type that the program says."""
    kind: Any = atom.aval
    return jnp.asarray(_read(known, atom), kind.dtype) if isinstance(atom, Literal) else known[atom]
