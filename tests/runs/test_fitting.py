from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import held_out, points, quadratic

from fedloom.engines import compiled
from fedloom.errors import ArgumentError
from fedloom.local import Local, ditto, private, sgd
from fedloom.runs import fine_tune
from fedloom.tasks import Variables

VALUES = [4.0, -1.0, 2.0]
LOCAL = sgd(lr=0.1, epochs=3, batch_size=None)


@pytest.mark.parametrize("layout", [{}, {"lanes": 2, "devices": 1}])
def test_every_user_goes_on_from_the_model(layout: dict[str, Any]) -> None:
    model = Variables({"body": {"w": jnp.float32(1.0)}, "output": {"w": jnp.float32(0.5)}}, {})
    users = fine_tune(points(VALUES), quadratic(), model, LOCAL, engine=compiled(**layout))
    away = 1.5 - np.array(VALUES)
    assert users.last("client").tolist() == [0, 1, 2]
    np.testing.assert_allclose(users.last("before_loss"), 0.5 * away**2, rtol=1e-5)
    np.testing.assert_allclose(users.last("after_loss"), 0.5 * (away * 0.8**3) ** 2, rtol=1e-4)


@pytest.mark.parametrize("work", [private("output", LOCAL), ditto(0.0, LOCAL)])
def test_what_users_keep_begins_with_the_model_too(work: Local) -> None:
    model = Variables({"body": {"w": jnp.float32(1.0)}, "output": {"w": jnp.float32(0.5)}}, {})
    users = fine_tune(points(VALUES), quadratic(), model, work)
    np.testing.assert_allclose(users.last("before_loss"), 0.5 * (1.5 - np.array(VALUES)) ** 2, rtol=1e-5)


def test_the_names_of_the_measures_say_whose_test_data_it_is() -> None:
    model = Variables({"body": {"w": jnp.float32(1.0)}, "output": {"w": jnp.float32(0.5)}}, {})
    users = fine_tune(points(VALUES), quadratic(), model, LOCAL)
    assert sorted(users.measures) == [f"{moment}_{metric}" for moment in ("after", "before", "global")
                                      for metric in ("accuracy", "loss")]  # fmt: skip
    users = fine_tune(held_out(VALUES, [2.5]), quadratic(), model, LOCAL)
    assert sorted(users.measures) == [
        "global_accuracy", "global_before_accuracy", "global_before_loss", "global_loss"]  # fmt: skip
    np.testing.assert_allclose(users.last("global_before_loss"), np.full(3, 0.5), rtol=1e-5)


def test_a_model_for_each_is_refused() -> None:
    models = Variables({"body": {"w": jnp.ones(3)}, "output": {"w": jnp.ones(3)}}, {})
    with pytest.raises(ArgumentError, match="variables must be one model of quadratic, not one for each user"):
        fine_tune(points(VALUES), quadratic(), models, LOCAL)


def test_data_without_a_test_part_is_refused(generated: Any) -> None:
    data = generated([10, 10], test=1)
    data.central.clear()
    with pytest.raises(ArgumentError, match="data must be some with a test part"):
        fine_tune(data, quadratic(), quadratic().init(None), sgd())
