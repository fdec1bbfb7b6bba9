"""Whose code an error came from."""

from __future__ import annotations

from collections.abc import Container


def deepest_module(error: BaseException, modules: Container[str]) -> str:
    """Return which of some modules stands deepest in the traceback of an error; an empty text where none does."""
    found, trace = "", error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        found = name if name in modules else found
        trace = trace.tb_next
    return found
