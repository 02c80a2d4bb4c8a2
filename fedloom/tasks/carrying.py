"""Carrying: evaluates a traced model with images in the kernels' order of axes, from convolution to convolution.

A convolution that has a kernel takes its images as :class:`fedloom.kernels.lanes.Lanes` and returns them so.
Element-wise operations, sums, pooling, concatenation and the like keep that order; any other operation gets the array
as the model has it. Gradients follow, because JAX differentiates what is evaluated here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from fedloom.kernels.convolution import convolve
from fedloom.kernels.lanes import Broadcast, Lanes, plain, to_lanes
from fedloom.kernels.plan import pays
from fedloom.kernels.pooled import pooled
from fedloom.kernels.shape import Shape
from fedloom.tasks.convolution import ordered
from fedloom.tasks.pooling import MOST, Window, largest
from fedloom.tasks.rewriting import Rule, done, jaxprs, rule_of

if TYPE_CHECKING:
    from jaxtyping import Array

ELEMENTWISE = {
    "add", "sub", "mul", "div", "max", "min", "neg", "select_n", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not",
    "xor", "abs", "sign", "tanh", "logistic", "erf", "exp", "square", "stop_gradient", "convert_element_type", "copy",
    "copy_p", "add_any", "integer_pow", "sin", "cos", "floor", "ceil", "round", "clamp", "is_finite", "log", "log1p",
    "expm1", "sqrt", "rsqrt", "pow", "rem", "cbrt", "atan2", "nextafter", "exp2", "erf_inv", "erfc", "sinh", "cosh",
    "gelu",
}  # fmt: skip
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}


def has_kernel(traced: Jaxpr) -> bool:
    """Return True if a traced function has a convolution that kernels compute."""
    for equation in traced.eqns:
        if equation.primitive.name == "conv_general_dilated":
            x, w = (v.aval for v in equation.invars)
            if shape_of(equation.params, x, w) is not None:
                return True
        elif any(has_kernel(inner) for inner in jaxprs(equation)):
            return True
    return False


def evaluate(traced: ClosedJaxpr, inputs: Sequence[Any], rules: Mapping[str, Rule]) -> list[Any]:
    """Return the outputs of a traced function, some of them as :class:`Lanes`."""
    inner = traced.jaxpr
    known: dict[Any, Any] = dict(zip([*inner.constvars, *inner.invars], [*traced.consts, *inputs], strict=True))
    takers = Counter(v for equation in inner.eqns for v in equation.invars if not isinstance(v, Literal))
    for equation in inner.eqns:
        given = [v.val if isinstance(v, Literal) else known[v] for v in equation.invars]
        found = _one(equation, given, rules)
        if found is None:
            uses = tuple(0 if isinstance(v, Literal) else takers[v] for v in equation.invars)
            found = done(equation, [plain(value) for value in given], rules, uses)
        known |= zip(equation.outvars, found, strict=True)
    return [v.val if isinstance(v, Literal) else known[v] for v in inner.outvars]


def _one(equation: Any, given: list[Any], rules: Mapping[str, Rule]) -> list[Any] | None:
    """Return the results of one operation if it keeps the kernels' order, else None."""
    name = equation.primitive.name
    if name == "conv_general_dilated":
        return _convolution(equation.params, given)
    if name == "broadcast_in_dim" and not isinstance(given[0], Lanes) and len(equation.params["shape"]) > 2:
        return _broadcast(equation.params, given)
    if name in CALLS and rule_of(equation, rules) is None and _concerns(equation, given):
        inner = equation.params[CALLS[name]]
        return evaluate(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()), given, rules)
    if not any(isinstance(value, Lanes) for value in given):
        return None
    if name in ELEMENTWISE:
        return _elementwise(equation, given)
    if name == "custom_jvp_call":
        return _with_own_derivative(equation, given)
    rule = CARRIED.get(name)
    return rule(equation, given) if rule else None


def _concerns(equation: Any, given: list[Any]) -> bool:
    """Return True if a call gets values in the kernels' order or has a convolution of its own."""
    return any(isinstance(value, Lanes | Broadcast) for value in given) or any(map(has_kernel, jaxprs(equation)))


def shape_of(params: dict[str, Any], x: Any, w: Any) -> Shape | None:
    """Return the shape of a convolution's kernel, or None if it has none."""
    how, (images, weights, _) = ordered(params)
    sizes, kernel = [x.shape[axis] for axis in images], [w.shape[axis] for axis in weights]
    rank = len(how.strides)
    plainly = how.batch_groups == 1 and set(how.spread) == {1} and rank in (1, 2) and how.result in (None, x.dtype)
    if not plainly or x.dtype != jnp.float32 or w.dtype != jnp.float32 or how.precision not in (None, (None, None)):
        return None
    one = (1,) * (2 - rank)
    image, taps = (*one, *sizes[1:-1]), (*one, *kernel[:-2])
    strides, dilation = (*one, *how.strides), (*one, *how.dilation)
    padding = (*((0, 0) for _ in one), *how.padding)
    output = tuple((n + low + high - (k - 1) * apart - 1) // stride + 1 for n, (low, high), k, stride, apart
                   in zip(image, padding, taps, strides, dilation, strict=True))  # fmt: skip
    if min(output) < 1 or min(*image, *taps, sizes[0], sizes[-1], kernel[-1]) < 1:
        return None
    names = dict(zip(weights, ["w", "i", "o"] if rank == 1 else ["h", "w", "i", "o"], strict=True))
    shape = Shape(
        sizes[0], (sizes[-1], kernel[-1]), _pair(image), _pair(taps), _pair(strides),
        _pair(low for low, _ in padding), _pair(output), _pair(dilation), how.groups,
        "h" * (rank == 1) + "".join(names[axis] for axis in range(rank + 2)),
    )  # fmt: skip
    return shape if pays(shape) else None


def _pair(values: Iterable[int]) -> tuple[int, int]:
    first, second = values
    return first, second


def _convolution(params: dict[str, Any], given: list[Any]) -> list[Any] | None:
    x, w = given
    w = plain(w)
    dtyped = jax.ShapeDtypeStruct(x.shape, x.array.dtype if isinstance(x, Lanes | Broadcast) else x.dtype)
    shape = shape_of(params, dtyped, w)
    if shape is None:
        return None
    _, ((n, *places, c), _, (out_n, *out_places, out_c)) = ordered(params)
    images = to_lanes(x, (c, *places, n))
    flat = images.array.reshape(shape.channels[0], *shape.image, -1)
    found = convolve(shape, flat, w.reshape(shape.weights))
    sizes = shape.output[2 - len(places) :]
    return [Lanes(found.reshape(shape.channels[1], *sizes, -1), (out_c, *out_places, out_n))]


def _broadcast(params: dict[str, Any], given: list[Any]) -> list[Any] | None:
    array = plain(given[0])
    return [Broadcast(array, tuple(params["shape"]), tuple(params["broadcast_dimensions"]))]


def _elementwise(equation: Any, given: list[Any]) -> list[Any] | None:
    """Compute an element-wise operation in the kernels' order."""
    first = max((value for value in given if isinstance(value, Lanes)), key=lambda value: value.array.size)
    if not all(_fits(value, first) for value in given):
        return None
    arrays = [v if _is_scalar(v) else to_lanes(v, first.order).array for v in given]
    return [first.like(equation.primitive.bind(*arrays, **equation.params))]


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Lanes | Broadcast) and np.ndim(value) == 0


def _fits(value: Any, first: Lanes) -> bool:
    """Return True for a scalar and for a value of the same shape, in which some axes may have the size 1."""
    if _is_scalar(value):
        return True
    return len(value.shape) == len(first.shape) and all(
        a in (1, b) for a, b in zip(value.shape, first.shape, strict=True)
    )


def _with_own_derivative(equation: Any, given: list[Any]) -> list[Any] | None:
    """Compute an element-wise function that has a derivative of its own, such as relu."""
    first = next(value for value in given if isinstance(value, Lanes))
    inner = equation.params["call_jaxpr"]
    if len(given) == 1 and is_relu(inner.jaxpr):
        return [first.like(jax.nn.relu(first.array))]
    alike = all(_is_scalar(value) or value.shape == first.shape for value in given)
    if not is_elementwise(inner.jaxpr) or not alike:
        return None
    flat = [v if _is_scalar(v) else to_lanes(v, first.order).array.reshape(first.shape) for v in given]
    found = done(equation, flat, {}, (1,) * len(flat))
    return [first.like(value.reshape(first.array.shape)) for value in found]


def is_elementwise(traced: Jaxpr) -> bool:
    """Return True if every operation of a function works on each number by itself."""
    return all(e.primitive.name in ELEMENTWISE or (e.primitive.name in CALLS and all(map(is_elementwise, jaxprs(e))))
               for e in traced.eqns)  # fmt: skip


def is_relu(traced: Jaxpr) -> bool:
    """Return True for the function max(x, 0)."""
    if len(traced.eqns) != 1 or len(traced.invars) != 1:
        return False
    [equation] = traced.eqns
    if equation.primitive.name in CALLS:
        return all(map(is_relu, jaxprs(equation)))
    values = [v.val for v in equation.invars if isinstance(v, Literal)]
    return equation.primitive.name == "max" and len(values) == 1 and bool(np.all(np.asarray(values[0]) == 0))


def _reduce(equation: Any, given: list[Any]) -> list[Any] | None:
    """Reduce over some axes: over places before images, so that the sums run along vectors."""
    [x], params = given, equation.params
    gone = set(params["axes"])
    within = tuple(i for i, axis in enumerate(x.order[:-1]) if axis in gone)
    array = equation.primitive.bind(x.array, **{**params, "axes": within}) if within else x.array
    left = [axis for axis in x.order if axis not in gone]
    rank = sorted(left)
    if x.order[-1] not in gone:
        return [Lanes(array, tuple(rank.index(axis) for axis in left))]
    array = equation.primitive.bind(array, **{**params, "axes": (array.ndim - 1,)})
    return [array.transpose(np.argsort(left))]


def _reshape(equation: Any, given: list[Any]) -> list[Any] | None:
    """Reshape each image by itself, if its other axes are in the model's order or have the size 1."""
    x, *others = given
    new = tuple(equation.outvars[0].aval.shape)
    last = x.order[-1]
    within = [axis for axis in x.order[:-1] if x.shape[axis] > 1]
    batch = _kept_axis(x.shape, new, last)
    if others or batch is None or within != sorted(within):
        return None
    order = (*(axis for axis in range(len(new)) if axis != batch), batch)
    return [Lanes(x.array.reshape([new[axis] for axis in order]), order)]


def _kept_axis(old: tuple[int, ...], new: tuple[int, ...], axis: int) -> int | None:
    """Return the axis that a reshape leaves alone under another number, or None.

    >>> _kept_axis((8, 3, 4), (8, 12), 0), _kept_axis((3, 8, 4), (3, 8, 2, 2), 1), _kept_axis((8, 3), (24,), 0)
    (0, 1, None)
    """
    before = int(np.prod(old[:axis]))
    places = [k for k, n in enumerate(new) if n == old[axis] and int(np.prod(new[:k])) == before]
    return places[0] if places and (old[axis] > 1 or before == 1) else None


def _squeeze(equation: Any, given: list[Any]) -> list[Any] | None:
    """Drop axes of size 1, of which none is the batch."""
    [x], gone = given, {axis % len(given[0].shape) for axis in equation.params["dimensions"]}
    if x.order[-1] in gone:
        return None
    left = [axis for axis in x.order if axis not in gone]
    sizes = [n for axis, n in zip(x.order, x.array.shape, strict=True) if axis not in gone]
    rank = sorted(left)
    return [Lanes(x.array.reshape(sizes), tuple(rank.index(axis) for axis in left))]


def _repeat(equation: Any, given: list[Any]) -> list[Any] | None:
    """Add axes before the batch, and repeat along them and along axes of size 1."""
    x, *others = given
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    batch = axes[x.order[-1]]
    if others or shape[batch] != x.array.shape[-1]:
        return None
    kept = [axes[axis] for axis in x.order[:-1]]
    order = (*(axis for axis in range(len(shape)) if axis not in axes), *kept, batch)
    places = [order.index(axes[axis]) for axis in x.order]
    return [Lanes(lax.broadcast_in_dim(x.array, [shape[axis] for axis in order], places), order)]


def _windows(equation: Any, given: list[Any]) -> list[Any] | None:
    """Pool over windows that do not reach across images."""
    x, *others = given
    params, last = equation.params, x.order[-1]
    names = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
    moved = {name: tuple(params[name][axis] for axis in x.order) for name in names if name in params}
    one_image = moved["window_dimensions"][-1] == moved["window_strides"][-1] == 1
    if not one_image or tuple(params["padding"][last]) != (0, 0) or others:
        return None
    is_plain = set(moved["base_dilation"]) | set(moved["window_dilation"]) == {1}
    if equation.primitive.name == "reduce_window_max" and is_plain and np.prod(moved["window_dimensions"]) <= MOST:
        sizes, strides, padding = (moved[name] for name in names[:3])
        shape = _pooling_shape(x.array, sizes, strides, padding)
        if shape is None:
            return [x.like(largest(Window(sizes, strides, padding), x.array))]
        found = pooled(shape, x.array.reshape(shape.channels[0], *shape.image, shape.batch))
        return [x.like(found.reshape(equation_shape(equation, x)))]
    return [x.like(equation.primitive.bind(x.array, **{**params, **moved}))]


def equation_shape(equation: Any, x: Lanes) -> list[int]:
    """Return the shape of an operation's result in the kernels' order."""
    return [equation.outvars[0].aval.shape[axis] for axis in x.order]


def _pooling_shape(
    x: Array, sizes: tuple[int, ...], strides: tuple[int, ...], padding: tuple[tuple[int, int], ...]
) -> Shape | None:
    """Return the shape of a pooling's kernel, or None if it has none."""
    *channels, height, width, batch = x.shape if x.ndim == 4 else (x.shape[0], 1, *x.shape[1:])
    if x.dtype != jnp.float32 or x.ndim not in (3, 4) or sizes[0] != 1 or strides[0] != 1 or padding[0] != (0, 0):
        return None
    kernel, steps, edges = (
        (*(one,) * (4 - x.ndim), *every[1:-1]) for one, every in ((1, sizes), (1, strides), ((0, 0), padding))
    )
    image = (height, width)
    output = tuple((n + sum(edge) - k) // s + 1 for n, edge, k, s in zip(image, edges, kernel, steps, strict=True))
    if min(output) < 1:
        return None
    c = channels[0]
    shape = Shape(
        batch, (c, c), image, _pair(kernel), _pair(steps), _pair(low for low, _ in edges), _pair(output), groups=c
    )
    return shape if pays(shape) else None


def _concatenate(equation: Any, given: list[Any]) -> list[Any] | None:
    first = next(value for value in given if isinstance(value, Lanes))
    along = equation.params["dimension"]
    if along == first.order[-1]:
        return None
    arrays = [to_lanes(value, first.order).array for value in given]
    return [first.like(lax.concatenate(arrays, first.order.index(along)))]


def _pad(equation: Any, given: list[Any]) -> list[Any] | None:
    x, value = given
    config = [equation.params["padding_config"][axis] for axis in x.order]
    if tuple(config[-1]) != (0, 0, 0):
        return None
    return [x.like(lax.pad(x.array, plain(value), config))]


def _transpose(equation: Any, given: list[Any]) -> list[Any] | None:
    [x], permutation = given, list(equation.params["permutation"])
    return [Lanes(x.array, tuple(permutation.index(axis) for axis in x.order))]


def _slice(equation: Any, given: list[Any]) -> list[Any] | None:
    [x], params = given, equation.params
    starts, limits = params["start_indices"], params["limit_indices"]
    strides = params["strides"] or (1,) * len(starts)
    last = x.order[-1]
    if (starts[last], limits[last], strides[last]) != (0, x.shape[last], 1):
        return None
    limits = [limits[axis] for axis in x.order[:-1]] + [x.array.shape[-1]]
    return [x.like(lax.slice(x.array, [starts[a] for a in x.order], limits, [strides[a] for a in x.order]))]


CARRIED: dict[str, Callable[[Any, list[Any]], list[Any] | None]] = {
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min"), _reduce),
    **dict.fromkeys(("reduce_window_max", "reduce_window_sum", "reduce_window_min"), _windows),
    "broadcast_in_dim": _repeat,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "concatenate": _concatenate,
    "pad": _pad,
    "transpose": _transpose,
    "slice": _slice,
}
