from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from quadratic import points, quadratic

from fedloom.engines import compiled
from fedloom.errors import ArgumentError
from fedloom.local import sgd
from fedloom.runs import fine_tune
from fedloom.tasks import Variables

VALUES = [4.0, -1.0, 2.0]


@pytest.mark.parametrize("layout", [{}, {"lanes": 2, "devices": 1}])
def test_every_user_goes_on_from_the_model(layout: dict[str, Any]) -> None:
    model = Variables({"body": {"w": jnp.float32(1.0)}, "output": {"w": jnp.float32(0.5)}}, {})
    local = sgd(lr=0.1, epochs=3, batch_size=None)
    users = fine_tune(points(VALUES), quadratic(), model, local, engine=compiled(**layout))
    away = 1.5 - np.array(VALUES)
    assert users.last("client").tolist() == [0, 1, 2]
    np.testing.assert_allclose(users.last("before_loss"), 0.5 * away**2, rtol=1e-5)
    np.testing.assert_allclose(users.last("after_loss"), 0.5 * (away * 0.8**3) ** 2, rtol=1e-4)


def test_data_without_a_test_part_is_refused(generated: Any) -> None:
    data = generated([10, 10], test=1)
    data.central.clear()
    with pytest.raises(ArgumentError, match="data must be some with a test part"):
        fine_tune(data, quadratic(), quadratic().init(None), sgd())
