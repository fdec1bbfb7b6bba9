"""A component of an outside package is shown, but changes no rank until a person accepts it; no owner judges itself.

A judge is a component, such as an attack or a metric, that decides how well a ranked entry does.
"""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from tests.core.ranking.sweeping import catalogue, sweep_of

from imharness.documents.entries import Standing
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.leaderboard import Column, Contest, Wins, Words, contest, share_of
from imharness.ranking.judges import BROUGHT, Judges, is_accepted
from imharness.ranking.leaderboard import make_leaderboard
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness.tracks import Query, TrackReport

WORDS = Words("holds best", lambda x: f"{x:.1f}", "of D", "takes more than {bound} off the {plain} {of} {without}")

UNITS = 24
ENTRIES = {"harness/none": 20.0, "harness/good": 5.0, "acme/friend": 8.0}
"""Entry -> its mean change under a usual judge, %; less is better."""
KINDS = ("attack", "metric", "evaluator", "training", "judge")
"""Kinds of judges; the last two are kinds that no track of the harness has."""
PROTECTION = Column("d", "D", "Change, %.", "lower", 2, wins=Wins("wins", "Who", "lower D"), cluster="photograph")


class Track:
    """A track that knows nothing of owners: it ranks entries by their worst change over all judges, called attacks."""

    info, steps = SimpleNamespace(id="harness/fifth"), ()
    question = ""
    season_datasets: ClassVar[Mapping[str, str]] = {}

    def __init__(self, kind: str, ranks: tuple[str, ...] = ("defense",)) -> None:
        self.kind, self.ranks = kind, ranks

    def report(self, query: Query) -> TrackReport:
        entry, judge = self.ranks[0], self.kind
        sql = f"SELECT {entry} AS entry, {judge} AS attack, 'fixed' AS attacker, name, photograph, d FROM evaluate"
        scores = query.blocks(
            sql, entry="entry", by=["attack", "attacker"], unit="name", measures=["d"], about=["photograph"]
        )
        worth = Column("u", "U", "U.", "higher", value=lambda label: Value(value=1.0))
        gates = [share_of("U", "harness/none", 0.05, lambda label: (np.ones(20), np.ones(20)))]
        controls = {"harness/none": "no defense"}
        rules = Contest(scores, PROTECTION, worth, "harness/none", WORDS, gates=gates, controls=controls)
        names = sorted({condition["attack"] for condition in scores.conditions})
        columns = tuple(ColumnSpec(key=f"c{i}", label=name, description="") for i, name in enumerate(names))
        rows = []
        for label in scores.entries:
            tasks = [scores.of("d", label, scores.where(attack=name)) for name in names]
            rows.append(
                Row(label=label, values={f"c{i}": Value(value=float(v.mean())) for i, v in enumerate(tasks) if len(v)})
            )
        study = Table(id="study", title="s", caption="", entry="defense", columns=columns, rows=tuple(rows))
        return contest(rules, id="ranking", title="r", caption="", entry="defense") + TrackReport([study])


def done(store: Store, entry: str, judge: str, kind: str, ranked: str, mean: float) -> TaskRecord:
    """Store changes of an entry of the kind `ranked` under a judge of another kind, around a mean."""
    components = {ranked: (ranked, entry), kind: (kind, judge), "dataset": ("dataset", "acme/photographs")}
    refs = {
        role: ComponentRef(kind=component_kind, id=label, version="1", label=label, parameters={})
        for role, (component_kind, label) in components.items()
    }
    spec = TaskSpec(
        track="harness/fifth", step="evaluate", version="1", components=refs, options={}, limit=None, seed=0, needs={}
    )
    record = TaskRecord(
        key=digest([entry, judge, kind]),
        spec=spec,
        status="done",
        started="2026-01-01",
        seconds=0.0,
        device="cpu",
        versions={},
    )
    # UNITS images of 8 photographs
    numbers = np.abs(np.random.default_rng(len(entry)).normal(mean, 0.3, UNITS))
    rows = {
        "name": [f"i{k:02d}" for k in range(UNITS)],
        "photograph": [f"p{k % 8}" for k in range(UNITS)],
        "d": numbers,
    }
    return store.commit(record, rows, {})


def leaderboard_of(
    root: Path, kind: str, judges: Mapping[str, Mapping[str, float]], standing=(), ranked: str = "defense"
) -> Leaderboard:
    """Return the leaderboard of all entries under judges.

    Args:
        root: the folder of the store.
        kind: the kind of the judges.
        judges: label of a judge -> entry -> mean change, where it differs from `ENTRIES`.
        standing: id -> decisions, as pairs or a mapping.
        ranked: the kind of the entries.
    """
    store = Store(root)
    records = [
        done(store, entry, judge, kind, ranked, measured.get(entry, mean))
        for judge, measured in judges.items()
        for entry, mean in ENTRIES.items()
    ]
    return make_leaderboard(
        store, Track(kind, (ranked,)), sweep_of("harness/fifth", records), catalogue(dict(standing))
    )


OWN = {"harness/own": {}, "harness/other": {}}
CHEAT = {"harness/none": 21.0, "harness/good": 60.0, "acme/friend": 0.1}
"""Mean changes under a judge that breaks all entries but its friend, which may know how to undo them."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_stranger_s_component_changes_no_number_and_no_place_and_is_shown(tmp_path: Path, kind: str) -> None:
    plain = leaderboard_of(tmp_path / "plain", kind, OWN)
    result = leaderboard_of(tmp_path / "with", kind, {**OWN, "bad/judge": CHEAT})
    assert result.rankings == plain.rankings
    assert result.rankings[0].winner == "harness/good"
    assert [table.rows for table in result.tables if table.id == "ranking"] == [plain.tables[0].rows]
    assert f"until a person accepts them: bad/judge ({kind})" in result.tables[0].note
    before, study = (next(t for t in leaderboard.tables if t.id == "study") for leaderboard in (plain, result))
    assert [column.label for column in study.columns] == ["harness/other", "harness/own", "bad/judge"]
    for old, new in zip(before.rows, study.rows, strict=True):
        assert {key: new.values[key] for key in old.values} == old.values
        assert new.values[study.columns[-1].key].value == pytest.approx(CHEAT[new.label], abs=0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_person_accepted_decides(tmp_path: Path, kind: str) -> None:
    ranking = leaderboard_of(
        tmp_path, kind, {**OWN, "bad/judge": CHEAT}, {"bad/judge": ("added", "accepted")}
    ).rankings[0]
    assert ranking.winner == "acme/friend"
    assert "bad/judge" in ranking.places["harness/good"].broken_by


def test_what_is_scored_again_flagged_or_withdrawn_has_to_be_accepted_again() -> None:
    def accepted(*decisions: str) -> bool:
        return is_accepted([Standing(date="", decision=decision, reason="") for decision in decisions])

    assert accepted("added", "accepted")
    assert accepted("added", "accepted", "reproduced")
    assert not any(
        accepted("accepted", decision) for decision in ("re-scored", "added", "flagged", "withdrawn", "not reproduced")
    )
    assert not accepted()
    assert not accepted("added", "reproduced")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranked", ["defense", "metric", "attack", "evaluator"])
def test_nobody_is_judged_by_what_its_owner_brought(tmp_path: Path, kind: str, ranked: str) -> None:
    """Not even if a person accepted the judge: its owner's entry meets fewer judges than others, and has no rank."""
    if kind == ranked:
        pytest.skip("a kind that is ranked does not judge")
    accepted = {"acme/judge": ("added", "accepted")}
    leaderboard = leaderboard_of(tmp_path, kind, {**OWN, "acme/judge": CHEAT}, accepted, ranked)
    positions, rows = leaderboard.rankings[0].places, {row.label: row.values for row in leaderboard.tables[0].rows}
    assert not positions["acme/friend"].complete
    assert "acme/judge" not in positions["acme/friend"].broken_by
    assert rows["acme/friend"]["rank"].value is None
    assert "acme/friend (acme/judge)" in leaderboard.tables[0].note
    assert "acme/judge" in positions["harness/good"].broken_by
    assert leaderboard.rankings[0].winner != "acme/friend"


def test_the_owner_of_a_track_hosts_its_contest_and_data_judges_nobody() -> None:
    track = SimpleNamespace(info=SimpleNamespace(id="acme/track"), ranks=("defense",))
    judges = Judges.of(track, {})
    assert judges.hosts == {"harness", "local", "acme"}
    assert {"dataset", "model"} == BROUGHT
