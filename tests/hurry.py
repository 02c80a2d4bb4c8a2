"""How tests hurry: programs that run for milliseconds are compiled quickly, not well."""

import os
from importlib.metadata import version

OLD = tuple(int(n) for n in version("jax").split(".")[:2]) < (0, 11)  # later ones do not know the first flag
FLAGS = " ".join((
    *(["--xla_cpu_use_fusion_emitters=false"] if OLD else []),
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
))  # fmt: skip


def hurried() -> dict[str, str]:
    """The environment of a process that trains little."""
    return {"XLA_FLAGS": FLAGS, **os.environ}
