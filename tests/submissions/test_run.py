"""From a manifest to the site: a run, its report, the ledger, and the same again."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.submissions.conftest import MakeSubmission

from imharness.cli.commands import build_site
from imharness.errors import StoreError
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness_submissions.commands.submissions import decide
from imharness_submissions.commands.submissions import report as show_report
from imharness_submissions.ledger import Ledger
from imharness_submissions.report import SubmissionReport, markdown
from imharness_submissions.reproducing import reproduce
from imharness_submissions.running import Run, run_submission


def silent(title: str):
    return lambda done, total: None


def entry(id: str, kind: str = "defense") -> str:
    return f'[[entries]]\nkind = "{kind}"\nid = "{id}"\n'


def run(folder: Path, root: Path, profile: Path) -> SubmissionReport:
    return run_submission(Run(folder, Store(root), load_profile(str(profile)), limit=12), silent)


def test_an_honest_defense_is_measured_ranked_and_reproduced(
    submission: MakeSubmission, tmp_path: Path, profile: Path
) -> None:
    claims = (
        '[[claims]]\ntrack = "harness/iqa"\ntable = "{table}"\nrow = "good/median"\ncolumn = "{column}"\n'
        "value = {value}\ntolerance = 0.001\n"
    )
    root = tmp_path / "store"
    report = run(submission("honest/median", entry("good/median")), root, profile)
    assert report.flags() == (), report.flags()
    assert report.isolation.startswith("bubblewrap")
    assert report.cells
    assert not report.failed
    (audit,) = report.gradient_audits
    assert {"its own gradient", "identity backward (BPDA)", "queries alone", "transferred images"} == {
        gain.way for gain in audit.gains
    }
    board = Store(root).board("harness/iqa")
    assert board is not None
    own = next(e for e in board.entries if e.id == "good/median")
    assert (own.summary, own.author, own.isolation) == (
        "Takes the median of each pixel's neighbourhood.", "A stranger", report.isolation,
    )  # fmt: skip
    assert [s.decision for s in own.standing] == ["added"]
    build_site(root, tmp_path / "site")
    (page,) = (tmp_path / "site" / "entries").glob("*median*")
    assert "Every decision about this entry" in page.read_text()
    assert '<span class="standing submitted">submitted</span>' in (tmp_path / "site" / "iqa.html").read_text()
    table = board.tables[0]
    row = next(r for r in table.rows if r.label == "good/median")
    column = next(c.key for c in table.columns if row.values[c.key].value is not None)
    records = [Store(root).record(cell.key) for cell in report.cells]
    assert {r.isolation for r in records if r is not None} == {report.isolation}
    refs = [ref for r in records if r is not None for ref in r.spec.components.values() if ref.id == "good/median"]
    assert {ref.content for ref in refs} == {report.environment}, "another package would be computed again"

    text = claims.format(table=table.id, column=column, value=row.values[column].value)
    wrong = claims.format(table=table.id, column=column, value=(row.values[column].value or 0) + 1)
    again = tmp_path / "submissions" / "median" / "submission.toml"
    again.write_text(again.read_text() + text + wrong)
    second = run(again.parent, root, profile)
    assert [c.holds for c in second.claims] == [True, False]
    assert any("claimed" in flag for flag in second.flags())
    assert [line.decision for line in Ledger(root).lines()] == ["added", "re-scored", "flagged"]

    found = reproduce(
        "median", Store(root), sample=3, tolerance=1e-4, seed=0, device="cpu", trusted=False,
        advance=lambda done, total: None,
    )  # fmt: skip
    assert len(found) == 3
    assert all(one.holds for one in found)
    board = Store(root).board("harness/iqa")
    assert board is not None
    own = next(e for e in board.entries if e.id == "good/median")
    assert own.standing[-1].decision == "reproduced"

    assert "claimed" in markdown(second)
    assert second.seal[:16] in markdown(second)
    path = root / "submissions" / "median.json"
    shown = CliRunner().invoke(show_report, ["median", "--store", str(root), "--json"])
    assert shown.exit_code == 0, shown.output
    path.write_text(path.read_text().replace('"seconds": ', '"seconds": 1'))
    shown = CliRunner().invoke(show_report, ["median", "--store", str(root)])
    assert "its seal does not match" in str(shown.exception)

    withdraw = ["median", "withdrawn", "--reason", "a test", "--store", str(root), "--site", str(tmp_path / "site")]
    done = CliRunner().invoke(decide, withdraw)
    assert done.exit_code == 0, done.output
    board = Store(root).board("harness/iqa")
    assert board is not None
    assert all(row.label != "good/median" for table in board.tables for row in table.rows)
    assert ("good/median", "withdrawn: a test") in {(gap.what, gap.reason) for gap in board.missing}
    assert Ledger(root).active() == []


def test_gradients_that_lie_are_flagged(submission: MakeSubmission, tmp_path: Path, profile: Path) -> None:
    report = run(submission("hostile/wrong_gradient", entry("evil/wrong-gradient")), tmp_path / "store", profile)
    flags = " ".join(report.flags())
    assert "misleading gradients" in flags
    assert "not the function's own misleads attacks" in flags, "finite differences say so, too"
    (audit,) = report.gradient_audits
    own = max(g.gain for g in audit.gains if g.way == "its own gradient")
    assert audit.worst.gain > own + 0.05


def test_what_a_package_tried_stands_in_the_report(submission: MakeSubmission, tmp_path: Path, profile: Path) -> None:
    root = tmp_path / "store"
    report = run(submission("hostile/writes_outside", entry("evil/writes-outside")), root, profile)
    assert any("tried to write /usr/evil" in line for line in report.attempts)
    records = [Store(root).record(cell.key) for cell in report.cells]
    assert any("tried to write /usr/evil" in note for record in records if record is not None for note in record.notes)
    assert Ledger(root).lines()[-1].decision == "flagged"


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


def test_text_of_a_stranger_cannot_leave_its_place() -> None:
    from imharness_submissions.report import plain

    shown = plain("<script>`|[x](javascript:1)\n@everyone")
    assert not {"<", "`", "\n"} & set(shown)
    assert "\\|" in shown
    assert "@everyone" not in shown
