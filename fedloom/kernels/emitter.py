"""Emitter: writes the LLVM IR of one kernel, with loops, vector registers and fused multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ir

import fedloom.kernels.interface as interface
from fedloom.kernels.rows import Piece

FLOAT, INT, INT32, BYTE, BIT = ir.FloatType(), ir.IntType(64), ir.IntType(32), ir.IntType(8), ir.IntType(1)
POINTER, NULL = BYTE.as_pointer(), ir.Constant(BYTE.as_pointer(), None)
Value = Any
"""A value of the generated program."""


class Emitter:
    """The program of one kernel: XLA's handler around a body that reads arguments and writes results.

    Args:
        name: the kernel's name, unique in the process.
        arguments: how many float32 arrays it reads.
        width: the number of float32 values in a register.
        results: how many float32 arrays it writes.
    """

    def __init__(self, name: str, arguments: int, width: int, results: int = 1) -> None:
        self.name, self.width = name, width
        self.vector = ir.VectorType(FLOAT, width)
        self.module = ir.Module(name)
        self.function = ir.Function(self.module, ir.FunctionType(POINTER, [POINTER]), name)
        self.fused = self._intrinsic(f"fma.v{width}f32", *[self.vector] * 4)
        masks, at, kind = ir.VectorType(BIT, width), self.vector.as_pointer(), f"v{width}f32"
        self._masked_load = self._intrinsic(f"masked.load.{kind}.p0{kind}", self.vector, at, INT32, masks, self.vector)
        self._masked_store = self._intrinsic(
            f"masked.store.{kind}.p0{kind}", ir.VoidType(), self.vector, at, INT32, masks
        )
        self._sum = self._intrinsic(f"vector.reduce.fadd.{kind}", FLOAT, FLOAT, self.vector)
        self.b = ir.IRBuilder(self.function.append_basic_block())
        frame = self.function.args[0]
        self._answer_metadata(frame)
        self.arguments = [self._data(frame, interface.ARGUMENTS, i) for i in range(arguments)]
        self.results = [self._data(frame, interface.RESULTS, i) for i in range(results)]
        self.result = self.results[0]

    def _intrinsic(self, name: str, result: Any, *arguments: Any) -> Any:
        return ir.Function(self.module, ir.FunctionType(result, arguments), f"llvm.{name}")

    def _field(self, structure: Value, offset: int, kind: Any) -> Value:
        return self.b.load(self.b.bitcast(self.b.gep(structure, [INT(offset)]), kind.as_pointer()))

    def _data(self, frame: Value, table: int, i: int) -> Value:
        buffers = self._field(frame, table, POINTER)
        data = self._field(self._field(buffers, 8 * i, POINTER), interface.DATA, POINTER)
        return self.b.bitcast(data, FLOAT.as_pointer())

    def _answer_metadata(self, frame: Value) -> None:
        """Answer a call that asks for the version, and go on with any other call."""
        b, extension = self.b, self._field(frame, interface.EXTENSION, POINTER)
        asked, called = self.function.append_basic_block(), self.function.append_basic_block()
        b.cbranch(b.icmp_unsigned("!=", extension, NULL), asked, called)
        b.position_at_end(asked)
        metadata = self._field(extension, interface.METADATA, POINTER)
        major, minor = interface.version()
        for offset, number in ((interface.MAJOR, major), (interface.MINOR, minor), (interface.TRAITS, 0)):
            b.store(INT32(number), b.bitcast(b.gep(metadata, [INT(offset)]), INT32.as_pointer()))
        if interface.has_state():
            b.store(INT(0), b.bitcast(b.gep(metadata, [INT(interface.STATE)]), INT.as_pointer()))
        b.ret(NULL)
        b.position_at_end(called)

    def finish(self) -> str:
        """Return the program as text."""
        self.b.ret(NULL)
        return str(self.module)

    def integer(self, constant: int, *terms: tuple[int, Value | None]) -> Value:
        """Return constant + Σ coefficient · value; terms without a value count nothing."""
        total: Value = INT(constant)
        for coefficient, value in terms:
            if value is not None and coefficient != 0:
                total = self.b.add(total, self.b.mul(value, INT(coefficient)) if coefficient != 1 else value)
        return total

    @contextmanager
    def loop(self, start: int | Value, stop: int | Value, step: int = 1) -> Iterator[Value]:
        """Emit ``for i in range(start, stop, step)``."""
        b = self.b
        first, last = (INT(v) if isinstance(v, int) else v for v in (start, stop))
        before, body, after = b.block, self.function.append_basic_block(), self.function.append_basic_block()
        b.cbranch(b.icmp_signed("<", first, last), body, after)
        b.position_at_end(body)
        i = b.phi(INT)
        i.add_incoming(first, before)
        yield i
        following = b.add(i, INT(step))
        i.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, last), body, after)
        b.position_at_end(after)

    def fold(
        self,
        start: int | Value,
        stop: int | Value,
        carry: Sequence[Value],
        body: Callable[[Value, list[Value]], list[Value]],
    ) -> list[Value]:
        """Emit a loop that keeps vectors in registers; without turns they stay as they are."""
        b = self.b
        first, last = (INT(v) if isinstance(v, int) else v for v in (start, stop))
        before, turn, after = b.block, self.function.append_basic_block(), self.function.append_basic_block()
        b.cbranch(b.icmp_signed("<", first, last), turn, after)
        b.position_at_end(turn)
        i, held = b.phi(INT), [b.phi(self.vector) for _ in carry]
        i.add_incoming(first, before)
        for phi, value in zip(held, carry, strict=True):
            phi.add_incoming(value, before)
        found = body(i, list(held))
        following, end = b.add(i, INT(1)), b.block
        i.add_incoming(following, end)
        for phi, value in zip(held, found, strict=True):
            phi.add_incoming(value, end)
        b.cbranch(b.icmp_signed("<", following, last), turn, after)
        b.position_at_end(after)
        return [self._either(old, before, new, end) for old, new in zip(carry, found, strict=True)]

    def when(self, condition: Value, carry: Sequence[Value], body: Callable[[list[Value]], list[Value]]) -> list[Value]:
        """Emit a condition around vectors in registers."""
        b = self.b
        before, inside, after = b.block, self.function.append_basic_block(), self.function.append_basic_block()
        b.cbranch(condition, inside, after)
        b.position_at_end(inside)
        found = body(list(carry))
        end = b.block
        b.branch(after)
        b.position_at_end(after)
        return [self._either(old, before, new, end) for old, new in zip(carry, found, strict=True)]

    def _either(self, old: Value, before: Any, new: Value, end: Any) -> Value:
        phi = self.b.phi(self.vector)
        phi.add_incoming(old, before)
        phi.add_incoming(new, end)
        return phi

    def inside(self, value: Value, size: int) -> Value:
        """Return the condition 0 ≤ value < size."""
        return self.b.icmp_unsigned("<", value, INT(size))

    def constant(self, value: float) -> Value:
        """Return a vector of one number."""
        return ir.Constant(self.vector, [value] * self.width)

    def zero(self) -> Value:
        """Return a vector of zeros."""
        return self.constant(0.0)

    def load(self, array: Value, offset: Value, pieces: Sequence[Piece] | None = None, fill: float = 0.0) -> Value:
        """Return the vector that starts at an element, or whose pieces are counted from there.

        Args:
            array: what is read.
            offset: the element.
            pieces: the lanes that are read; all by default.
            fill: the number in the other lanes.
        """
        if pieces is None:
            pieces = ((0, self.whole),)
        found = self.constant(fill)
        for place, mask in pieces:
            at = self.b.bitcast(self.b.gep(array, [self.integer(place, (1, offset))]), self.vector.as_pointer())
            if mask == self.whole:
                found = self.b.load(at, align=4)
            else:
                found = self.b.call(self._masked_load, [at, INT32(4), self._mask(mask), found])
        return found

    def store(self, vector: Value, array: Value, offset: Value, pieces: Sequence[Piece] | None = None) -> None:
        """Write a vector from an element on, or its pieces to where they belong."""
        for place, mask in ((0, self.whole),) if pieces is None else pieces:
            at = self.b.bitcast(self.b.gep(array, [self.integer(place, (1, offset))]), self.vector.as_pointer())
            if mask == self.whole:
                self.b.store(vector, at, align=4)
            else:
                self.b.call(self._masked_store, [vector, at, INT32(4), self._mask(mask)])

    def total(self, vector: Value) -> Value:
        """Return the sum of a vector's values."""
        return self.b.call(self._sum, [FLOAT(-0.0), vector], fastmath=("reassoc",))

    def add(self, value: Value, array: Value, offset: Value) -> None:
        """Add a number to an element."""
        at = self.b.gep(array, [offset])
        self.b.store(self.b.fadd(self.b.load(at), value), at)

    @property
    def whole(self) -> int:
        """Return the mask of all lanes."""
        return (1 << self.width) - 1

    def _mask(self, mask: int) -> Value:
        return ir.Constant(ir.VectorType(BIT, self.width), [mask >> lane & 1 for lane in range(self.width)])

    def broadcast(self, array: Value, offset: Value) -> Value:
        """Return a vector whose values are all one element."""
        empty = ir.Constant(self.vector, ir.Undefined)
        first = self.b.insert_element(empty, self.b.load(self.b.gep(array, [offset])), INT32(0))
        return self.b.shuffle_vector(first, empty, ir.Constant(ir.VectorType(INT32, self.width), [0] * self.width))

    def larger(self, x: Value, y: Value) -> Value:
        """Return the condition that x is larger than y or is no number, in each lane."""
        b = self.b
        return b.or_(b.fcmp_ordered(">", x, y), b.fcmp_unordered("uno", x, x))

    def multiply_add(self, total: Value, x: Value, y: Value) -> Value:
        """Return total + x·y, rounded once."""
        return self.b.call(self.fused, [x, y, total])
