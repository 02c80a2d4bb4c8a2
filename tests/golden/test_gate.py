"""The gate itself: it is complete, and it closes."""

from dataclasses import replace

from golden.cases import CASES, LAYOUTS, WORK, train
from golden.gate import NEAR, VALUES, stored
from golden.record import differences, record

import fedloom as fl


def test_every_case_has_golden_values_in_every_layout() -> None:
    golden = stored(VALUES)["cases"]
    assert [*golden] == [*CASES]
    assert all([*layouts] == [*LAYOUTS] for layouts in golden.values())


def test_the_accelerators_step_rounds_otherwise() -> None:
    golden = stored(VALUES)["cases"]["fedavg"]
    one, other = (golden[layout]["experiments"][0] for layout in ("three lanes", "accelerator's step"))
    assert differences(other, one)
    assert not differences(other, one, NEAR)


def test_another_learning_rate_is_seen_in_bits_and_in_numbers() -> None:
    def trained(lr: float) -> dict[str, object]:
        [run] = train(replace(CASES["fedavg"], method=fl.fedavg(**{**WORK, "lr": lr})), LAYOUTS["one lane"])
        return record(run)

    usual, near, far = trained(0.2), trained(0.2000001), trained(0.2001)
    assert [sentence.split(":")[0] for sentence in differences(near, usual)] == ["history", "variables"]
    assert differences(near, usual, NEAR) == []
    assert [sentence.split(":")[0] for sentence in differences(far, usual, NEAR)] == ["history", "variables"]


def test_a_missing_part_and_a_missing_column_are_seen() -> None:
    own = {"arrays": [["float32 (2,)", 1.0]], "sha256": "ab"}
    golden = {"history": {"steps": [1.0], "test_loss": [float("nan")]}, "own models": own}
    assert differences(golden, golden) == []
    assert differences({"history": {"steps": [1.0]}}, golden, NEAR) == [
        "history: test_loss[0] is None, golden nan",
        "own models: arrays[0][0] is None, golden float32 (2,), and 1 more",
    ]
