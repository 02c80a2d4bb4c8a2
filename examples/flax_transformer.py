"""A small causal transformer in Flax that learns the next character from Shakespeare's roles, each a client.

usage: python examples/flax_transformer.py [ROUNDS [LINES]], of roles that have at least so many lines
"""

import sys

import jax.numpy as jnp
from flax import linen as nn

import fedloom as fl


class Transformer(nn.Module):
    """Characters of (batch, length) to what may come after each, (batch, length, characters)."""

    characters: int
    width: int = 32

    @nn.compact
    def __call__(self, x: jnp.ndarray) -> jnp.ndarray:
        """Each place sees those before it, and itself, but no padding."""
        mask = nn.combine_masks(nn.make_causal_mask(x), nn.make_attention_mask(x > 0, x > 0))
        places = self.param("places", nn.initializers.normal(0.02), (x.shape[1], self.width))
        h = nn.Embed(self.characters, self.width)(x) + places
        for _ in range(2):
            h += nn.SelfAttention(num_heads=4)(nn.LayerNorm()(h), mask=mask)
            h += nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(h))))
        return nn.Dense(self.characters)(nn.LayerNorm()(h))


rounds, lines = (int(n) for n in (sys.argv[1:] + ["10", "300"][len(sys.argv) - 1 :]))
engine = fl.engines.compiled()  # before anything computes, so that JAX shows every core
plays = fl.data.shakespeare(longest=40, least_lines=lines)  # roles with much to say; lines in pieces of 40 characters
data = plays.partition(fl.partition.natural())
task = fl.tasks.from_flax(Transformer(plays.classes), "next_token", inputs=(40,))
algorithm = fl.fedavg(fraction=0.05, epochs=1, batch_size=32, lr=0.5)
run = fl.run(data, task, algorithm, rounds=rounds, evaluate=["test"], every=rounds, engine=engine)
print(f"test accuracy {run.history.last('test_accuracy'):.2%} of characters after {rounds} rounds, {len(data)} roles")
