"""Which results enter a leaderboard, and what it says of them.

Results of older versions, changed files or withdrawn components are left out and named; unfinished runs have no winner.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import Field
from tests.core.ranking.sweeping import catalogue, sweep_of

from imharness.components.registry import Registry, installed
from imharness.contracts.component import Info
from imharness.contracts.track import Track
from imharness.documents.entries import Entry, Standing
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Place, Ranking
from imharness.documents.report import TrackReport
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.documents.withdrawals import withdraw
from imharness.errors import HarnessError
from imharness.exports import sheet_of
from imharness.exports.marks import Marks
from imharness.ranking.current import BEHIND, newest_only, one_content, standing_only
from imharness.ranking.entries import known_entries, other_code
from imharness.ranking.leaderboard import GONE, make_leaderboard
from imharness.ranking.ranking import Column, Wins, ranking
from imharness.results.blocks import Blocks
from imharness.results.identity import ComponentRef, digest
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec


def record(metric: str, defense: str, step: str = "1", started: str = "2026-01-01") -> TaskRecord:
    """Return the record of an evaluation by these versions of a metric, a defense and the step."""
    refs = {
        kind: ComponentRef(kind=kind, id=f"acme/{kind}", version=version, label=f"acme/{kind}", parameters={})
        for kind, version in (("metric", metric), ("defense", defense))
    }
    spec = TaskSpec(
        track="acme/t", step="evaluate", version=step, components=refs, options={}, limit=None, seed=0, needs={}
    )
    return TaskRecord(
        key=digest([metric, defense, step, started]),
        spec=spec,
        status="done",
        started=started,
        seconds=0.0,
        device="cpu",
        versions={},
    )


def test_records_of_one_version_all_stay() -> None:
    records = [record("1", "1"), record("1", "1", started="2026-01-02")]
    assert newest_only(records) == (records, [])


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (record("1", "1"), record("2", "1", started="2026-02-01"), "1 task of acme/metric"),
        (record("1", "1"), record("1", "2", started="2026-02-01"), "1 task of acme/defense"),
        (record("1", "1", step="1"), record("1", "1", step="2", started="2026-02-01"), "1 task of step evaluate"),
    ],
)
def test_tasks_of_an_older_version_are_left_out_and_named(old: TaskRecord, new: TaskRecord, what: str) -> None:
    retained, gaps = newest_only([old, new])
    assert retained == [new]
    (gap,) = gaps
    assert gap.what == what
    assert "older version" in gap.reason
    assert gap.remedy == "harness run --all"


def of_files(content: str, defense: str, needs: Sequence[TaskRecord] = ()) -> TaskRecord:
    """Return a record with a folder whose files have the digest `content`, or without data if it is empty."""
    plain = record("1", defense)
    images = ComponentRef(kind="dataset", id="a/f", version="1", label="a/f[path=x]", parameters={}, content=content)
    components = {**plain.spec.components, "dataset": images} if content else plain.spec.components
    spec = plain.spec.model_copy(
        update={"components": components, "needs": {str(i): n.key for i, n in enumerate(needs)}}
    )
    return plain.model_copy(update={"key": digest([content, defense, len(needs)]), "spec": spec})


def test_numbers_of_files_that_changed_share_no_table() -> None:
    """If images of a folder were replaced, numbers of the old ones must not stand beside those of the new ones."""
    latest, before, other = of_files("new", "1"), of_files("old", "1"), of_files("old", "2")
    alone = of_files("", "4")
    assert one_content([latest, alone]) == ([latest, alone], [])
    current, (gap,) = one_content([latest, before, alone, other])
    assert current == [latest, alone]
    assert (gap.what, gap.reason) == (
        "2 tasks of a/f[path=x]",
        "computed before its files changed; the latest run saw others",
    )
    assert one_content([before, latest])[0] == [before]


def of_step(step: str, version: str = "1", needs: Sequence[TaskRecord] = ()) -> TaskRecord:
    """Return a record of a version of a step, which was made from the records that it needs."""
    plain = record("1", "1", step=version)
    keys = {str(i): need.key for i, need in enumerate(needs)}
    spec = plain.spec.model_copy(update={"step": step, "needs": keys})
    return plain.model_copy(update={"key": digest(spec.identity()), "spec": spec})


def test_what_needs_a_result_that_was_computed_anew_shares_no_table_with_what_needs_the_new_one(tmp_path: Path) -> None:
    """If a step before a task changes, such as an attack, the task keeps its address, but its result is out of date."""
    store, before, now = Store(tmp_path), of_step("attack", "1"), of_step("attack", "2")
    stale, current = of_step("score", needs=[before]), of_step("grade", needs=[now])
    mean = of_step("mean", needs=[stale])
    for each in (before, now, stale, current, mean):
        store.commit(each, {"x": [1.0]}, {})
    behind = [(f"1 task of step {step}", BEHIND) for step in ("mean", "score")]
    for there in ([now], [now, before]):  # the new one has the address of the old one, or another one
        tables = make_leaderboard(store, Reporting(), sweep_of("acme/t", [stale, current, mean, *there]), catalogue())
        assert tables.tasks_done == 2
        assert [(gap.what, gap.reason) for gap in tables.missing][-2:] == behind
    whole = make_leaderboard(store, Reporting(), sweep_of("acme/t", [stale, mean, before]), catalogue())
    assert (whole.tasks_done, whole.missing) == (3, ())
    assert any(
        "step score, made from results that were computed anew" in line for line in other_code(tables, Registry([]))
    )


def test_what_was_made_from_another_result_under_the_same_key_is_left_out_and_named(tmp_path: Path) -> None:
    """A run with --fresh, or a copy, may store other images under their key; scores of the old ones are out of date."""
    store, attacked = Store(tmp_path), of_step("attack")
    read = store.commit(attacked, {"x": [1.0]}, {}).outcome
    scored = of_step("score", needs=[attacked]).model_copy(update={"read": {"0": read}})
    mean = of_step("mean", needs=[scored])
    for each in (scored, mean):
        store.commit(each, {"x": [1.0]}, {})

    def made() -> tuple[int, list[tuple[str, str]]]:
        tables = make_leaderboard(store, Reporting(), sweep_of("acme/t", [attacked, scored, mean]), catalogue())
        return tables.tasks_done, [(gap.what, gap.reason) for gap in tables.missing]

    store.commit(attacked.model_copy(update={"started": "2026-03-01"}), {"x": [1.0]}, {})
    assert made() == (3, []), "equal rows are the same result, whenever they were computed"
    store.commit(attacked, {"x": [2.0]}, {})
    assert made() == (1, [(f"1 task of step {step}", BEHIND) for step in ("mean", "score")])


def test_what_needs_a_withdrawn_result_is_left_out_with_it(tmp_path: Path) -> None:
    """Scores of attacked images need not name the attack, but are left out if the attack is withdrawn."""
    store, attacked = Store(tmp_path), of_step("attack")
    scored = of_step("score", needs=[attacked])
    nameless = scored.model_copy(update={"spec": scored.spec.model_copy(update={"components": {}})})
    for each in (attacked, nameless):
        store.commit(each, {"x": [1.0]}, {})
    withdraw(store, "acme/metric", "1", "wrong")
    tables = make_leaderboard(store, Reporting(), sweep_of("acme/t", [attacked, nameless]), known_entries(store))
    assert tables.tasks_done == 0
    assert ("1 task of step score", BEHIND) in [(gap.what, gap.reason) for gap in tables.missing]


def test_a_result_stays_where_one_that_it_needs_was_damaged_and_discarded(tmp_path: Path) -> None:
    store, attacked = Store(tmp_path), of_step("attack")
    scored = of_step("score", needs=[attacked])
    store.commit(scored, {"x": [1.0]}, {})
    tables = make_leaderboard(store, Reporting(), sweep_of("acme/t", [attacked, scored]), catalogue())
    assert (tables.tasks_done, [gap.reason for gap in tables.missing]) == (1, [GONE])


def test_results_of_several_devices_are_said(tmp_path: Path) -> None:
    """Devices draw different random numbers, so a store that two machines computed says so."""
    store, first, second = Store(tmp_path), of_step("score"), of_step("grade")
    store.commit(first.model_copy(update={"versions": {"torch": "2"}}), {"x": [1.0]}, {})
    one = make_leaderboard(store, Reporting(), sweep_of("acme/t", [first]), catalogue())
    assert one.versions == {"torch": "2"}
    store.commit(second.model_copy(update={"versions": {"torch": "2"}, "device": "NVIDIA H200"}), {"x": [1.0]}, {})
    both = make_leaderboard(store, Reporting(), sweep_of("acme/t", [first, second]), catalogue())
    assert both.versions == {"devices": "NVIDIA H200, cpu", "torch": "2"}
    (line,) = other_code(both, Registry([]))
    assert line.startswith("results were computed on NVIDIA H200, cpu, which draw other random numbers")


@pytest.mark.parametrize(
    ("gone", "what", "remaining"),
    [
        ("acme/metric version 1", "acme/metric version 1", [2]),
        ("acme/metric version 1+9f2b7c001122", "acme/metric version 1+9f2b7c001122", [0, 2]),
        ("acme/metric version 2", "acme/metric version 2", [0, 1]),
        ("acme/metric", "acme/metric", []),
        ("acme/", "acme/metric", []),
        ("acme/metric version 3", "", [0, 1, 2]),
    ],
)
def test_what_is_withdrawn_is_one_version_with_any_code_or_all(gone: str, what: str, remaining: list[int]) -> None:
    records = [record(version, "1") for version in ("1", "1+9f2b7c001122", "2")]
    standing, gaps = standing_only(records, {gone: "wrong"})
    assert standing == [records[index] for index in remaining]
    assert {(gap.what, gap.reason) for gap in gaps if "defense" not in gap.what} == (
        {(what, "withdrawn: wrong")} if what else set()
    )


@pytest.mark.parametrize("old", ["1", "1+9f2b7c001122", "0"])
def test_of_two_codes_the_installed_one_is_ranked_and_else_the_later_one(old: str) -> None:
    earlier, later = record("1", old), record("1", "1+000000000001", started="2026-02-01")
    assert newest_only([earlier, later])[0] == [later]
    restored = {("metric", "acme/metric"): "1", ("defense", "acme/defense"): old}
    assert newest_only([later, earlier], lambda code: restored.get(code, ""))[0] == [earlier]


def test_results_of_other_code_than_is_installed_are_named() -> None:
    def leaderboard(version: str) -> Leaderboard:
        entry = Entry(kind="defense", label="harness/jpeg", id="harness/jpeg", version=version, tasks=1, seconds=1.0)
        gone = Entry(kind="defense", label="acme/gone", id="acme/gone", version="1", tasks=1, seconds=1.0)
        added = Standing(date="2026-01-01", decision="added", reason="")
        submitted = gone.model_copy(update={"id": "acme/there", "label": "acme/there", "standing": (added,)})
        missing = one_content([of_files("new", "1"), of_files("old", "2")])[1]
        return Leaderboard.model_construct(entries=(entry, entry, gone, submitted), missing=tuple(missing), versions={})

    version = installed().version("defense", "harness/jpeg")
    changed, removed = other_code(leaderboard(version), installed())
    assert removed.startswith("acme/gone: its package is not installed any more; its results of version 1 stay")
    assert changed.startswith("left out: 1 task of a/f[path=x], computed before its files changed; the latest run saw")
    _, line, _ = other_code(leaderboard("0"), installed())
    assert line.startswith(f"harness/jpeg: its results are of version 0, and {version} is installed")


WINS = Place(complete=True, gate="passes", front=True, broken_by={}, headline=("acme/defense wins.", "It costs."))


class Reporting:
    """A track with one ranked table."""

    info, kind, steps = SimpleNamespace(id="acme/t"), "track", ()
    question = "Which defense is best?"
    ranks = ("defense",)
    season_datasets = {"ladder": "harness/folder-ladder"}
    outcome = "winner"

    def report(self, query: object) -> TrackReport:
        columns = (ColumnSpec(key="v", label="v", description="v", better="higher"),)
        rows = (Row(label="acme/defense", values={"v": Value(value=1.0)}),)
        table = Table(id="main", title="t", caption="c", entry="defense", columns=columns, rows=rows, ranked_by="v")
        ranked = Ranking(
            table="main",
            comparison="",
            over=(),
            attack="attack",
            attacker="attacker",
            unaware="no",
            undefended="",
            gate=None,
            share=0.05,
            places={"acme/defense": WINS},
            winner="acme/defense",
            outcome=self.outcome,
            claim="acme/defense wins.",
        )
        return TrackReport(tables=[table], rankings=[ranked])


def test_while_tasks_wait_nobody_wins(tmp_path: Path) -> None:
    store, done = Store(tmp_path), record("1", "1")
    store.commit(done, {"x": [1.0]}, {})
    partial = make_leaderboard(store, Reporting(), sweep_of("acme/t", [done], waiting=41), catalogue())
    assert (partial.tasks_done, partial.waiting) == (1, 41)
    assert partial.rankings == ()
    assert partial.tables[0].rows
    whole = make_leaderboard(store, Reporting(), sweep_of("acme/t", [done]), catalogue())
    assert whole.rankings[0].winner == "acme/defense"


@pytest.mark.parametrize(
    ("dataset", "outcome", "ending"),
    [
        ("severity-ladder", "winner", " (on public photographs)"),
        ("severity-ladder", "leader", " (on public photographs)"),
        ("severity-ladder", "bound", ""),
        ("folder-ladder:photographs-5eed", "winner", ""),
        ("local/mine", "winner", ""),
    ],
)
def test_a_first_place_on_photographs_that_entries_could_know_says_so(
    tmp_path: Path, dataset: str, outcome: str, ending: str
) -> None:
    store, done = Store(tmp_path), record("1", "1")
    if dataset == "local/mine":
        ref = ComponentRef(kind="dataset", id=dataset, version="1", label=dataset, parameters={})
    else:
        ref = installed().one("dataset", dataset).ref()
    components = {**done.spec.components, "dataset": ref}
    done = done.model_copy(update={"spec": done.spec.model_copy(update={"components": components})})
    store.commit(done, {"x": [1.0]}, {})
    track, entries = Reporting(), catalogue()
    track.outcome, entries.registry = outcome, installed()
    (ranking,) = make_leaderboard(store, track, sweep_of("acme/t", [done]), entries).rankings
    assert ranking.claim == f"acme/defense wins{ending}."
    assert ranking.places["acme/defense"].headline == (ranking.claim, "It costs.")
    track.season_datasets = {}
    (ranking,) = make_leaderboard(store, track, sweep_of("acme/t", [done]), entries).rankings
    assert ranking.claim == "acme/defense wins."


def test_training_an_attack_on_public_photographs_makes_those_of_a_season_no_public_ones(tmp_path: Path) -> None:
    fitted, measured = record("1", "1", step="2"), record("1", "1")
    named = {"dataset": "severity-ladder"}, {"dataset": "folder-ladder:photographs-5eed"}
    trained, judged = ({kind: installed().one(kind, name).ref() for kind, name in names.items()} for names in named)
    fitting = {"step": "fit", "components": {**fitted.spec.components, **trained}}
    measuring = {"components": {**measured.spec.components, **judged}, "needs": {"fitted": fitted.key}}
    fitted = fitted.model_copy(update={"spec": fitted.spec.model_copy(update=fitting)})
    measured = measured.model_copy(update={"spec": measured.spec.model_copy(update=measuring)})
    store, entries = Store(tmp_path), catalogue()
    entries.registry = installed()
    for done in (fitted, measured):
        store.commit(done, {"x": [1.0]}, {})
    (ranking,) = make_leaderboard(store, Reporting(), sweep_of("acme/t", [fitted, measured]), entries).rankings
    assert ranking.claim == "acme/defense wins."


class Compared(Reporting):
    """A track whose best number is that of an entry that cannot win; of the others, two are alike and one is worse."""

    def report(self, query: object) -> TrackReport:
        base = np.random.default_rng(0).normal(size=30)
        shifts = {"a/barred": 9.0, "a/first": 4.0, "a/alike": 3.999, "a/worse": 0.0}
        noise = 0.1 * np.random.default_rng(1).normal(size=(4, 30))
        names = np.array([f"u{i:02}" for i in range(30)], dtype=object)
        values = np.array([base + shift for shift in shifts.values()]) + noise
        scores = Blocks(tuple(shifts), ({"attack": "x"},), (names,), {"v": (values,)})
        column = Column("v", "V", "V.", "higher", wins=Wins("wins", "Who wins", "more"))
        report = ranking(scores, column, id="main", title="t", caption="c", entry="defense")
        places = {label: WINS.model_copy(update={"headline": ()}) for label in shifts}
        places["a/barred"] = places["a/barred"].model_copy(update={"gate": "fails"})
        (first,) = super().report(query).rankings
        return replace(report, rankings=[first.model_copy(update={"places": places, "winner": ""})])


def test_stars_are_for_those_that_the_best_of_who_may_win_is_not_shown_to_be_better_than(tmp_path: Path) -> None:
    store, done = Store(tmp_path), record("1", "1")
    store.commit(done, {"x": [1.0]}, {})
    leaderboard = make_leaderboard(store, Compared(), sweep_of("acme/t", [done]), catalogue())
    marks = Marks(leaderboard.tables[0], leaderboard)
    (column,) = leaderboard.tables[0].columns
    assert {row.label: marks.of(row, column) for row in leaderboard.tables[0].rows} == {
        "a/barred": "tied",
        "a/first": "best",
        "a/alike": "tied",
        "a/worse": "",
    }
    sheet = sheet_of(leaderboard.tables[0], leaderboard)
    assert "apart from controls and entries that cannot win" in " ".join(sheet.remarks)


class Optioned(Track):
    """A track whose table has the value of its option."""

    info = Info(id="acme/t", version="1")
    title = "t"
    measures = "m"
    steps = ()
    halves_from: int = Field(default=10, ge=2, description="An option of tables.")

    def plan(self, planner: object, selection: object) -> None:
        """Plan nothing."""

    def report(self, query: object) -> TrackReport:
        original = Reporting().report(query)
        row = original.tables[0].rows[0].model_copy(update={"values": {"v": Value(value=float(self.halves_from))}})
        return TrackReport(tables=[original.tables[0].model_copy(update={"rows": (row,)})])


def test_tables_made_again_have_the_options_of_the_run(tmp_path: Path) -> None:
    store, done = Store(tmp_path), record("1", "1")
    store.commit(done, {"x": [1.0]}, {})
    for options, value in (({"halves_from": 72}, 72.0), ({}, 10.0)):
        sweep = sweep_of("acme/t", [done]).model_copy(update={"set_up": {"options": options, "parameters": {}}})
        assert make_leaderboard(store, Optioned(), sweep, catalogue()).tables[0].rows[0].values["v"].value == value


def test_an_option_that_the_track_no_longer_takes_is_said_in_one_line(tmp_path: Path) -> None:
    store, done = Store(tmp_path), record("1", "1")
    store.commit(done, {"x": [1.0]}, {})
    sweep = sweep_of("acme/t", [done]).model_copy(update={"set_up": {"options": {"halves_from": 1}}})
    with pytest.raises(HarnessError, match="options of acme/t in the run: halves_from") as refused:
        make_leaderboard(store, Optioned(), sweep, catalogue())
    assert "\n" not in str(refused.value)
