"""Multi-task learning without a server, or with one: everybody has its own output layer, and learns whose are like it.

Worker k has features θ_k (with U_k, the upper ones of them) and an output w_k; M_k is itself and its neighbours, and
W_k = (w_j)_{j ∈ M_k}. With Ω_k ⪰ 0 and tr Ω_k = 1 (He et al. 2019, after Zhang and Yeung 2012), minimise

    G = Σ_k 1/n_k [Σ_i ℓ_i + λ₁/2 · tr(W_k Ω_k⁻¹ W_kᵀ)] + λ₂/2 · ‖W‖² + λ₃/2 · ‖θ‖² + λ₄/2 · ‖U‖²

w_k is in W_i for every i that has k in M_i, so with Q[j, k] = λ₁ Σ_{i: j, k ∈ M_i} 1/n_i · (Ω_i⁻¹)[j, k], where Ω_i
has a little added to its diagonal (JITTER below),

    ∂G/∂w_k = ∂L/∂w_k + Σ_j Q[j, k]·w_j + λ₂·w_k,   ∂G/∂θ_k = ∂L/∂θ_k + λ₃·θ_k,   ∂G/∂U_k = ∂L/∂U_k + λ₄·U_k

(The document's formula multiplies w_k, which has d numbers, with Ω_i⁻¹, which is |M| × |M|; this is what its objective
implies.) Between two exchanges others' w_j are those of the last one. Given W_k, the best Ω_k is (W_kᵀW_k)^½ / tr(…).
It is learned in steps, with what neighbours found of whom both know: Π_k(Ω_i) is Ω_i on the members of M_k.

    Ω_k ← ((1 - η)·mean_{i ∈ M_k} Π_k(Ω_i) + η·(W_kᵀW_k)^½ / tr(…)) / tr(…)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from fedloom.algorithms.dpa_sgd import OPTIONS, Along, mixed
from fedloom.algorithms.personalised import PeerState, Personalised
from fedloom.combine.replies import Replies
from fedloom.errors import ArgumentError, require
from fedloom.local import given
from fedloom.local.related import SLOPE, STRENGTH, Related
from fedloom.mixing import Gossip, Topology, personal
from fedloom.tasks.task import Variables
from fedloom.trees import is_named, listed, names, record, static

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int

    from fedloom.mixing.mixer import Who

    Scalar = Float[Array, ""] | float

JITTER = 0.1
"""Where outputs are alike, Ω is singular: so much of its mean eigenvalue, 1 / |M|, is added to its diagonal before it
is inverted. Others' outputs stand still between exchanges, and stronger pulls than these make all of them swing."""
OMEGA = "omega"


@record
class MultiTask(Personalised):
    """Personalised learning whose output layers are related; features are averaged among neighbours, outputs are not.

    Arguments:
        lambdas: λ₁ to λ₄.
        eta: η, how much of the new Ω counts.
        output, upper: the names of the layers w and U, comma-separated; ``*`` stands for anything.
        one: whether there is one Ω for all, at a server.

    Build it with :func:`dpa_sgd_mtl` or :func:`fedavg_mtl`.
    """

    lambdas: tuple[Scalar, Scalar, Scalar, Scalar]
    eta: Scalar
    output: str = static()
    upper: str = static()
    one: bool = static()

    @property
    def has_server(self) -> bool:  # type: ignore[override]
        """Whether models go through a server."""
        return self.one

    @property
    def agrees(self) -> bool:
        """No: everybody has an output layer of its own."""
        return False

    def init(self, variables: Variables, clients: int) -> PeerState:
        """All begin with the same model, and Ω as if nobody were like anybody: I / |M|."""
        state = super().init(variables, clients)
        if self.one:
            return replace(state, memory={OMEGA: jnp.eye(clients) / clients})
        there = self.members()[1]
        eye = jax.vmap(jnp.diag)(there)
        return replace(state, memory={OMEGA: eye / there.sum(1)[:, None, None]})

    def members(self) -> tuple[Int[Array, "K p"], Float[Array, "K p"]]:
        """M_k of every worker, itself first, and which places in it are taken."""
        assert isinstance(self.mixer, Gossip)
        index, share = jnp.asarray(self.mixer.index)[0], jnp.asarray(self.mixer.share)[0]
        return index, jnp.maximum(share != 0, jnp.arange(share.shape[1]) == 0).astype(jnp.float32)

    def is_output(self, name: str) -> bool:
        """Whether a parameter is of the output layer."""
        return is_named(name, *listed(self.output))

    def outputs(self, variables: Variables) -> Float[Array, "K d"]:
        """Every worker's output layer as a row."""
        leaves = zip(names(variables.params), jax.tree.leaves(variables.params), strict=True)
        return jnp.concatenate([a.reshape(len(a), -1) for name, a in leaves if self.is_output(name)], axis=1)

    def coupling(self, omega: Array, sizes: Int[Array, " K"]) -> Float[Array, "K K"]:
        """Q."""
        each = self.lambdas[0] / jnp.maximum(sizes, 1)
        if self.one:
            return each.sum() * inverse(omega, jnp.ones(len(omega)))
        who, there = self.members()
        inverted = every(inverse, omega, there) * each[:, None, None]
        k = len(who)
        return jnp.zeros((k, k)).at[who[:, :, None], who[:, None, :]].add(inverted)

    def told(self, state: PeerState, sizes: Int[Array, " K"]) -> dict[str, Any]:
        """What pulls each worker: its output by Q[k, k] + λ₂ and Σ_{j ≠ k} Q[j, k]·w_j; the rest by λ₃ and λ₄."""
        q = self.coupling(state.memory[OMEGA], sizes)
        others = q - jnp.diag(jnp.diagonal(q))
        _, second, third, fourth = self.lambdas
        strength, slope = {}, {}
        for name, a in zip(names(state.variables.params), jax.tree.leaves(state.variables.params), strict=True):
            if self.is_output(name):
                strength[name] = jnp.diagonal(q) + second
                slope[name] = jnp.einsum("jk,j...->k...", others, a)
            else:
                strength[name] = jnp.full(len(q), fourth if is_named(name, *listed(self.upper)) else third, jnp.float32)
        return {STRENGTH: strength, SLOPE: slope}

    def exchanged(self, state: PeerState, replies: Replies, trained: Variables, who: Who) -> PeerState:
        """Features averaged among neighbours, outputs kept; and Ω from the outputs."""
        averaged = self.mixer.mix(replies, trained, who)
        own = [self.is_output(name) for name in names(trained)]
        leaves = zip(own, jax.tree.leaves(trained), jax.tree.leaves(averaged), strict=True)
        kept: Variables = jax.tree.unflatten(jax.tree.structure(trained), [a if o else b for o, a, b in leaves])
        former = state.memory[OMEGA]
        omega = self.learned(former, self.outputs(kept))
        if self.one:  # a server that receives nothing learns nothing
            omega = jnp.where(jnp.any(replies.present), omega, former)
        else:  # an absent worker learns nothing; the others use its last known output layer
            omega = jnp.where(replies.present[:, None, None], omega, former)
        return PeerState(kept, state.round + 1, {OMEGA: omega})

    def notes(self, state: PeerState) -> dict[str, Array]:
        """Ω of all, each number over the roots of its row's and its column's on the diagonal: the mean of what is known
        of a pair, and 0 where nothing is.
        """
        omega = state.memory[OMEGA]
        if not self.one:
            who, there = self.members()
            both = there[:, :, None] * there[:, None, :]
            add = lambda a: jnp.zeros((len(who),) * 2).at[who[:, :, None], who[:, None, :]].add(a)  # noqa: E731
            omega = add(omega * both) / jnp.maximum(add(both), 1)
        roots = jnp.sqrt(jnp.maximum(jnp.diagonal(omega), 1e-30))
        return {"related": omega / (roots[:, None] * roots)}

    def learned(self, omega: Array, w: Float[Array, "K d"]) -> Array:
        """The next Ω."""
        if self.one:
            return normalised((1 - self.eta) * omega + self.eta * root(w @ w.T))
        who, there = self.members()

        def next_one(mine: Array, taken: Array) -> Array:
            same = (mine[:, None, None] == who[mine]) * taken[:, None, None] * there[mine]  # of me, of i, of i's
            seen = jnp.einsum("aib,ibc,dic->iad", same, omega[mine], same)
            mean = jnp.einsum("i,iad->ad", taken / taken.sum(), seen)
            new = root((w[mine] @ w[mine].T) * taken[:, None] * taken)
            return normalised((1 - self.eta) * mean + self.eta * new)

        return every(next_one, who, there)

    def checked(self) -> MultiTask:
        """The same, if its numbers can be used."""
        super().checked()
        for i, value in enumerate(self.lambdas, 1):
            require(bool(value >= 0), f"lambda{i}", "at least 0", value)
        require(bool(0 <= self.eta <= 1), "eta", "between 0 and 1", self.eta)
        mixer = self.mixer
        steady = (isinstance(mixer, Topology) and not mixer.changes) or (
            isinstance(mixer, Gossip) and len(mixer.index) == 1
        )
        require(self.one or steady, "topology", "one whose neighbours stay the same", mixer.describe())
        return self

    def check(self, variables: Variables) -> None:
        """Raise an :class:`ArgumentError` unless the model has such layers."""
        layers = sorted({name.split(".")[0] for name in names(variables.params)})
        for called, pattern in (("output", self.output), ("upper", self.upper)):
            for one in listed(pattern):
                if not any(is_named(layer, one) for layer in layers):
                    raise ArgumentError(called, f"a layer that the model has ({', '.join(layers)})", one)

    def describe(self) -> dict[str, Any]:
        """What it is made of, by name."""
        lambdas = {f"lambda{i}": float(value) for i, value in enumerate(self.lambdas, 1)}
        return {**super().describe(), **lambdas, "eta": float(self.eta), "output": self.output, "upper": self.upper}


def every(function: Callable[..., Array], *arrays: Array) -> Array:
    """The function of every row: one after another on a CPU, where a batch of LAPACK's calls waits for threads that
    another device, which waits for this one, may hold.
    """
    in_turn = lambda *rows: jax.lax.map(lambda row: function(*row), rows)  # noqa: E731
    found: Array = jax.lax.platform_dependent(*arrays, cpu=in_turn, default=jax.vmap(function))
    return found


def root(a: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """The square root of a positive semidefinite matrix, with trace 1; of zero, I / p."""
    values, vectors = jnp.linalg.eigh(a)
    values = jnp.sqrt(jnp.maximum(values, 0))
    found = (vectors * values) @ vectors.T
    return jnp.where(values.sum() > 0, found / jnp.maximum(values.sum(), 1e-30), jnp.eye(len(a)) / len(a))


def normalised(a: Float[Array, "p p"]) -> Float[Array, "p p"]:
    """The same with trace 1."""
    return a / jnp.maximum(jnp.trace(a), 1e-30)


def inverse(omega: Float[Array, "p p"], there: Float[Array, " p"]) -> Float[Array, "p p"]:
    """(Ω + ε·I)⁻¹ with ε = JITTER / |M| on the places that are taken, 0 on the others."""
    inside = there[:, None] * there
    return jnp.linalg.inv(omega * inside + jnp.diag(jnp.where(there > 0, JITTER / there.sum(), 1.0))) * inside


def dpa_sgd_mtl(
    topology: Along = "ring",
    *,
    period: int = 5,
    weights: str | None = None,
    lambdas: tuple[float, float, float, float] = (1e-4, 1e-4, 0.0, 0.0),
    eta: float = 0.5,
    output: str = "output",
    upper: str = "",
    **options: Any,
) -> MultiTask:
    """DPA-SGD with multi-task learning: neighbours average their features, and their outputs pull each other as far as
    they are alike.

    Arguments:
        topology, period, weights: as of :func:`fedloom.dpa_sgd`.
        lambdas: λ₁ (how strongly outputs pull each other), λ₂ (of outputs), λ₃ (features), λ₄ (upper features).
        eta: η, how much of the new Ω counts in an exchange.
        output, upper: the names of the layers w and U.
        options: the arguments of :func:`fedloom.local.sgd`, and the options of the topology.

    >>> dpa_sgd_mtl(lambdas=(-1, 0, 0, 0))
    Traceback (most recent call last):
    fedloom.errors.ArgumentError: lambda1 must be at least 0, but is -1
    """
    mixer = mixed(topology, weights, options)
    others = ("topology", "weights", "lambdas", "eta", "output", "upper", *OPTIONS)
    local = Related(given(None, {"period": period, **options}, *others))
    return MultiTask(local, mixer, 1.0, lambdas, eta, output, upper, one=False).checked()


def fedavg_mtl(
    *,
    lambdas: tuple[float, float, float, float] = (1e-4, 1e-4, 0.0, 0.0),
    eta: float = 0.5,
    output: str = "output",
    upper: str = "",
    **options: Any,
) -> MultiTask:
    """Federated averaging with multi-task learning: a server averages everybody's features by their data, and keeps one
    Ω of all outputs. The arguments are those of :func:`dpa_sgd_mtl` and :func:`fedloom.local.sgd`.
    """
    return MultiTask(Related(given(None, options)), personal(), 1.0, lambdas, eta, output, upper, one=True).checked()
