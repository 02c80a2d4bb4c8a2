"""The folder with real data that is not shipped, for tests that cannot do without."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    named = os.environ.get("FEDLOOM_DATA")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no data folder: set FEDLOOM_DATA ({folder} is not there)")
    return folder
