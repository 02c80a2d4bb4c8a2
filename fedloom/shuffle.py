"""A keyed shuffle that is computed, not stored.

Which example stands at position i of a client's shuffled epoch, and which client is the i-th of a round's cohort, is a
function of (i, n, key): no sort, no memory, any n, the same numbers on every device. Drawing a thousand of a million
clients costs a thousand evaluations.

The bijection is the swap-or-not shuffle (Hoang, Morris, Rogaway, CRYPTO 2012, Figure 1) with a hash as its round
function: for each of R rounds, with a round key K,

    x' = (K - x) mod n,   x ← x' if the bit F(round, max(x, x')) is set, else x.

It serves statistics, not secrecy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax

from fedloom.computed import computed

if TYPE_CHECKING:
    from jaxtyping import Array, Int, Key, UInt32

ROUNDS = 32


def mix(x: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A well-mixed 32-bit hash of each number (the finaliser of MurmurHash3)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def words(key: Key[Array, ""]) -> UInt32[Array, 2]:
    """A random key as two 32-bit words, the form in which :func:`shuffle` takes it."""
    return jax.random.key_data(key)[-2:].astype(jnp.uint32)


@jax.jit
def shuffle(
    position: Int[Array, "*shape"], n: Int[Array, ""], key: UInt32[Array, 2], epoch: Int[Array, ""] | int = 0
) -> Int[Array, "*shape"]:
    """The element at each position of a random permutation of 0 … n-1; another epoch is another permutation.

    >>> key = words(jax.random.key(7))
    >>> sorted(shuffle(jnp.arange(5), jnp.int32(5), key).tolist())
    [0, 1, 2, 3, 4]
    """
    rounds = jnp.arange(ROUNDS, dtype=jnp.uint32)
    salt = mix(key[0] ^ mix(key[1] + jnp.uint32(0x9E3779B9) * jnp.asarray(epoch).astype(jnp.uint32)))
    bits = mix(salt + jnp.uint32(0x6C8E9CF5) * (rounds + 1))
    pivots = (mix(bits ^ jnp.uint32(0xB5297A4D)) % jnp.maximum(n, 1).astype(jnp.uint32)).astype(jnp.int32)
    x = position.astype(jnp.int32)
    for r in range(ROUNDS):
        other = pivots[r] - x
        other = jnp.where(other < 0, other + n, other)
        coin = mix(jnp.maximum(x, other).astype(jnp.uint32) ^ bits[r]) & 1
        x = jnp.where(coin == 1, other, x)
    return lax.platform_dependent(x, cpu=apart, default=lambda x: x)


def apart(x: Int[Array, "*shape"]) -> Int[Array, "*shape"]:
    """The same numbers, none of them negative, not fused into what looks something up by them: with all rounds in it,
    XLA's CPU backend of JAX 0.11 takes minutes to compile that.
    """
    return computed(jnp.all(x < 0), x)[0]
