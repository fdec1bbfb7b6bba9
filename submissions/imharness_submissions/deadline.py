"""One deadline for a package's answers and for what the harness computes from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

from imharness_submissions.sandbox.host import LATE, Guest, OutOfTime


class Deadline(TorchFunctionMode):
    """Within it neither a guest nor this thread works longer than `seconds`.

    Raises `OutOfTime`: a metric may take long for what a defense made of an image, and no request to the guest
    comes in between.
    """

    def __init__(self, guest: Guest, seconds: float) -> None:
        super().__init__()
        self._guest, self._seconds = guest, seconds

    def __enter__(self) -> Any:
        self._guest.until = time.monotonic() + self._seconds
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        self._guest.until = float("inf")
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        if time.monotonic() > self._guest.until:
            raise OutOfTime(LATE)
        return function(*arguments, **(named or {}))
