"""Compiler: turns programs into machine code, once for each shape, processor and version, and registers it with JAX."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax

import fedloom.kernels.gaussian as gaussian
import fedloom.kernels.heads as heads
import fedloom.kernels.interface as interface
import fedloom.kernels.processor as processor
import fedloom.kernels.product as product
from fedloom.data.files import replacing
from fedloom.errors import DataError
from fedloom.kernels.cell import cell_backward, cell_forward, cell_weights
from fedloom.kernels.gather import forward, image_gradient
from fedloom.kernels.pooling import pool, spread
from fedloom.kernels.weight_gradient import weight_gradient
from fedloom.settings import cache_folder
from fedloom.version import VERSION

KINDS: dict[str, Callable[[str, Any, int], str]] = {
    "forward": forward,
    "image_gradient": image_gradient,
    "weight_gradient": weight_gradient,
    "pool": pool,
    "spread": spread,
    "cell_forward": cell_forward,
    "cell_backward": cell_backward,
    "cell_weights": cell_weights,
    "transposed_product": product.transposed,
    "attention": heads.forward,
    "attention_gradients": heads.gradients,
    "gelu": gaussian.forward,
    "gelu_gradient": gaussian.gradient,
}
FORMAT = 2  # changes when kernels read or write other arrays, so that no cached program of XLA calls another kernel
DIGEST = 32  # bytes of a SHA-256
ALIVE: list[Any] = []
"""Engines whose machine code JAX may call."""


@cache
def target(kind: str, shape: Hashable) -> str:
    """Return the name under which JAX calls a kernel, which is compiled and registered first."""
    width = processor.width()
    name = f"fedloom_{kind}_{FORMAT}_{width}_{shape}"
    address = compiled(name, KINDS[kind](name, shape, width))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    jax.ffi.register_ffi_target(name, capsule(address, None, None), platform="cpu")
    return name


def compiled(name: str, program: str) -> int:
    """Return the address of a compiled program; its machine code is kept in the cache folder."""
    import llvmlite.binding as llvm

    machine = target_machine()
    module = llvm.parse_assembly(program)
    file = cached_file(program)
    code = read(file) if file else None
    engine = llvm.create_mcjit_compiler(module, machine)
    if code is not None:
        engine.set_object_cache(None, lambda module: code)  # noqa: ARG005
    else:
        optimise(module, machine)
        if file is not None:
            engine.set_object_cache(lambda module, code: keep(file, code))  # noqa: ARG005
    engine.finalize_object()
    ALIVE.append(engine)
    address: int = engine.get_function_address(name)
    return address


@cache
def target_machine() -> Any:
    """Return LLVM's description of this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = ",".join((*processor.features(), "-prefer-256-bit"))
    return llvm.Target.from_default_triple().create_target_machine(cpu=processor.name(), features=features, opt=3)


def optimise(module: Any, machine: Any) -> None:
    """Run LLVM's passes, without those that would undo the kernels' use of registers."""
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)


def cached_file(program: str) -> Path | None:
    """Return the file of a program's machine code, or None if the cache folder cannot be written."""
    import llvmlite

    what = (program, processor.name(), processor.features(), llvmlite.__version__, VERSION, interface.version())
    folder = cache_folder("kernels")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder / f"{hashlib.sha256(repr(what).encode()).hexdigest()[:32]}.o"


def read(file: Path) -> bytes | None:
    """Return cached machine code, or None if there is none or it is damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, code = content[:DIGEST], content[DIGEST:]
    return code if code and hashlib.sha256(code).digest() == digest else None


def keep(file: Path, code: bytes) -> None:
    """Write machine code and its checksum at once or not at all; a folder that cannot be written is no error."""
    with suppress(OSError, DataError), replacing(file) as fresh:
        fresh.write_bytes(hashlib.sha256(code).digest() + code)
