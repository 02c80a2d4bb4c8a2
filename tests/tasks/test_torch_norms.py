"""PyTorch's norms: the numbers of PyTorch, and far from zero better ones."""

from typing import Any

import numpy as np
import pytest
from norm_cases import EPSILON, Case, agree, cotangent, drawn, error, is_tested, outcomes

torch = pytest.importorskip("torch")
pytest.importorskip("torchax")

from fedloom.tasks.from_torch import _inside, _world  # noqa: E402

F = torch.nn.functional


def batch(x: Any, *rest: Any, training: bool = True) -> Any:
    mean, variance, *affine = rest
    return F.batch_norm(x, mean, variance, *affine, training=training, momentum=0.2, eps=EPSILON), (mean, variance)


def instance(x: Any, *rest: Any, training: bool = True) -> Any:
    mean, variance, *affine = rest
    y = F.instance_norm(x, mean, variance, *affine, use_input_stats=training, momentum=0.2, eps=EPSILON)
    return y, (mean, variance)


def frozen(x: Any, *rest: Any) -> Any:
    return batch(x, *rest, training=False)


def frozen_instance(x: Any, *rest: Any) -> Any:
    return instance(x, *rest, training=False)


def plain_batch(x: Any) -> Any:
    return F.batch_norm(x, None, None, training=True, eps=EPSILON), ()


def plain_instance(x: Any) -> Any:
    return F.instance_norm(x, eps=EPSILON), ()


def group(x: Any, *affine: Any) -> Any:
    return F.group_norm(x, 2, *affine, eps=EPSILON), ()


def layer(x: Any, *affine: Any) -> Any:
    return F.layer_norm(x, x.shape[-2:], *affine, eps=EPSILON), ()


def arguments(rows: int) -> dict[str, tuple[Any, tuple[np.ndarray, ...]]]:
    images, channels, places = drawn(rows, 4, 5, 3), (drawn(4), drawn(4) + 1), (drawn(5, 3), drawn(3, 5).T)
    statistics = drawn(4), np.abs(drawn(4, 1)[:, 0])
    cases = {
        "batch": (batch, (images, *statistics, *channels)),
        "batch of rows": (batch, (drawn(rows + 5, 4), *statistics, *channels)),
        "frozen": (frozen, (images, *statistics, *channels)),
        "batch without parameters": (plain_batch, (images,)),
        "instance": (instance, (images, *statistics, *channels)),
        "frozen instance": (frozen_instance, (images, *statistics, *channels)),
        "instance without parameters": (plain_instance, (images,)),
        "group": (group, (images, *channels)),
        "group of rows": (group, (drawn(rows, 4), *channels)),
        "group without parameters": (group, (images,)),
        "layer": (layer, (images, *places)),
        "layer without parameters": (layer, (images,)),
    }
    return {name: case for name, case in cases.items() if is_tested(name, rows)}


def compiled(function: Any, arrays: tuple[np.ndarray, ...]) -> Case:
    """A function of PyTorch's tensors as :func:`fedloom.tasks.from_torch` evaluates it."""

    def found(*given: Any) -> Any:
        with _inside(_world(), None):
            y, statistics = function(*_world().j2t_iso(given))
        return y.jax(), tuple(s.jax() for s in statistics)

    return found, arrays


def eager(function: Any, arrays: tuple[np.ndarray, ...], dtype: Any = torch.float32) -> dict[str, Any]:
    given = [torch.tensor(a, dtype=dtype) for a in arrays]
    is_running = [function in (batch, frozen, instance, frozen_instance) and i in (1, 2) for i in range(len(given))]
    for a, running in zip(given, is_running, strict=True):
        a.requires_grad_(not running)
    y, statistics = function(*given)
    y.backward(torch.tensor(cotangent(tuple(y.shape)), dtype=dtype))
    gradients = [None if running else a.grad.numpy() for a, running in zip(given, is_running, strict=True)]
    return {"y": y.detach().numpy(), "gradients": gradients, "statistics": tuple(s.numpy() for s in statistics)}


def test_norms_are_those_of_pytorch() -> None:
    cases = {(name, rows): case for rows in (3, 1) for name, case in arguments(rows).items()}
    found = outcomes({str(name): compiled(*case) for name, case in cases.items()})
    for name, case in cases.items():
        own, mine = eager(*case), found[str(name)]
        gradients = [g for g, wanted in zip(mine["gradients"], own["gradients"], strict=True) if wanted is not None]
        own["gradients"] = [g for g in own["gradients"] if g is not None]
        agree({**mine, "gradients": gradients}, own, 2e-5)


def test_norms_far_from_zero_are_no_less_accurate_than_pytorch() -> None:
    x = drawn(6, 4, 13, 15, mean=1000.0)
    cases = {function.__name__: (function, (x,)) for function in (plain_batch, plain_instance, group, layer)}
    found = outcomes({name: compiled(*case) for name, case in cases.items()})
    for name, case in cases.items():
        exact, own, mine = eager(*case, torch.float64), eager(*case), found[name]
        assert error(mine["y"], exact["y"]) < min(1e-6, error(own["y"], exact["y"]))
        errors = [error(a["gradients"][0], exact["gradients"][0]) for a in (mine, own)]
        assert errors[0] < max(1e-6, errors[1])


def test_nan_stays_where_pytorch_has_it() -> None:
    cases = {name: case for name, case in arguments(3).items() if name in ("batch", "instance", "group", "layer")}
    for _, (x, *_) in cases.values():
        x[1, 2, 3, 1] = np.nan
    found = outcomes({name: compiled(*case) for name, case in cases.items()})
    for name, case in cases.items():
        own = eager(*case)
        np.testing.assert_array_equal(np.isnan(found[name]["y"]), np.isnan(own["y"]))
        np.testing.assert_array_equal(np.isnan(found[name]["gradients"][0]), np.isnan(own["gradients"][0]))


def test_bfloat16_gives_bfloat16() -> None:
    x = torch.tensor(drawn(3, 4, 5, 3)).bfloat16()
    with _inside(_world(), None):
        tensor = _world().to_xla(x)
        found = F.group_norm(tensor, 2), F.layer_norm(tensor, (3,)), plain_batch(tensor)[0]
    assert {t.dtype for t in found} == {torch.bfloat16}


def test_a_subclass_with_its_own_forward_keeps_it() -> None:
    class Doubling(torch.nn.GroupNorm):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return 2 * x

    case = (lambda x: (Doubling(2, 4)(x), ()), (drawn(2, 4, 3),))
    np.testing.assert_array_equal(outcomes({"": compiled(*case)})[""]["y"], 2 * case[1][0])
