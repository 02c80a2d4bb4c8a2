"""Keras's norms: the numbers of Keras, and far from zero better ones."""

import os
from typing import Any

import numpy as np
import pytest
from norm_cases import EPSILON, Case, agree, drawn, error, exact, is_tested, outcomes

from fedloom.tasks.keras_norms import norms
from fedloom.tasks.replacing import replaced

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
if keras.backend.backend() != "jax":
    pytest.skip("keras was imported with another backend", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras' variables
layers = keras.layers


def case(layer: Any, x: np.ndarray, training: bool = True) -> Case:
    """A layer as a function of its inputs and parameters, with the statistics that it then has."""
    layer.build(x.shape)
    rest = [np.abs(drawn(*v.shape)) for v in layer.non_trainable_variables]

    def function(x: Any, *params: Any) -> Any:
        options = {"training": training} if isinstance(layer, layers.BatchNormalization) else {}
        return layer.stateless_call(params, rest, x, **options)

    return function, (x, *(drawn(*v.shape) for v in layer.trainable_variables))


def bare(kind: Any, *arguments: Any) -> Any:
    return kind(*arguments, epsilon=EPSILON, center=False, scale=False)


class OwnMoments(layers.BatchNormalization):  # type: ignore[misc, name-defined]
    def _moments(self, inputs: Any, mask: Any) -> Any:
        mean, variance = super()._moments(inputs, mask)
        return mean + 1, variance


class OwnCall(layers.GroupNormalization):  # type: ignore[misc, name-defined]
    def call(self, inputs: Any) -> Any:
        return 2 * inputs


class Named(layers.LayerNormalization):  # type: ignore[misc, name-defined]
    """Changes nothing."""


def test_norms_are_those_of_keras() -> None:
    cases: dict[str, Case] = {}
    for rows in (3, 1):
        x = drawn(rows, 5, 3, 4)
        still = layers.BatchNormalization(epsilon=EPSILON)
        still.trainable = False
        kinds = {
            "batch": layers.BatchNormalization(epsilon=EPSILON, momentum=0.8),
            "channels first": layers.BatchNormalization(axis=1, epsilon=EPSILON),
            "batch, bare": bare(layers.BatchNormalization),
            "frozen": still,
            "own moments": OwnMoments(epsilon=EPSILON),
            "group": layers.GroupNormalization(2, epsilon=EPSILON),
            "instance": layers.GroupNormalization(-1, axis=2, epsilon=EPSILON),
            "group, bare": bare(layers.GroupNormalization, 4),
            "own call": OwnCall(2),
            "layer": Named(epsilon=EPSILON),
            "layer of two axes": layers.LayerNormalization(axis=[1, 2], epsilon=EPSILON),
            "layer, bare": bare(layers.LayerNormalization),
        }
        cases |= {f"{name}, {rows}": case(layer, x) for name, layer in kinds.items() if is_tested(name, rows)}
        cases[f"tested, {rows}"] = case(layers.BatchNormalization(epsilon=EPSILON), x, training=False)
    agree(outcomes(cases, replaced(norms())), outcomes(cases), 2e-5)


def test_norms_far_from_zero_are_accurate() -> None:
    x = drawn(6, 13, 15, 4, mean=1000.0)
    kinds = {
        bare(layers.BatchNormalization): ((0, 1, 2), 0),
        bare(layers.GroupNormalization, 2): ((1, 2), 2),
        bare(layers.LayerNormalization): ((3,), 0),
    }
    cases = {layer.name: case(layer, x) for layer in kinds}
    found = outcomes(cases, replaced(norms()))
    for layer, (axes, groups) in kinds.items():
        y, gradient = exact(x, axes, groups)
        assert error(found[layer.name]["y"], y) < 1e-6
        assert error(found[layer.name]["gradients"][0], gradient) < 1e-6


def test_a_mask_counts_as_in_keras() -> None:
    layer, x = layers.BatchNormalization(epsilon=EPSILON), drawn(2, 5, 4)
    function, arguments = case(layer, x)
    mask = np.arange(5) < np.array([[3], [5]])
    masked = lambda *a: layer.stateless_call(a[1:], [np.zeros(4), np.ones(4)], a[0], training=True, mask=mask)  # noqa: E731
    cases = {"": (masked, arguments)}
    found = outcomes(cases, replaced(norms()))
    agree(found, outcomes(cases))
    assert error(found[""]["y"], outcomes({"": (function, arguments)})[""]["y"]) > 0.01
