"""From a manifest to the site: a run, its report and its ledger, and the same tasks computed again."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest
from click.testing import CliRunner
from tests.conftest import without_site
from tests.leaderboard.conftest import sample_leaderboard, save
from tests.submissions.conftest import PROFILE, submission_in, unexamined

from imharness.cli.commands import build_site
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard
from imharness.errors import DamagedError, StoreError, UsageError
from imharness.planning.profiles import load_profile
from imharness.ranking.entries import known_entries
from imharness.results.store import Store
from imharness.running.schedule.state import RunState
from imharness_submissions.commands.submissions import decide
from imharness_submissions.commands.submissions import ledger as show_ledger
from imharness_submissions.commands.submissions import report as show_report
from imharness_submissions.ledger import Ledger, Line
from imharness_submissions.report import SubmissionReport, markdown
from imharness_submissions.reproducing import reproduce
from imharness_submissions.run import Run
from imharness_submissions.running import run_submission
from imharness_submissions.sandbox.stored import StoredSubmission, read_submission
from imharness_submissions.standings import refresh_standing


def silent(title: str):
    return lambda done, total: None


def entry(id: str, kind: str = "defense") -> str:
    return f'[[entries]]\nkind = "{kind}"\nid = "{id}"\n'


class Seen:
    """A view that keeps each state that the last run of a submission has shown."""

    every_s = 0.0
    states: ClassVar[list[RunState]] = []

    def __init__(self) -> None:
        self.states.clear()

    def show(self, state: RunState) -> None:
        self.states.append(state)

    def close(self) -> None:
        pass


def run(folder: Path, root: Path, profile: Path, limit: int = 12) -> SubmissionReport:
    return run_submission(Run(folder, Store(root), load_profile(str(profile)), limit=limit), silent, Seen)


class Honest(NamedTuple):
    """An honest run: the folder of its submission and store, its report, and the states that it has shown."""

    folder: Path
    report: SubmissionReport
    states: Sequence[RunState]


@pytest.fixture(scope="module")
def honest(module_folder: Path) -> Honest:
    """Return the run of a defense in a store of its own."""
    folder = module_folder / "honest"
    folder.mkdir()
    (folder / "tiny.toml").write_text(PROFILE)
    report = run(submission_in(folder, "honest/median", entry("good/median")), folder / "store", folder / "tiny.toml")
    return Honest(folder, report, tuple(Seen.states))


@pytest.fixture
def store(honest: Honest, tmp_path: Path) -> Store:
    """Return a copy of the store of that run, beside copies of the submission and of its profile."""
    shutil.copytree(honest.folder, tmp_path, dirs_exist_ok=True)
    return Store(tmp_path / "store")


def leaderboard_in(store: Store) -> Leaderboard:
    stored = read_leaderboard(store, "harness/iqa")
    assert stored is not None
    return stored


def standing_in(store: Store) -> list[str]:
    """Return the decisions about the honest defense that its leaderboard shows."""
    entry_record = next(e for e in leaderboard_in(store).entries if e.id == "good/median")
    return [line.decision for line in entry_record.standing]


def test_a_defense_alone_in_a_store_is_accepted_and_the_leaderboard_says_what_it_lacks(
    store: Store, tmp_path: Path
) -> None:
    options = ["--store", str(tmp_path / "store"), "--site", str(tmp_path / "site")]
    done = CliRunner().invoke(decide, ["median", "accepted", "--reason", "read its code", *options])
    assert done.exit_code == 0, done.output
    (ranking,) = leaderboard_in(store).rankings
    assert not ranking.winner
    assert ranking.claim == "2 photographs are too few to compare any defense with no defense."
    assert (tmp_path / "site" / "iqa.html").is_file()


def test_an_honest_defense_is_audited_without_a_flag(honest: Honest) -> None:
    report = honest.report
    assert report.flags() == (), report.flags()
    assert report.isolation.startswith("bubblewrap")
    assert report.tasks
    assert not report.failed
    assert honest.states[-1].state == "finished"
    assert any(state.left_s for state in honest.states)
    (audit,) = report.gradient_audits
    assert {"its own gradient", "identity backward (BPDA)", "queries alone", "transferred images"} == {
        gain.way for gain in audit.gains
    }


def test_an_honest_defense_is_listed_with_who_measured_it_where(honest: Honest, store: Store, tmp_path: Path) -> None:
    report = honest.report
    entry_record = next(e for e in leaderboard_in(store).entries if e.id == "good/median")
    assert (entry_record.summary, entry_record.author, entry_record.isolation) == (
        "Takes the median of each pixel's neighbourhood.",
        "A stranger",
        report.isolation,
    )
    assert standing_in(store) == ["added"]
    build_site(tmp_path / "store", tmp_path / "site")
    (page,) = (tmp_path / "site" / "entries").glob("*median*")
    assert "Every decision about this entry" in page.read_text()
    assert '<span class="standing submitted">submitted</span>' in (tmp_path / "site" / "iqa.html").read_text()
    records = [store.record(task.key) for task in report.tasks]
    assert {r.isolation for r in records if r is not None} == {report.isolation}
    refs = [ref for r in records if r is not None for ref in r.spec.components.values() if ref.id == "good/median"]
    assert {ref.content for ref in refs} == {report.environment}, "another package would be computed again"


CLAIM = (
    '[[claims]]\ntrack = "harness/iqa"\ntable = "{table}"\nrow = "good/median"\ncolumn = "{column}"\n'
    "value = {value}\ntolerance = 0.001\n"
)


@pytest.mark.usefixtures("described_once")
def test_a_claim_that_does_not_hold_is_flagged(store: Store, tmp_path: Path, profile: Path) -> None:
    table = leaderboard_in(store).tables[0]
    row = next(r for r in table.rows if r.label == "good/median")
    column, value = next((key, value.value) for key, value in row.values.items() if value.value is not None)
    manifest = tmp_path / "submissions" / "median" / "submission.toml"
    claims = [CLAIM.format(table=table.id, column=column, value=claimed) for claimed in (value, value + 1)]
    manifest.write_text(manifest.read_text() + "".join(claims))
    with unexamined():
        report = run(manifest.parent, tmp_path / "store", profile)
    assert [c.holds for c in report.claims] == [True, False]
    assert any("claimed" in flag for flag in report.flags())
    assert "claimed" in markdown(report)
    assert [line.decision for line in Ledger(tmp_path / "store").lines()] == ["added", "re-scored", "flagged"]


@pytest.mark.usefixtures("described_once")
def test_a_sample_of_its_tasks_is_reproduced(store: Store) -> None:
    results = reproduce(
        "median",
        store,
        sample=3,
        tolerance=1e-4,
        seed=0,
        device="cpu",
        trusted=False,
        advance=lambda done, total: None,
    )
    assert len(results) == 3
    assert all(one.holds for one in results)
    assert standing_in(store)[-1] == "reproduced"


def test_a_report_that_was_edited_is_noticed(honest: Honest, store: Store, tmp_path: Path) -> None:
    assert honest.report.seal[:16] in markdown(honest.report)
    command = ["median", "--store", str(tmp_path / "store")]
    result = CliRunner().invoke(show_report, [*command, "--json"])
    assert result.exit_code == 0, result.output
    path = tmp_path / "store" / "submissions" / "median.json"
    original_text = path.read_text()
    path.write_text(original_text.replace('"seconds": ', '"seconds": 1'))
    damaged = CliRunner().invoke(show_report, command)
    assert "median.json is damaged; run the submission again" in str(damaged.exception)
    path.write_text(original_text)
    edited = read_submission(store, "median").model_dump_json().replace('"seconds":', '"seconds":1')
    store.replace("submissions/median.json", StoredSubmission.model_validate_json(edited))
    resealed = CliRunner().invoke(show_report, command)
    assert "its seal does not match" in str(resealed.exception)


def test_a_withdrawn_entry_leaves_the_tables_and_is_named_as_missing(store: Store, tmp_path: Path) -> None:
    root = str(tmp_path / "store")
    withdraw = ["median", "withdrawn", "--reason", "a test", "--store", root, "--site", str(tmp_path / "site")]
    with without_site():
        done = CliRunner().invoke(decide, withdraw)
    assert done.exit_code == 0, done.output
    leaderboard = leaderboard_in(store)
    assert all(row.label != "good/median" for table in leaderboard.tables for row in table.rows)
    assert ("good/median", "withdrawn: a test") in {(gap.what, gap.reason) for gap in leaderboard.missing}
    assert Ledger(root).active() == []


@pytest.fixture(scope="module")
def judged(module_folder: Path) -> tuple[SubmissionReport, Store]:
    """Return the report of a package whose gradients lie and that writes outside its folder, and the store."""
    root = module_folder / "judged"
    root.mkdir()
    (root / "tiny.toml").write_text(PROFILE)
    further = ("blind/knows_rounding", "hostile/writes_outside")
    folder = submission_in(root, "hostile/wrong_gradient", "".join(map(entry, [*LYING, WRITES])), *further)
    return run(folder, root / "store", root / "tiny.toml", limit=4), Store(root / "store")


LYING = ("evil/wrong-gradient", "evil/knows-rounding")
WRITES = "evil/writes-outside"


def test_gradients_that_lie_are_flagged(judged: tuple[SubmissionReport, Store]) -> None:
    """So is another function for images of 8 bits."""
    report, _ = judged
    wrong, other = ([flag for flag in report.flags() if flag.startswith(f"{id}:")] for id in LYING)
    assert any("misleading gradients" in flag for flag in wrong), report.flags()
    assert any("not the function's own misleads attacks" in flag for flag in wrong), "finite differences say so, too"
    audit = next(candidate for candidate in report.gradient_audits if candidate.component == LYING[0])
    assert audit.worst.gain > max(g.gain for g in audit.gains if g.way == "its own gradient") + 0.05
    assert any("images of 8 bits get another function than others" in flag for flag in other), report.flags()


def test_what_a_package_tried_stands_in_the_report(judged: tuple[SubmissionReport, Store]) -> None:
    report, store = judged
    assert any("tried to write /usr/evil" in line for line in report.attempts)
    records = [store.record(task.key) for task in report.tasks if WRITES in task.address]
    assert records
    assert any("tried to write /usr/evil" in note for record in records if record is not None for note in record.notes)
    assert Ledger(store.address).lines()[-1].decision == "flagged"


def test_an_edited_ledger_is_noticed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for decision in ("added", "flagged"):
        ledger.append("x", ("a/x",), decision, "for a test")
    file = tmp_path / "ledger.jsonl"
    lines = file.read_text().splitlines()
    for damaged in (
        lines[1:],
        [lines[0].replace('"added"', '"withdrawn"'), *lines[1:]],
        [json.dumps({**json.loads(lines[0]), "seal": "0" * 64}), *lines[1:]],
        ["{", *lines[1:]],
    ):
        file.write_text("\n".join(damaged) + "\n")
        with pytest.raises(StoreError):
            ledger.lines()


def sealed_again(file: Path, change: Callable[[list[dict[str, Any]]], None], key: str = "") -> None:
    """Change lines as somebody would who can write the file, and seal the whole chain again."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines)
    before = ""
    for index, line in enumerate(lines):
        sealed = Line.model_validate({**line, "previous": before})
        sealed = sealed.model_copy(update={"seal": sealed.expected_seal()})
        lines[index] = sealed.model_copy(update={"mark": sealed.expected_mark(key)}).model_dump(mode="json")
        before = sealed.expected_seal()
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def set_decision(lines: list[dict[str, Any]]) -> None:
    lines[1]["decision"] = "re-scored"


def without_last(lines: list[dict[str, Any]]) -> None:
    del lines[-1]


def test_a_chain_that_was_sealed_again_lacks_the_mark_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.write_text("5a" * 32)
    monkeypatch.setenv("HARNESS_LEDGER_KEY", str(key))
    for decision in ("added", "flagged", "withdrawn"):
        Ledger(tmp_path).append("x", ("a/x",), decision, "for a test")
    assert len(Ledger(tmp_path).lines()) == 3
    content = (tmp_path / "ledger.jsonl").read_text()
    for other in ("", "6b" * 32):
        sealed_again(tmp_path / "ledger.jsonl", set_decision, other)
        with pytest.raises(DamagedError, match="line 1 was not written with the key"):
            Ledger(tmp_path).lines()
        assert len(Ledger(tmp_path, key="").lines()) == 3, "the chain alone does not tell"
        (tmp_path / "ledger.jsonl").write_text(content)
    Ledger(tmp_path, key="").append("x", ("a/x",), "added", "by somebody else")
    with pytest.raises(DamagedError, match="line 4 was not written with the key"):
        Ledger(tmp_path).lines()
    key.write_text("no key")
    with pytest.raises(UsageError, match="hexadecimal digits") as caught:
        Ledger(tmp_path)
    assert "no key" not in str(caught.value)


@pytest.mark.parametrize(("change", "message"), [(without_last, "some were removed"), (set_decision, "sealed again")])
def test_published_decisions_cannot_be_taken_back(
    change: Callable[[list[dict[str, Any]]], None], message: str, tmp_path: Path
) -> None:
    """The tables and the site say how many decisions there were, and how the last was sealed."""
    ledger, store = Ledger(tmp_path), Store(tmp_path)
    for decision in ("added", "flagged"):
        ledger.append("x", ("a/x",), decision, "for a test")
    save(store, sample_leaderboard())
    refresh_standing(store, sample_leaderboard(), known_entries(store))
    build_site(tmp_path, tmp_path / "site")
    results, command = tmp_path / "site" / "data" / "results.json", ["--store", str(tmp_path), "--against"]
    ledger.append("x", ("a/x",), "reproduced", "later decisions are no harm")
    assert CliRunner().invoke(show_ledger, [*command, str(results)]).exit_code == 0
    lines = (tmp_path / "ledger.jsonl").read_text().splitlines(keepends=True)[:2]
    (tmp_path / "ledger.jsonl").write_text("".join(lines))
    sealed_again(tmp_path / "ledger.jsonl", change)
    assert Ledger(tmp_path).lines(), "the chain alone does not tell"
    by_tables = CliRunner().invoke(show_ledger, command[:2])
    assert message in str(by_tables.exception)
    save(store, sample_leaderboard())  # whoever can write the store can write its tables, too
    assert CliRunner().invoke(show_ledger, command[:2]).exit_code == 0
    by_site = CliRunner().invoke(show_ledger, [*command, str(results)])
    assert message in str(by_site.exception)
    for content in ("{}", "[]", '{"leaderboards": [{"decided": 3}]}'):
        results.write_text(content)
        assert "knows of no decisions" in str(CliRunner().invoke(show_ledger, [*command, str(results)]).exception)


def test_text_of_a_stranger_cannot_leave_its_place() -> None:
    from imharness_submissions.report import plain

    text = plain("<script>`|[x](javascript:1)\n@everyone")
    assert not {"<", "`", "\n"} & set(text)
    assert "\\|" in text
    assert "@everyone" not in text
