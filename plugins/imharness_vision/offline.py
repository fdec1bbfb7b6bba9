"""Makes networks of pyiqa without a download, and with weights opened as weights only."""

import importlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from imharness.errors import Unavailable

WEIGHTS_ONLY = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
"""The setting with which torch runs no code in a file of weights."""
_alone = threading.RLock()
"""Held by the one thread that is in the block, because it patches what all threads share."""


@contextmanager
def offline(remedy: str) -> Iterator[None]:
    """Raise `Unavailable` where this thread looks up a host within the block; other threads go on as they do.

    The Hugging Face Hub is not asked whether it has a newer file than the one that is here.
    """
    gap = Unavailable("weights of pyiqa are not on this machine", remedy)
    try:
        hub: Any = importlib.import_module("huggingface_hub.constants")
    except ImportError:
        hub = None
    here_only = patch.object(hub, "HF_HUB_OFFLINE", True) if hub else nullcontext()
    with _alone:
        thread, look_up = threading.get_ident(), socket.getaddrinfo

        def refused(*arguments: Any, **further: Any) -> Any:
            if threading.get_ident() == thread:
                raise gap
            return look_up(*arguments, **further)

        try:
            with patch.dict(os.environ, WEIGHTS_ONLY), patch.object(socket, "getaddrinfo", refused), here_only:
                yield
        except Exception as error:
            if _is_of_hub(error):
                raise gap from error
            raise


def _is_of_hub(error: BaseException | None) -> bool:
    """Return whether an error comes from a file of the Hugging Face Hub that is not here."""
    while error is not None:
        if type(error).__name__ in ("LocalEntryNotFoundError", "OfflineModeIsEnabled"):
            return True
        error = error.__cause__ or error.__context__
    return False
