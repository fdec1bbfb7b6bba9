"""Decisions that flag an entry, the later decisions that remove the flag, and the flags that tables receive."""

import json

import pytest

from imharness.components.registry import Registry
from imharness.documents.entries import Standing, flags_in
from imharness.ranking.controls import FAILED_CHECKS
from imharness.ranking.entries import StoreEntries
from imharness.results.identity import ComponentRef
from imharness.results.tasks import TaskRecord, TaskSpec


def decided(*decisions: str) -> tuple[Standing, ...]:
    """Return decisions in their order; the reason of number i is "reason i"."""
    return tuple(
        Standing(date="2026-01-01", decision=decision, reason=f"reason {i}") for i, decision in enumerate(decisions)
    )


@pytest.mark.parametrize(
    ("decisions", "flags"),
    [
        ((), ()),
        (("added",), ()),
        (("added", "flagged"), ("flagged: reason 1",)),
        (("added", "flagged", "reproduced"), ("flagged: reason 1",)),
        (("added", "not reproduced"), ("not reproduced: reason 1",)),
        (("added", "not reproduced", "flagged"), ("not reproduced: reason 1", "flagged: reason 2")),
        (("added", "not reproduced", "reproduced"), ()),
        (("added", "flagged", "accepted"), ()),
        (("added", "flagged", "re-scored"), ()),
        (("added", "flagged", "re-scored", "flagged"), ("flagged: reason 3",)),
    ],
)
def test_a_flag_stays_until_something_takes_it_away(decisions: tuple[str, ...], flags: tuple[str, ...]) -> None:
    assert flags_in(decided(*decisions)) == flags


def test_tables_are_told_what_flags_a_component() -> None:
    ref = ComponentRef(kind="defense", id="a/b", version="1", label="a/b[x=1]", parameters={"x": 1})
    spec = TaskSpec(
        track="a/t", step="s", version="1", components={"defense": ref}, options={}, limit=None, seed=0, needs={}
    )
    record = TaskRecord(key="k", spec=spec, status="done", started="", seconds=0.0, device="cpu", versions={})
    entries = StoreEntries(Registry({}), standing={"a/b": decided("added", "flagged")})
    (facts,) = entries.facts([record])
    assert json.loads(str(facts[FAILED_CHECKS])) == ["flagged: reason 1"]
