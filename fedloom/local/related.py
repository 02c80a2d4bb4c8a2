"""Related: local work that is pulled to related workers' models, and shrunk (multi-task learning)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from fedloom.local.local import Around, Local, Pull, Work
from fedloom.local.messages import Sent
from fedloom.tasks.task import Variables
from fedloom.trees import names, record

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

    from fedloom.local.local import Kept, Scalar

STRENGTH, SLOPE = "strength", "slope"


@record
class Pulled(Pull):
    """A quadratic pull: the loss has s/2·‖w‖² + ⟨slope, w⟩ more, with an s for each leaf."""

    strength: dict[str, Array]
    slope: dict[str, Array]

    def gradient(self, params: PyTree) -> PyTree:
        """S·w + slope, leaf by leaf."""
        leaves, shape = jax.tree.flatten(params)
        named = zip(names(params), leaves, strict=True)
        return jax.tree.unflatten(shape, [self.strength[name] * w + self.slope.get(name, 0) for name, w in named])


@record
class Related(Around):
    """Local work that is pulled as it was told: ``strength`` and ``slope`` of the parameters, by their names."""

    inner: Local

    def tells(self, variables: Variables) -> dict[str, PyTree]:
        """Strengths of nothing, and no slopes."""
        none = {name: jnp.float32(0) for name in names(variables.params)}
        return {**self.inner.tells(variables), STRENGTH: none, SLOPE: {}}

    def called(self) -> str:
        """Its name."""
        return "related"

    def start(self, sent: Sent, kept: Kept, lr: Scalar, accumulates: bool) -> Work:
        """The inner work, pulled."""
        work = self.inner.start(sent, kept, lr, accumulates)
        return replace(work, pulls=(*work.pulls, Pulled(sent.aside[STRENGTH], sent.aside[SLOPE])))
