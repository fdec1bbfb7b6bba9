"""Tables and sentences for people: a terminal that is too narrow breaks lines between words."""

import io

import pytest
from rich.console import Console

from imharness.cli import console

COLUMNS = ["what", "tasks", "why", "get it with"]
ROW = [
    "defense harness/real-esrgan",
    "1,234",
    "the weights real-esrgan-x2plus are not on this machine",
    "harness assets get real-esrgan-x2plus",
]


def shown(monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    """Return a table and a sentence with the same words as a terminal of `width` columns shows them, as lines."""
    screen = io.StringIO()
    terminal = Console(file=screen, width=width, force_terminal=True, highlight=False, color_system=None)
    monkeypatch.setattr(console, "out", terminal)
    console.table("Unavailable", COLUMNS, [ROW])
    console.wrapped(" ".join(ROW))
    return screen.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 118])
def test_a_narrow_terminal_gets_whole_words_in_lines_that_fit(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for text in ROW:
        assert all(words.count(word) >= 2 for word in text.split())  # in the table and in the sentence
    assert not any(set(line) & set("│┃━") for line in lines)


def test_a_wide_terminal_gets_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("│" in line for line in shown(monkeypatch, 160))
