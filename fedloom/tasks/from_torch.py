"""From PyTorch: an ordinary ``nn.Module``, compiled by way of torchax."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedloom.errors import ArgumentError, Told, require
from fedloom.tasks.bfloat16 import in_bfloat16
from fedloom.tasks.forms import applied
from fedloom.tasks.inputs import seen, tokens_of
from fedloom.tasks.mixed import in_precision
from fedloom.tasks.modes import in_eval_mode, restored_modes
from fedloom.tasks.objective import supervised
from fedloom.tasks.recurrence import STEPS, recurrent
from fedloom.tasks.task import Task, Variables
from fedloom.tasks.torch_attention import fused_attention, scaled_dot_product_attention
from fedloom.tasks.torch_norms import norms
from fedloom.tasks.user_model import as_before, library, trained, whole_as_float

if TYPE_CHECKING:
    from jaxtyping import Array, Key, PyTree

    from fedloom.tasks.inputs import Inputs
    from fedloom.tasks.objective import Losses, Metrics, Objective


def from_torch(
    module: Any,
    loss: str | Objective | Losses = "cross_entropy",
    *,
    metrics: Metrics | None = None,
    inputs: Inputs = None,
    name: str | None = None,
    precision: str = "float32",
) -> Task:
    """A task from a PyTorch module, which begins with the weights that the module has.

    Parameters that require no gradient stay as they are. Parts of the module that are in eval mode stay in it, so that
    ``module.norm.eval()`` freezes the statistics of a batch norm; a module that is in eval mode as a whole is trained
    in training mode. Dropout draws from the run's seed. Buffers, such as the statistics of batch norm, are averaged, or
    kept by each client with :func:`fedloom.fedbn`. ``task.give_back(run.variables)`` is the module itself with the
    trained weights, whose ``state_dict()`` can be saved as any other.

    Arguments:
        module: the model; its outputs are logits, not probabilities.
        loss, metrics: what outputs are judged by; see :func:`fedloom.tasks.objective`.
        inputs: the shape of an example that the module wants, such as ``(1, 28, 28)`` (colours come first), or a
            function from the column x to what it wants.
        name: what it is called in tables; by default as its class.
        precision: what training computes in: ``float32``, or ``bfloat16`` (:func:`fedloom.tasks.mixed`).
    """
    torch = library("torch", "torch")
    library("torchax", "torch")
    require(isinstance(module, torch.nn.Module), "module", "a torch.nn.Module", module)
    learnt = {n: p for n, p in module.named_parameters() if p.requires_grad}
    frozen = {n: p for n, p in module.named_parameters() if not p.requires_grad}
    require(len(learnt) > 0, "module", "one with parameters that require a gradient", type(module).__name__)
    kept = {**frozen, **dict(module.named_buffers())}
    params, buffers = _numbers(learnt), _numbers(kept)
    types = {n: jax.dtypes.canonicalize_dtype(v.dtype) for n, v in buffers.items()}
    state = whole_as_float(buffers)
    shapes = {f"params.{n}": v.shape for n, v in params.items()} | {f"state.{n}": v.shape for n, v in state.items()}
    look, resting = seen(inputs, tokens=tokens_of(loss), channels_first=True), in_eval_mode(module)
    reader = _reader(module, list(kept))

    def init(key: Key[Array, ""]) -> Variables:  # noqa: ARG001
        return Variables(jax.tree.map(jnp.asarray, params), jax.tree.map(jnp.asarray, state))

    def forward(params: PyTree, state: PyTree, x: Array, key: Key[Array, ""] | None) -> Any:
        tensor, world = library("torchax.tensor", "torch"), _world()
        with restored_modes(module, key is not None, resting), _inside(world, key):
            wrap = lambda a: tensor.Tensor(jnp.asarray(a), world)  # noqa: E731
            tensors = {f"module.{n}": wrap(a) for n, a in {**params, **as_before(state, types)}.items()}
            try:
                with fused_attention(world, module), _attributes_kept(module):
                    found, after = torch.func.functional_call(reader, tensors, (wrap(x),))
            except (tensor.OperatorNotFound, jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
                need = "made of operations that can be compiled, or trained as it is (TorchClient)"
                raise ArgumentError("module", need, Told(f"not: {str(error).splitlines()[0]}")) from error
            outputs = jax.tree.map(lambda t: t.jax(), found, is_leaf=lambda t: hasattr(t, "jax"))
            fresh = {n: t.jax() for n, t in after.items()}
        return outputs, whole_as_float(fresh)

    def give_back(variables: Variables) -> Any:
        found = trained(variables, shapes)
        with torch.no_grad():
            for n, p in learnt.items():
                p.copy_(torch.from_numpy(np.array(found[f"params.{n}"])))
            for n, b in kept.items():
                b.copy_(torch.from_numpy(np.array(as_before({n: found[f"state.{n}"]}, types)[n])))
        return module

    task = supervised(
        name or type(module).__name__,
        init,
        applied(forward, look),
        loss,
        metrics=metrics,
        give_back=give_back,
        rounded=applied(in_bfloat16(forward), look),
    )
    return in_precision(task, precision)


def _numbers(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {n: np.array(t.detach().cpu().numpy()) for n, t in tensors.items()}


@cache
def _world() -> Any:
    """Return an environment of torchax in which normalising and recurrent layers have forms of their own."""
    torch, tensor = library("torch", "torch"), library("torchax.tensor", "torch")

    world = tensor.Environment()
    unwrapped = world.t2j_iso

    def constant(given: Any) -> Any:
        """As JAX's arrays; tensors of the module that are neither parameters nor buffers are constants."""
        plain = lambda t: t if isinstance(t, tensor.Tensor | tensor.View) else world.to_xla(t)  # noqa: E731
        return unwrapped(torch.utils._pytree.tree_map_only(torch.Tensor, plain, given))

    world.t2j_iso = constant
    for function, form in norms().items():
        world.override_op_definition(function, partial(form, world))
    dot_product = torch.nn.functional.scaled_dot_product_attention
    world.override_op_definition(dot_product, partial(scaled_dot_product_attention, world))
    for kind in STEPS:
        world.override_op_definition(getattr(torch, kind), partial(_recurrent, world, kind))
    return world


def _recurrent(world: Any, kind: str, *given: Any) -> Any:
    """As PyTorch's recurrent layers, by JAX's loops."""
    found = recurrent(kind, world.get_and_rotate_prng_key(), *world.t2j_iso(given))
    return world.j2t_iso(found)


@contextmanager
def _inside(world: Any, key: Key[Array, ""] | None) -> Iterator[None]:
    """Inside, operations and new tensors are JAX's, and random numbers come from the key."""
    torch = library("torch", "torch")
    seed = jax.random.key(0) if key is None else key
    with warnings.catch_warnings(), world, world.override_property(prng=seed), torch.device("jax"):
        warnings.filterwarnings("ignore", "Explicitly requested dtype")  # PyTorch's whole numbers have 64 bits
        yield


def _reader(module: Any, names: list[str]) -> Any:
    """Return a module that gives the outputs of another, and what its parameters and buffers of some names then are:
    some modules change a buffer in its place, others assign a new one.
    """
    base: Any = library("torch.nn", "torch").Module

    class Reader(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Any) -> tuple[Any, dict[str, Any]]:
            outputs = self.module(x)
            own = self.module
            after = dict(own.named_parameters(remove_duplicate=False)) | dict(own.named_buffers(remove_duplicate=False))
            return outputs, {n: after[n] for n in names}

    return Reader()


@contextmanager
def _attributes_kept(module: Any) -> Iterator[None]:
    """Inside, a module may assign to its attributes; after it, they are as before.

    Raises:
        ArgumentError: a number or a tensor is no longer what it was, which would be lost.
    """
    torch = library("torch", "torch")
    before = {part: dict(vars(part)) for part in module.modules()}
    lost = []
    try:
        yield
    finally:
        for part, attributes in before.items():
            now = vars(part)
            changed = [n for n, a in attributes.items() if n not in now or now[n] is not a]
            for name in [n for n in now if n not in attributes]:
                del now[name]
            now.update({n: attributes[n] for n in changed})
            numbers = [n for n in changed if isinstance(attributes[n], int | float | torch.Tensor)]
            lost += [(type(part).__name__, n) for n in numbers]
    for part_name, name in lost[:1]:
        need = f"one that keeps what it changes in buffers (register_buffer({name!r}, …))"
        raise ArgumentError("module", need, Told(f"one whose {part_name} assigns to self.{name} when it is called"))
