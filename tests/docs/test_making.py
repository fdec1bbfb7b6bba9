"""The parts that make the generated pages, without a build."""

import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from imharness.documents.entries import Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Ranking
from imharness.documents.tables import Row, Table, Value

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put docs/ on the path, as `conf.py` does."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])


def test_links_lead_to_pages_of_the_site_or_become_paths() -> None:
    from making.pages import outward

    page = Path("docs/howto/machines.md")
    assert outward("[a](../stores.md#copies)", page) == "[a](/stores.md#copies)"
    assert outward("[a](../../CONTRIBUTING.md)", page) == "[a](/generated/contributing.md)"
    assert outward("see [the image](../../deploy/Dockerfile)", page) == "see the image (`deploy/Dockerfile`)"
    assert outward("[`deploy/Dockerfile`](../../deploy/Dockerfile)", page) == "`deploy/Dockerfile`"
    for unchanged in ("[a](https://x.org/y.md)", "[a](#below)"):
        assert outward(unchanged, page) == unchanged
    assert outward("[m](docs/map.md)", Path("CONTRIBUTING.md")) == "[m](/map.md)"


class _Inner(BaseModel):
    number: int = Field(default=3, ge=1, le=9, description="How many.")


class _Outer(BaseModel):
    """A file."""

    either: str | None = None
    parts: dict[str, tuple[_Inner, ...]]


def test_the_fields_of_a_file_are_those_of_its_model_and_of_what_it_holds() -> None:
    from making.formats import nested, table

    assert list(nested(_Outer)) == [_Outer, _Inner]
    assert "| `number` | `int` | `3` | How many. At least 1, at most 9. |" in table(_Inner)
    assert table(_Outer).splitlines()[0] == "A file."
    assert "| `either` | `str \\| None` | `None` |  |" in table(_Outer)
    assert "| `parts` | `dict[str, tuple[_Inner, ...]]` | required |  |" in table(_Outer)


def test_a_card_tells_cost_and_place_of_all_versions_of_a_component_and_of_it_alone() -> None:
    from making.cards import on_leaderboard

    entries = [
        Entry(kind="defense", id="a/x", label=label, version="1", tasks=tasks, seconds=seconds)
        for label, tasks, seconds in (("a/x", 2, 5.0), ("a/x[r=2]", 1, 4.0))
    ]
    other = Entry(kind="attack", id="a/x", label="a/x", version="1", tasks=9, seconds=99.0)
    rows = tuple(
        Row(label=label, values={"rank": Value(value=rank)}) for label, rank in (("a/y", 1.0), ("a/x[r=2]", 2.0))
    )
    ranked = Table(id="ranking", title="Who wins", caption="", entry="defense", columns=(), rows=rows)
    study = ranked.model_copy(update={"id": "study", "title": "A study"})
    leaderboard = Leaderboard.model_construct(
        title="T",
        profile="p",
        finished="2026-11-22T10:00:00+00:00",
        entries=(*entries, other),
        tables=(ranked, study),
        rankings=(Ranking.model_construct(table="ranking"),),
    )
    text = on_leaderboard(entries[0], leaderboard)
    assert text == (
        "- T, profile p, 2026-11-22: it took part in 3 tasks, which took 9 s; `a/x[r=2]` has rank 2 of 2 in *Who wins*."
    )
    assert "9 tasks, which took 99 s" in on_leaderboard(other, leaderboard)
    assert on_leaderboard(other.model_copy(update={"id": "a/z"}), leaderboard) == ""


def test_every_command_is_walked_and_none_is_hidden() -> None:
    from making.commands import every_command

    paths = [one.command_path for one in every_command()]
    assert len(paths) == len(set(paths))
    assert {"harness", "harness run", "harness plugins new", "harness submissions decide"} <= set(paths)
