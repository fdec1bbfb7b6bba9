"""Types of parameters that several methods share."""

from typing import Annotated

from pydantic import AfterValidator


def _odd(size: int) -> int:
    if size % 2 == 0:
        raise ValueError(f"must be odd, got {size}")
    return size


OddSize = Annotated[int, AfterValidator(_odd)]
