"""Progress in a log: a line every LINE_EVERY_S seconds, also while nothing new is reported; no bar in a pipe."""

import io
import time

import pytest
from rich.console import Console

from imharness.cli import console


def test_a_log_says_every_now_and_then_how_far_the_work_is(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=output, width=200))
    monkeypatch.setattr(console, "LINE_EVERY_S", 0.01)
    with console.progress("reading") as advance:
        advance(1200, 5000)
        while "1,200 of 5,000" not in output.getvalue():
            time.sleep(0.01)
    assert output.getvalue().splitlines()[-1].startswith("reading: 1,200 of 5,000, ")
    with console.progress("quiet", visible=False) as advance:
        advance(1, 2)
    assert "quiet" not in output.getvalue()


def test_no_bar_is_drawn_into_a_pipe_although_colours_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks set FORCE_COLOR for the commands that they run."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(console, "err", Console(file=io.StringIO()))
    assert console.err.is_terminal
    assert console.progress_form("auto") == "plain"
