"""The programs that a run compiles: their cost, and hashes of their text without names."""

import hashlib
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
from jax._src import compiler

HOOK = "compile_or_get_cached"  # private to JAX: the one place through which each program is compiled
NAMES = re.compile(r'(?:jax\.result_info|jax\.arg_info|mhlo\.frontend_attributes) = "[^"]*"')
DEFINED = re.compile(r"(?:func\.func (?:public |private )?|^module )@([\w.$-]+)", re.MULTILINE)


@contextmanager
def compiled_programs() -> Iterator[list[Any]]:
    """Collect the executables that JAX compiles meanwhile; none if this version of JAX has no such hook."""
    found: list[Any] = []
    compile_program = getattr(compiler, HOOK, None)
    if compile_program is None:
        yield found
        return

    def compile_and_collect(*arguments: Any, **options: Any) -> Any:
        executable = compile_program(*arguments, **options)
        found.append(executable)
        return executable

    with patch.object(compiler, HOOK, compile_and_collect):
        yield found


def cost(executables: list[Any]) -> dict[str, float] | None:
    """Return the operations and temporary bytes of the round's program, which is the longest one.

    XLA counts the body of a loop once.
    """
    if not executables:
        return None
    program = max(executables, key=lambda executable: len(executable.hlo_modules()[0].to_string()))
    counted = program.cost_analysis()
    counted = counted[0] if isinstance(counted, list) else counted
    temporary = program.get_compiled_memory_stats().temp_size_in_bytes
    return {"flops": float(counted["flops"]), "temporary bytes": float(temporary)}


@contextmanager
def written_programs() -> Iterator[list[str]]:
    """Collect the StableHLO text of the programs that JAX lowers meanwhile, without locations."""
    found: list[str] = []
    locations = jax.config.values["jax_include_debug_info_in_dumps"]
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_dump_ir_to", folder)
        jax.config.update("jax_include_debug_info_in_dumps", False)
        try:
            yield found
        finally:
            jax.config.update("jax_dump_ir_to", "")
            jax.config.update("jax_include_debug_info_in_dumps", locations)
        found += [path.read_text() for path in sorted(Path(folder).glob("*.mlir"))]


def hashes(texts: list[str]) -> dict[str, str]:
    """Return a hash of the round's program, which is the longest, and one of all programs."""
    plain = sorted((without_names(text) for text in texts), key=lambda text: (len(text), text))
    digest = lambda *parts: hashlib.sha256("\n".join(parts).encode()).hexdigest()  # noqa: E731
    return {"round": digest(plain[-1]), "all": digest(*plain)}


def without_names(text: str) -> str:
    """Return a program's text with functions numbered instead of named, and without the names of arguments.

    >>> without_names("func.func private @_take(%arg0: i32) {\\n  call @_take(%0)\\n}")
    'func.func private @f0(%arg0: i32) {\\n  call @f0(%0)\\n}'
    """
    numbers = {name: f"@f{i}" for i, name in enumerate(dict.fromkeys(DEFINED.findall(text)))}
    return re.sub(r"@([\w.$-]+)", lambda match: numbers.get(match[1], match[0]), NAMES.sub("", text))
