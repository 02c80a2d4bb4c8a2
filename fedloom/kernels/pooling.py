"""Pooling: kernels for the largest value in every window and its gradient.

    y[c, q, u] = max_{kh, kw} x[c, row(q, kh), column(u, kw)]
    dx[c, h, w] = Σ d[c, q, u] over the windows (q, u) whose largest value is at (h, w)

The forward pass keeps the number kh·width + kw of the first of the largest values as a float.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fedloom.kernels.emitter import Emitter, Value
from fedloom.kernels.gather import Sum, gradient_of, result_of
from fedloom.kernels.rows import Block, blocks, runs
from fedloom.kernels.shape import Shape

SPAN = 4
"""Vectors of a row that are computed at the same time."""
Step = Callable[[list[Value], int, list[Value]], list[Value]]
"""(what is held, number of the place in the window, what is read) → what is held then."""


def pool(name: str, shape: Shape, width: int) -> str:
    """Return the program: x (c, h, w, n) → y and the places of the largest values (c, q, u, n)."""
    e = Emitter(name, 1, width, 2)

    def step(held: list[Value], place: int, read: list[Value]) -> list[Value]:
        best, at = held
        better = e.larger(read[0], best)
        return [e.b.select(better, read[0], best), e.b.select(better, e.constant(float(place)), at)]

    return _program(e, result_of(shape), [float("-inf"), 0.0], [float("-inf")], step)


def spread(name: str, shape: Shape, width: int) -> str:
    """Return the program: d and the places (c, q, u, n) → dx (c, h, w, n)."""
    e = Emitter(name, 2, width)

    def step(held: list[Value], place: int, read: list[Value]) -> list[Value]:
        mine = e.b.fcmp_ordered("==", read[1], e.constant(float(place)))
        return [e.b.fadd(held[0], e.b.select(mine, read[0], e.zero()))]

    return _program(e, gradient_of(shape), [0.0], [0.0, -1.0], step)


def _program(e: Emitter, what: Sum, starts: list[float], fills: list[float], step: Step) -> str:
    """Return a program that goes over the windows of every place.

    Args:
        e: the emitter.
        what: which rows and columns belong to the windows.
        starts: what is held at first, for each result.
        fills: what is read outside of the images, for each argument.
        step: what is held after another place.
    """
    (height, width), (high, wide), n = what.source, what.size, what.batch
    for phase in range(what.phases[0]):
        for column_phase in range(what.phases[1]):
            row = what.row(column_phase, e.width)
            with e.loop(0, what.groups) as c, e.loop(0, len(range(phase, high, what.phases[0]))) as q:
                for run in runs(blocks(row, SPAN)):
                    far, away = (run[1].base - run[0].base, run[1].to - run[0].to) if len(run) > 1 else (0, 0)
                    with e.loop(0, len(run)) as j:
                        held = [e.constant(start) for start in starts for _ in run[0].writes]
                        for tap in range(what.kernel[0]):
                            if (line := what.line(0, phase)(tap)) is None:
                                continue
                            at = e.integer(line[1], (line[0], q))
                            first = e.integer(run[0].base, (height * width * n, c), (width * n, at), (far, j))
                            taken = partial(_row, e, run[0], tap * what.kernel[1], first, fills, step)
                            held = e.when(e.inside(at, height), held, taken)
                        to = e.integer(run[0].to + phase * wide * n, (high * wide * n, c),
                                       (what.phases[0] * wide * n, q), (away, j))  # fmt: skip
                        for i, result in enumerate(e.results):
                            for v, pieces in enumerate(run[0].writes):
                                e.store(held[i * run[0].span + v], result, to, pieces)
    return e.finish()


def _row(
    e: Emitter, block: Block, place: int, first: Value, fills: list[float], step: Step, held: list[Value]
) -> list[Value]:
    """Emit the places of one row of the windows."""
    held = list(held)
    for v, tap, pieces in block.reads:
        read = [e.load(array, first, pieces, fill) for array, fill in zip(e.arguments, fills, strict=True)]
        held[v :: block.span] = step(held[v :: block.span], place + tap, read)
    return held
