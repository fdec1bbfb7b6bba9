"""Many entries of one author: near copies are named, and the entries of a manifest and of a contact are limited."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.submissions.test_reports import manifest

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Place
from imharness.errors import UsageError
from imharness_submissions.copies import near_copies
from imharness_submissions.ledger import Ledger
from imharness_submissions.manifest import MOST_ENTRIES, Submission
from imharness_submissions.owners import MOST_OF_A_CONTACT, look_alikes

UNITS = 40


@pytest.fixture(autouse=True)
def tools() -> None:
    """No sandbox is needed."""


def lines(rows: dict[str, np.ndarray], *ids: str) -> list[str]:
    """Return the warnings about entries with these ids; the first row is a control."""
    control, *_ = rows
    places = {
        label: Place(complete=True, gate="passes", front=True, broken_by={}, control="control" * (label == control))
        for label in rows
    }
    leaderboard = Leaderboard.model_construct(
        comparisons=(SimpleNamespace(id="c", entries=tuple(rows)),),
        rankings=(SimpleNamespace(comparison="c", places=places),),
    )
    return list(near_copies(leaderboard, {"c": np.stack(list(rows.values()))}, ids))


def test_numbers_that_are_equal_within_noise_are_those_of_a_copy() -> None:
    rng = np.random.default_rng(1)
    none, leader = rng.normal(20, 5, UNITS), rng.normal(10, 5, UNITS)
    gap = np.where(np.arange(UNITS) == 3, np.nan, leader)
    rows = {
        "harness/none": none,
        "good/leader": leader,
        "evil/copy[seed=1]": leader + rng.normal(0, 0.02, UNITS),
        "evil/near": leader + rng.normal(0, 0.5, UNITS),
        "evil/gap": gap,
        "evil/idle": none,
    }
    (line,) = lines(rows, *(label.partition("[")[0] for label in rows if label.startswith("evil/")))
    assert line.startswith("evil/copy[seed=1]: a near copy of good/leader, from which its numbers differ by 0.")
    assert lines({f"m + {label}": row for label, row in rows.items()}, "evil/copy")
    few = {label: row[:12] for label, row in rows.items()}
    assert lines(few, "evil/copy") == []
    flat, right = np.full(UNITS, 7.0), np.arange(UNITS) % 9 / 8
    assert lines({**rows, "good/leader": flat, "evil/flat": flat}, "evil/flat") == []
    assert lines({**rows, "good/leader": right, "evil/right": right}, "evil/right") == []


def test_neither_a_manifest_nor_a_contact_has_room_for_a_crowd(tmp_path: Path) -> None:
    facts = manifest("good").model_dump(mode="json")

    def crowd(count: int) -> dict:
        return {**facts, "entries": [{"kind": "defense", "id": f"good/m{k}"} for k in range(count)]}

    with pytest.raises(ValueError, match=f"at most {MOST_ENTRIES} items"):
        Submission.model_validate(crowd(MOST_ENTRIES + 1))
    whole, ledger = Submission.model_validate(crowd(MOST_ENTRIES)), Ledger(tmp_path)
    assert MOST_OF_A_CONTACT == 2 * MOST_ENTRIES
    for name in ("first", "second"):
        assert list(look_alikes(whole, ledger, name)) == []
        ledger.append(name, ("good/m0",), "added", "x", manifest=whole.model_dump(mode="json"))
    assert list(look_alikes(whole, ledger, "second")) == [], "it takes its own place again"
    with pytest.raises(UsageError, match="would have 17 entries, and a leaderboard takes 16 of one contact"):
        list(look_alikes(Submission.model_validate(crowd(1)), ledger, "third"))
    ledger.append("second", ("good/m0",), "withdrawn", "x")
    assert list(look_alikes(whole, ledger, "third")) == []
