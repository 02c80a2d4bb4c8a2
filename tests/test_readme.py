"""The README is short, its example does what it says, and its links lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest

import fedloom as fl
from fedloom.runs.model import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_it_fits_on_two_screens() -> None:
    assert len(README.splitlines()) <= 120
    speed = README.split("<!-- speed -->")[1].split("<!-- /speed -->")[0]
    assert len([line for line in speed.splitlines() if line.startswith("| ")]) <= 7  # a head, a rule and five rows


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_its_example_saves_the_model_chosen_on_validation_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of the README with two rounds instead of fifty."""
    monkeypatch.chdir(tmp_path)
    [block] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block.replace("rounds=50", "rounds=2"), "README.md", "exec"), names)
    runs, best = names["runs"], names["best"]
    assert isinstance(runs, list)
    assert isinstance(best, fl.Run)
    assert best.history.last("validation_accuracy") == max(r.history.last("validation_accuracy") for r in runs)
    saved = load(Path("model.safetensors"))
    np.testing.assert_array_equal(saved.params["output"]["w"], best.variables.params["output"]["w"])
    assert Path("accuracy.png").stat().st_size > 5000
    assert str(best.history.last("test_accuracy")) in capsys.readouterr().out
