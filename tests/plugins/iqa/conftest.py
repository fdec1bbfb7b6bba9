"""Studies of finished tasks that are written by hand."""

from functools import partial

import pytest
from tests.iqa_rows import Finished, written


@pytest.fixture
def finished(tmp_path) -> Finished:
    return Finished(tmp_path)


@pytest.fixture
def study(finished):
    return partial(written, finished)
