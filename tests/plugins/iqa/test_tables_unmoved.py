"""A defense is flagged as looking images up if no attack moves any version of three photographs or more.

It is not flagged if it takes the same changes back on other images, too, as a codec does.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from tests.iqa_rows import Finished, rows, written

from imharness_iqa.tables.data import BASELINE
from imharness_iqa.tables.unmoved import looked_up

PHOTOGRAPHS, VERSIONS = 6, 2
ATTACKS = ("a", "b")
Says = Callable[[int, int, str], tuple[bool, float]]
"""Photograph, version and attack -> whether the score moves, and the share of a change elsewhere that gets through."""


def told(folder: Path, says: Says, *, column: bool = True) -> str:
    """Return what is said of the one defense of a study; without a defense every attack moves every image."""
    columns: dict[str, list] = {}
    for attack in ATTACKS:
        for label in (BASELINE, "x/one"):
            images = [(p, v) for p in range(PHOTOGRAPHS) for v in range(VERSIONS)]
            facts = [(True, 1.0) if label == BASELINE else says(p, v, attack) for p, v in images]
            source = [1 + 0.3 * i for i in range(len(images))]
            more = rows(
                [s + moves for s, (moves, _) in zip(source, facts, strict=True)],
                source,
                name=[f"p{p}-{v}" for p, v in images],
                photograph=[f"p{p}" for p, _ in images],
                defense=[label] * len(images),
                method=[attack] * len(images),
                elsewhere=[share for _, share in facts],
            )
            columns = {name: [*columns.get(name, []), *values] for name, values in more.items()}
    if not column:
        del columns["elsewhere"]
    return "; ".join(looked_up(written(Finished(Path(mkdtemp(dir=folder))), columns)).get("x/one", ()))


def test_photographs_of_which_no_version_moves_are_counted(tmp_path: Path) -> None:
    assert "no version of 3 of 6 photographs" in told(tmp_path, lambda p, v, attack: (p >= 3, np.nan))
    assert told(tmp_path, lambda p, v, attack: (p >= 2, np.nan)) == ""


def test_one_version_that_moves_under_one_attack_is_enough(tmp_path: Path) -> None:
    """Each photograph may have one version that no attack moves, such as one that was stored as JPEG."""
    assert told(tmp_path, lambda p, v, attack: (v == 1, np.nan)) == ""
    assert told(tmp_path, lambda p, v, attack: (attack == "b", np.nan)) == ""
    some = told(tmp_path, lambda p, v, attack: (p >= 4 and v == 1 and attack == "b", np.nan))
    assert "no version of 4 of 6 photographs" in some


def test_who_takes_changes_back_elsewhere_is_a_codec(tmp_path: Path) -> None:
    assert told(tmp_path, lambda p, v, attack: (False, 0.0)) == ""
    assert told(tmp_path, lambda p, v, attack: (False, 0.02)) == ""


@pytest.mark.parametrize("share", [0.03, 1.0, np.inf, np.nan])
def test_who_lets_one_of_them_through_elsewhere_has_looked_the_image_up(tmp_path: Path, share: float) -> None:
    """A look-up may fall back on a codec, which takes back the changes of weak attacks."""
    message = told(tmp_path, lambda p, v, attack: (False, share if v == 1 and attack == "b" else 0.0))
    assert "no version of 6 of 6 photographs" in message


def test_what_lets_changes_through_elsewhere_says_nothing_of_photographs_that_move(tmp_path: Path) -> None:
    assert told(tmp_path, lambda p, v, attack: (v == 1, 1.0)) == ""


def test_rows_that_do_not_say_what_happens_elsewhere_are_read(tmp_path: Path) -> None:
    assert "no version of 6 of 6 photographs" in told(tmp_path, lambda p, v, attack: (False, 0.0), column=False)
