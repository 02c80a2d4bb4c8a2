"""What the adapters share."""

import importlib
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import fedloom as fl
from fedloom.errors import ArgumentError, FedloomError, MissingExtra
from fedloom.tasks import Variables
from fedloom.tasks.user_model import as_before, library, restored, trained, whole_as_float

WANTED = {"params.w": (2,), "state.n": ()}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (Variables({"w": np.ones(3)}, {"n": 1}), r"with params.w of shape \(2,\), but is of shape \(3,\)"),
        (Variables({"w": np.ones(2)}, {}), r"with state.n of shape \(\), but is without"),
        (Variables({"w": np.ones(2), "v": 1}, {"n": 1}), "those of this model, but is with params.v"),
    ],
)
def test_variables_of_another_model(variables: Variables, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        trained(variables, WANTED)


def test_names_are_the_same_flat_and_nested() -> None:
    flat, nested = Variables({"a.w": np.ones(2)}, {}), Variables({"a": {"w": np.ones(2)}}, {})
    assert trained(flat, {"params.a.w": (2,)}).keys() == trained(nested, {"params.a.w": (2,)}).keys()


def test_loaded_dictionaries_become_the_tree_that_was_begun() -> None:
    begin = lambda key: Variables([jnp.zeros(2), (jnp.zeros(()),)], {})  # noqa: ARG005, E731
    loaded = Variables({"1": {"0": np.float32(7)}, "0": np.array([1, 2], np.float32)}, {})
    first, (second,) = restored(loaded, begin).params
    assert (first.tolist(), float(second)) == ([1, 2], 7)


def test_whole_numbers_are_averaged_and_rounded() -> None:
    before = {"n": np.array(3, np.int32), "first": np.array(True), "w": np.array(0.25, np.float32)}
    floats = whole_as_float(before)
    assert {a.dtype for a in floats.values()} == {np.dtype(np.float32)}
    mean = {name: v + np.float32(0.25) for name, v in floats.items()}
    after = as_before(mean, {name: v.dtype for name, v in before.items()})
    assert (int(after["n"]), bool(after["first"]), float(after["w"])) == (3, True, 0.5)
    assert after["n"].dtype == np.int32


@pytest.mark.parametrize(
    ("make", "library", "extra"),
    [
        (fl.tasks.from_keras, "keras", "keras"),
        (fl.tasks.from_torch, "torch", "torch"),
        (fl.tasks.from_flax, "flax", "flax"),
        (fl.tasks.from_equinox, "equinox", "equinox"),
    ],
)
def test_a_missing_library_says_how_to_get_it(
    make: object, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtra, match=rf"this needs {library}: pip install 'fedloom\[{extra}\]'"):
        make(object())  # type: ignore[operator]


def test_a_library_that_is_installed_but_broken_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("from json import no_such_name")
    (tmp_path / "lacking.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("broken", "lacking"):
        with pytest.raises(FedloomError, match=f"{name} is installed, but cannot be imported .*no_such") as raised:
            library(name, "torch")
        assert not isinstance(raised.value, MissingExtra)
