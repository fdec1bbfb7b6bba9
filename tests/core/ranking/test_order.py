"""A table begins with the entries that can win, and ends with controls, however good their numbers are."""

from imharness.documents.rankings import Place
from imharness.documents.tables import ColumnSpec, Row, Value
from imharness.ranking.order import in_order


def position(**changes: object) -> Place:
    """Return the place of an entry that can win, with changes."""
    return Place.model_validate({"complete": True, "gate": "passes", "front": False, "broken_by": {}} | changes)


def test_those_that_may_win_stand_first_and_controls_last() -> None:
    places = {
        "control": position(control="no defense"),
        "flagged": position(flags=("a black box beat it",)),
        "too dear": position(gate="fails"),
        "second": position(gate="undecided"),
        "first": position(),
        "unknown": position(complete=False),
        "gap": position(complete=False, gate="fails"),
    }
    numbers = {"control": 1, "flagged": 2, "too dear": 3, "first": 4, "second": 5, "gap": 6}
    rows = [
        Row(label=label, values={"rank": Value(value=numbers[label]) if label in numbers else Value(missing="none")})
        for label in places
    ]
    ordered = in_order(rows, places, ColumnSpec(key="rank", label="rank", better="lower", description="Place."))
    assert [row.label for row in ordered] == ["first", "second", "flagged", "too dear", "gap", "unknown", "control"]
