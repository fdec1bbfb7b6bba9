"""Finds whose code an error came from."""

from __future__ import annotations

from collections.abc import Container


def deepest_module(error: BaseException, modules: Container[str]) -> str:
    """Return which of `modules` is deepest in the traceback of an error, or "" if none of them is in it."""
    deepest, trace = "", error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        deepest = name if name in modules else deepest
        trace = trace.tb_next
    return deepest
