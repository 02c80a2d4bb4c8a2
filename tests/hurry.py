"""How tests hurry: programs that run for milliseconds are compiled quickly, not well."""

import os

FLAGS = " ".join((
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
))  # fmt: skip


def hurried() -> dict[str, str]:
    """The environment of a process that trains little."""
    return {"XLA_FLAGS": FLAGS, **os.environ}
