"""Where real weights and images lie, when they do."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data; tests that need it skip without it."""
    folder = Path(os.environ.get("HARNESS_TEST_DATA", SHARED))
    if not folder.is_dir():
        pytest.skip(f"real data is not at {folder}; set HARNESS_TEST_DATA")
    return folder
