"""Random keys: every random number of a run comes from the seed, a purpose and a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

if TYPE_CHECKING:
    from jaxtyping import Array, Int, Key

INIT, COHORT, CLIENT, PEERS = range(4)  # the purposes


def stream(seed: Int[Array, ""] | int, purpose: int, round: Int[Array, ""] | int = 0) -> Key[Array, ""]:
    """Return the random key of a purpose in a round."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), round)


def client_key(seed: Int[Array, ""], round: Int[Array, ""], client: Int[Array, ""]) -> Key[Array, ""]:
    """Return the random key of a client's work in a round. It does not depend on where the work is computed."""
    return jax.random.fold_in(stream(seed, CLIENT, round), client)
