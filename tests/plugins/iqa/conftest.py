"""Fixtures for tables of the IQA track: a store that a test fills by hand, and the study that is read from it."""

from functools import partial

import pytest
from tests.iqa_rows import Finished, written


@pytest.fixture
def finished(tmp_path) -> Finished:
    """Return an empty store of finished tasks; see tests/iqa_rows.py."""
    return Finished(tmp_path)


@pytest.fixture
def study(finished):
    """Return a function that writes rows to `finished` and loads them as the tables do; see tests/iqa_rows.py."""
    return partial(written, finished)
