"""What tests of a federation share."""

from pathlib import Path

import pytest

from fedloom.federation.authority import init


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return init(tmp_path / "keys", "Hospitals of the north")
