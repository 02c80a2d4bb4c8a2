from fedloom.recipes.cell import Outcome, Trial
from fedloom.recipes.paper import effort
from fedloom.recipes.part import Found
from fedloom.recipes.series import Kept


def test_what_was_trained_in_bfloat16_is_told() -> None:
    trial = Trial(0.1, 1.0, 0, "", ((0, 0.1),))
    plain = Outcome("a", (trial, trial), {"device": "a CPU", "seconds": 60.0, "experiment": {}})
    rounded = Outcome("b", (trial,), {"device": "a GPU", "seconds": 90.0, "experiment": {"precision": "bfloat16"}})
    curve = Kept("c", {}, {"device": "a GPU", "seconds": 30.0, "experiment": {"precision": "bfloat16"}})
    assert effort(Found({"a": plain}, {})) == "2 runs in 1.0 minutes on a CPU"
    assert effort(Found({"a": plain, "b": rounded}, {"c": curve})) == (
        "4 runs in 1.0 minutes on a CPU and 2.0 minutes on a GPU; 2 of 3 recordings were trained in bfloat16, the "
        "others in float32"
    )
