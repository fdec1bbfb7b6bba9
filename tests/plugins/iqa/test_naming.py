"""Positions of names among other names, and choices of names: an equal choice is the same array."""

import numpy as np

from imharness_iqa.tables.naming import Naming, Some

NAMES = np.array(["b", "d", "e"], dtype=object)


def test_names_stand_where_they_are_among_others() -> None:
    naming = Naming()
    units = naming.joined([NAMES, np.array(["a", "d"], dtype=object)])
    assert units.tolist() == ["a", "b", "d", "e"]
    matched, at = naming.where(NAMES, units)
    assert (matched.tolist(), at.tolist()) == ([0, 1, 2], [1, 2, 3])
    assert naming.where(NAMES, naming.joined([NAMES])) is None
    matched, at = naming.where(NAMES, np.array(["c", "d"]))
    assert (matched.tolist(), at.tolist()) == ([1], [1])
    assert [len(indices) for indices in naming.where(NAMES, np.zeros(0, str))] == [0, 0]


def test_the_same_choice_is_the_same_array() -> None:
    some, mask = Some(), np.array([True, False, True])
    assert some(NAMES, np.ones(3, bool)) is NAMES
    assert some(NAMES, mask).tolist() == ["b", "e"]
    assert some(NAMES, mask.copy()) is some(NAMES, mask)
