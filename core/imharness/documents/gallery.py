"""Images that a leaderboard shows: originals, attacked and defended. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, Field


class Panel(BaseModel, frozen=True, extra="forbid"):
    """An image of the gallery: where the store holds it, and the text under it."""

    label: str
    task: str
    array: str
    position: int
    score: str = ""


class Example(BaseModel, frozen=True, extra="forbid"):
    """Images that belong together, such as original, attacked and defended; the others are compared with the first.

    `caption` says what the panels are, and how the images were chosen; it is the same for all examples of a kind.
    """

    entry: str
    title: str
    facets: Mapping[str, str] = Field(default_factory=dict)
    panels: tuple[Panel, ...]
    caption: str = ""
