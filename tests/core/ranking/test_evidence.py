"""Evidence that people hand in changes the worst of one entry on the units of the evidence, and nothing else."""

import numpy as np
import pytest

from imharness.leaderboard import EVIDENCE_ATTACK, Column, Contest, Evidence, Value, Wins, Words, contest, with_evidence
from imharness.results.blocks import Blocks

WORDS = Words("holds best", lambda x: f"{x:.1f}", "of D", "takes more than {bound} off the {plain} {of} {without}")

UNITS = np.array([f"u{k:02d}" for k in range(12)], dtype=object)
PLAIN, FIRST, SECOND = ENTRIES = ("harness/a", "harness/b", "harness/c")
GROUP = {"dataset": "d"}


def settings(*levels: tuple[float, float, float]) -> Contest:
    """Return a contest of 3 entries; the k-th attack, fixed or adaptive, moves all units of entry i by levels[k][i].

    The worst has a negative sign, so that larger is better.
    """
    conditions = tuple(
        {"dataset": "d", "attack": f"attack-{k}", "attacker": kind}
        for k, _ in enumerate(levels)
        for kind in ("fixed", "adaptive")
    )
    values = tuple(np.tile(np.array(level)[:, None], (1, len(UNITS))) for level in levels for _ in range(2))
    blocks = Blocks(ENTRIES, conditions, (UNITS,) * len(conditions), {"moved": values, "other": values})
    return Contest(
        scores=blocks,
        protection=Column("moved", "moved", "How far.", "lower", wins=Wins(id="w", title="w", about="less")),
        utility=Column("u", "u", "Kept.", "higher", value=lambda label: Value(value=1.0)),
        undefended=PLAIN,
        words=WORDS,
        gates=(),
        controls={PLAIN: "no defense"},
    )


def handed(values: dict[str, float], *, entry: str = SECOND, sure: float | None = None, group=GROUP) -> Evidence:
    """Return evidence against an entry, unit -> change; `sure` is the change beyond noise, where it is smaller."""
    units = np.array(sorted(values), dtype=object)
    numbers = np.array([values[unit] for unit in units])
    least = numbers if sure is None else np.full(len(numbers), sure)
    return Evidence(group, entry, units, {"moved": numbers}, least)


def test_the_worst_of_the_entry_rises_where_it_was_broken_and_nothing_else_changes() -> None:
    rules = settings((50.0, 30.0, 10.0), (40.0, 20.0, 12.0))
    broken = with_evidence(rules, [handed({"u00": 90.0, "u01": 60.0, "u02": 5.0})])
    assert broken.worst[2].tolist() == [-90.0, -60.0, *[-12.0] * 10]
    assert np.array_equal(broken.worst[:2], rules.worst[:2])
    assert [broken.coverage(i) for i in range(3)] == [1.0, 1.0, 1.0]
    assert broken.broken_by(2) == pytest.approx({"attack-1": 10 / 12, EVIDENCE_ATTACK: 2 / 12})
    assert EVIDENCE_ATTACK not in broken.broken_by(1), "ties belong to the leaderboard's own attacks"
    for aware in (False, True):
        assert np.array_equal(broken.against[aware], rules.against[aware]), "means over attacks that were run both ways"
    (ranking,) = contest(broken, id="t", title="t", caption="c", entry="defense").rankings
    assert all(position.complete for position in ranking.places.values())


def test_noise_other_units_other_groups_and_other_entries_change_nothing() -> None:
    rules = settings((50.0, 30.0, 10.0))
    for item in (
        handed({"u00": 90.0}, sure=9.0),
        handed({"v00": 90.0}),
        handed({"u00": 90.0}, group={"dataset": "e"}),
        handed({"u00": 90.0}, entry="harness/z"),
        handed({"u00": float("nan")}),
    ):
        assert np.array_equal(with_evidence(rules, [item]).worst, rules.worst)
    assert with_evidence(rules, []) is rules


def test_an_attack_that_few_entries_met_does_not_enter_by_evidence() -> None:
    rules = settings((50.0, 30.0, 10.0))
    rare = np.full((3, len(UNITS)), np.nan)
    rare[2] = 99.0
    blocks = rules.scores
    further = Blocks(
        blocks.entries,
        (*blocks.conditions, {"dataset": "d", "attack": "rare", "attacker": "fixed"}),
        (*blocks.units, UNITS),
        {name: (*block, rare) for name, block in blocks.values.items()},
    )
    ranked_again = with_evidence(
        Contest(**{**{n: getattr(rules, n) for n in rules.__dataclass_fields__}, "scores": further}),
        [handed({"u00": 40.0})],
    )
    assert ranked_again.worst[2].tolist() == [-40.0, *[-10.0] * 11]
