"""Related outputs: each client learns an output layer of its own, and learns which other clients' are like it.

Client k has features θ_k (with U_k, the upper ones of them) and an output layer w_k. M_k is the client and its
neighbours, and W_k = (w_j)_{j ∈ M_k}. With Ω_k ⪰ 0 and tr Ω_k = 1, minimise

    G = Σ_k 1/n_k [Σ_i ℓ_i + λ₁/2 · tr(W_k Ω_k⁻¹ W_kᵀ)] + λ₂/2 · ‖W‖² + λ₃/2 · ‖θ‖² + λ₄/2 · ‖U‖²

(He et al. 2019, after Zhang and Yeung 2012). w_k is in W_i for every i that has k in M_i. With
Q[j, k] = λ₁ Σ_{i: j, k ∈ M_i} 1/n_i · (Ω_i⁻¹)[j, k], where a little is added to the diagonal of Ω_i (JITTER below), the
gradients are

    ∂G/∂w_k = ∂L/∂w_k + Σ_j Q[j, k]·w_j + λ₂·w_k,   ∂G/∂θ_k = ∂L/∂θ_k + λ₃·θ_k,   ∂G/∂U_k = ∂L/∂U_k + λ₄·U_k

(The paper's formula multiplies w_k, which has d numbers, with Ω_i⁻¹, which is |M| × |M|. The formula above follows
from the paper's objective.) Between two exchanges, other clients' w_j are those of the last exchange. Given W_k, the
best Ω_k is (W_kᵀW_k)^½ / tr(…). It is learned in steps, with what neighbours found of the clients that both know:
Π_k(Ω_i) is Ω_i on the members of M_k.

    Ω_k ← ((1 - η)·mean_{i ∈ M_k} Π_k(Ω_i) + η·(W_kᵀW_k)^½ / tr(…)) / tr(…)

This is a simulation with global knowledge. Q and Ω_k use the output layers and the Ω_i of clients two connections away,
which an exchange along the graph does not deliver, and the bytes counted are those of the models alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp

from fedloom.combine.replies import Replies
from fedloom.errors import ArgumentError, require
from fedloom.local.related import SLOPE, STRENGTH
from fedloom.mixing import Gossip, Topology
from fedloom.routing.own_models import OwnModels
from fedloom.tasks.task import Variables
from fedloom.trees import is_named, listed, names, record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int, PyTree

    Scalar = Float[Array, ""] | float

JITTER = 0.1
"""The share of an Ω's mean eigenvalue, 1 / |M|, that is added to its diagonal before it is inverted.

Where output layers are alike, Ω is singular. Other clients' layers stand still between exchanges, and stronger
penalties make all layers oscillate.
"""
OMEGA = "omega"


@record
class RelatedOutputs(OwnModels):
    """Own models whose features are averaged and whose output layers pull each other as far as they are alike.

    Args:
        mixer: averages the features.
        lambdas: λ₁ to λ₄.
        eta: η, the weight of the new Ω.
        output: the names of the output layers w, comma-separated; ``*`` stands for anything.
        upper: the names of the upper layers U.
        has_one_omega: True if a server keeps one Ω for all clients.
    """

    lambdas: tuple[Scalar, Scalar, Scalar, Scalar]
    eta: Scalar
    output: str = static()
    upper: str = static()
    has_one_omega: bool = static()

    @property
    def seeks_consensus(self) -> bool:
        """False: clients that are not alike keep models of their own."""
        return False

    @property
    def has_server(self) -> bool:
        """True if models pass through a server."""
        return self.has_one_omega

    def memory(self, variables: Variables, clients: int) -> dict[str, PyTree]:  # noqa: ARG002
        """Return Ω as if no two clients were alike: I / |M|."""
        if self.has_one_omega:
            return {OMEGA: jnp.eye(clients) / clients}
        there = self.members()[1]
        eye = jax.vmap(jnp.diag)(there)
        return {OMEGA: eye / there.sum(1)[:, None, None]}

    def members(self) -> tuple[Int[Array, "K p"], Float[Array, "K p"]]:
        """Return M_k of every client, itself first, and which places in it are taken."""
        assert isinstance(self.mixer, Gossip)
        index, share = jnp.asarray(self.mixer.index)[0], jnp.asarray(self.mixer.share)[0]
        return index, jnp.maximum(share != 0, jnp.arange(share.shape[1]) == 0).astype(jnp.float32)

    def is_output(self, name: str) -> bool:
        """Return True for a parameter of the output layer."""
        return is_named(name, *listed(self.output))

    def output_rows(self, variables: Variables) -> Float[Array, "K d"]:
        """Return every client's output layer as a row."""
        leaves = zip(names(variables.params), jax.tree.leaves(variables.params), strict=True)
        return jnp.concatenate([a.reshape(len(a), -1) for name, a in leaves if self.is_output(name)], axis=1)

    def coupling(self, omega: Array, sizes: Int[Array, " K"]) -> Float[Array, "K K"]:
        """Return Q."""
        each = self.lambdas[0] / jnp.maximum(sizes, 1)
        if self.has_one_omega:
            return each.sum() * inverse(omega, jnp.ones(len(omega)))
        who, there = self.members()
        inverted = for_every_row(inverse, omega, there) * each[:, None, None]
        k = len(who)
        return jnp.zeros((k, k)).at[who[:, :, None], who[:, None, :]].add(inverted)

    def broadcast(self, models: Variables, memory: dict[str, PyTree], sizes: Int[Array, " K"]) -> dict[str, PyTree]:
        """Return each client's penalties, by parameter.

        An output layer has the strength Q[k, k] + λ₂ and the slope Σ_{j ≠ k} Q[j, k]·w_j; other parameters have the
        strength λ₃ or λ₄.
        """
        q = self.coupling(memory[OMEGA], sizes)
        others = q - jnp.diag(jnp.diagonal(q))
        _, second, third, fourth = self.lambdas
        strength, slope = {}, {}
        for name, a in zip(names(models.params), jax.tree.leaves(models.params), strict=True):
            if self.is_output(name):
                strength[name] = jnp.diagonal(q) + second
                slope[name] = jnp.einsum("jk,j...->k...", others, a)
            else:
                strength[name] = jnp.full(len(q), fourth if is_named(name, *listed(self.upper)) else third, jnp.float32)
        return {STRENGTH: strength, SLOPE: slope}

    def exchange(
        self,
        models: Variables,  # noqa: ARG002
        trained: Variables,
        memory: dict[str, PyTree],
        replies: Replies,
        peers: Int[Array, "K p"] | None,
    ) -> tuple[Variables, dict[str, PyTree]]:
        """Return features averaged among neighbours with clients' own output layers, and the next Ω."""
        averaged = self.mixer.mix(replies, trained, peers)
        own = [self.is_output(name) for name in names(trained)]
        leaves = zip(own, jax.tree.leaves(trained), jax.tree.leaves(averaged), strict=True)
        kept: Variables = jax.tree.unflatten(jax.tree.structure(trained), [a if o else b for o, a, b in leaves])
        former = memory[OMEGA]
        omega = self.learned(former, self.output_rows(kept))
        if self.has_one_omega:  # a server that receives nothing learns nothing
            omega = jnp.where(jnp.any(replies.present), omega, former)
        else:  # an absent client learns nothing; the others use its last known output layer
            omega = jnp.where(replies.present[:, None, None], omega, former)
        return kept, {OMEGA: omega}

    def notes(self, memory: dict[str, PyTree]) -> dict[str, Array]:
        """Return Ω over all clients, scaled to a diagonal of 1.

        An entry is the mean of all Ω_k that know both clients, and 0 where none does.
        """
        omega = memory[OMEGA]
        if not self.has_one_omega:
            who, there = self.members()
            both = there[:, :, None] * there[:, None, :]
            add = lambda a: jnp.zeros((len(who),) * 2).at[who[:, :, None], who[:, None, :]].add(a)  # noqa: E731
            omega = add(omega * both) / jnp.maximum(add(both), 1)
        roots = jnp.sqrt(jnp.maximum(jnp.diagonal(omega), 1e-30))
        return {"related": omega / (roots[:, None] * roots)}

    def learned(self, omega: Array, w: Float[Array, "K d"]) -> Array:
        """Return the next Ω, given all output layers."""
        if self.has_one_omega:
            return normalised((1 - self.eta) * omega + self.eta * root(w @ w.T))
        who, there = self.members()

        def next_one(mine: Array, taken: Array) -> Array:
            same = (mine[:, None, None] == who[mine]) * taken[:, None, None] * there[mine]  # of me, of i, of i's
            seen = jnp.einsum("aib,ibc,dic->iad", same, omega[mine], same)
            mean = jnp.einsum("i,iad->ad", taken / taken.sum(), seen)
            new = root((w[mine] @ w[mine].T) * taken[:, None] * taken)
            return normalised((1 - self.eta) * mean + self.eta * new)

        return for_every_row(next_one, who, there)

    def checked(self) -> Self:
        """Return the routing if its numbers can be used."""
        super().checked()
        for i, value in enumerate(self.lambdas, 1):
            require(bool(value >= 0), f"lambda{i}", "at least 0", value)
        require(bool(0 <= self.eta <= 1), "eta", "between 0 and 1", self.eta)
        mixer = self.mixer
        steady = (isinstance(mixer, Topology) and not mixer.changes) or (
            isinstance(mixer, Gossip) and len(mixer.index) == 1
        )
        require(self.has_one_omega or steady, "topology", "one whose neighbours stay the same", mixer.describe())
        return self

    def check(self, variables: Variables) -> None:
        """Raise an :class:`ArgumentError` unless the model has the named layers."""
        layers = sorted({name.split(".")[0] for name in names(variables.params)})
        for option, pattern in (("output", self.output), ("upper", self.upper)):
            for one in listed(pattern):
                if not any(is_named(layer, one) for layer in layers):
                    raise ArgumentError(option, f"a layer that the model has ({', '.join(layers)})", one)

    def describe(self) -> dict[str, Any]:
        """Return the mixer's name and numbers, λ₁ to λ₄, η and the layers."""
        lambdas = {f"lambda{i}": float(value) for i, value in enumerate(self.lambdas, 1)}
        return {**super().describe(), **lambdas, "eta": float(self.eta), "output": self.output, "upper": self.upper}


def for_every_row(function: Callable[..., Array], *arrays: Array) -> Array:
    """Return the results of a function for every row of the arrays.

    On a CPU the rows are computed one after another: a batch of LAPACK calls waits for threads that another device may
    hold while that device waits for this one.
    """
    in_turn = lambda *rows: jax.lax.map(lambda row: function(*row), rows)  # noqa: E731
    found: Array = jax.lax.platform_dependent(*arrays, cpu=in_turn, default=jax.vmap(function))
    return found


def root(a: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """Return the square root of a positive semidefinite matrix, scaled to trace 1; for zero, I / p."""
    values, vectors = jnp.linalg.eigh(a)
    values = jnp.sqrt(jnp.maximum(values, 0))
    found = (vectors * values) @ vectors.T
    return jnp.where(values.sum() > 0, found / jnp.maximum(values.sum(), 1e-30), jnp.eye(len(a)) / len(a))


def normalised(a: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """Return a matrix scaled to trace 1."""
    return a / jnp.maximum(jnp.trace(a), 1e-30)


def inverse(omega: Float[Array, "p p"], there: Float[Array, " p"]) -> Float[Array, "p p"]:
    """Return (Ω + ε·I)⁻¹ with ε = JITTER / |M| on the places that are taken, and 0 elsewhere."""
    inside = there[:, None] * there
    return jnp.linalg.inv(omega * inside + jnp.diag(jnp.where(there > 0, JITTER / there.sum(), 1.0))) * inside
