"""Random keys: every random number of a run comes from the seed, a purpose and a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

if TYPE_CHECKING:
    from jaxtyping import Array, Int, Key

INIT, COHORT, CLIENT, PEERS, END = range(5)  # the purposes


def stream(seed: Int[Array, ""] | int, purpose: int, round: Int[Array, ""] | int = 0) -> Key[Array, ""]:
    """Return the random key of a purpose in a round."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), round)


def client_key(
    seed: Int[Array, ""], round: Int[Array, ""], client: Int[Array, ""], purpose: int = CLIENT
) -> Key[Array, ""]:
    """Return a client's random key in a round; it does not depend on where and beside whom the client is computed.

    Args:
        seed: the seed of the run.
        round: the number of the round.
        client: the number of the client.
        purpose: ``CLIENT`` for the steps of local work, ``END`` for the rest of it.
    """
    return jax.random.fold_in(stream(seed, purpose, round), client)
