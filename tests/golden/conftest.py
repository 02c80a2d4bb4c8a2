from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def release_programs() -> Iterator[None]:
    """Release the compiled programs of a file, about 2 GB, after its tests."""
    yield
    jax.clear_caches()
