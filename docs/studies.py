"""Write what a study measured: ``python docs/studies.py STORE TRACK TABLE[:COLUMN;...]... > docs/studies/NAME.json``.

TABLE without columns means all of its columns. A file ``NAME.json`` instead of a table is what an audit of the model
NAME wrote; all such files together become the table ``audit``. Further tracks of the same store follow after ``--``,
each with its tables.

`docs/generate.py` reads the output for the page of the study. Its kinds of generated parts are ``study`` (what ran),
``table`` (one table), ``orders`` (whether the entries have the same order as in the paper) and ``numbers`` (published
numbers beside ours, where the setting is the paper's).
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compared import compared

from imharness.documents.findings import LEADING, by_tier
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import read_leaderboard
from imharness.exports import chosen_tables, markdown, sheet_of
from imharness.exports.sheets import Sheet
from imharness.papers.verdicts import JUDGED
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness_leaderboard.published import published_view

MINUTE = 60


def numbers(leaderboard: Leaderboard) -> list[dict[str, Any]]:
    """Return the published numbers whose setting the leaderboard repeats, each with our number and its interval."""
    view, _ = published_view(leaderboard)
    facts = []
    for comparison in view.compared if view else ():
        for series in comparison.series:
            for cell in series.with_verdict(*JUDGED):
                if cell.ours is None:
                    continue
                low, high = cell.within or (None, None)
                facts.append(
                    {
                        "table": comparison.table.address,
                        "quantity": series.label,
                        "entry": cell.entry,
                        "published": cell.published,
                        "value": cell.ours.value,
                        "low": low,
                        "high": high,
                        "n": cell.ours.n,
                        "verdict": cell.verdict,
                    }
                )
    return facts


def audited(files: Iterable[Path]) -> list[str]:
    """Return the results of audits as lines of a table, one for each model.

    A line has the attack that is most accurate on the shadow rows, and its success on the rows of the model.
    """
    lines = [
        "| model | right, members | right, others | strongest attack | balanced accuracy | AUC | TPR at 1 % FPR |",
        "|---|---|---|---|---|---|---|",
    ]
    for file in files:
        facts = json.loads(file.read_text())
        strongest = max(facts["findings"], key=lambda finding: finding["on_shadow"])
        success = [_with_interval(strongest[name]) for name in ("accuracy", "auc", "tpr_at_1")]
        model_accuracy = [f"{facts[name]:.3f}" for name in ("train_accuracy", "test_accuracy")]
        cells = [file.stem, *model_accuracy, f"`{strongest['evaluator']}`", *success]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _with_interval(estimate: Mapping[str, float]) -> str:
    return f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


def study(address: str, track: str, *tables: str) -> dict[str, Any]:
    """Return track -> what ran, its tables as lines of Markdown by id, and how its numbers compare with the paper.

    `tables` are arguments of the command line: ``TABLE[:COLUMN;...]``, or the file of an audit.
    """
    store = Store(address)
    leaderboard = read_leaderboard(store, f"harness/{track}")
    if leaderboard is None:
        raise SystemExit(f"{address} has no tables of {track}")
    audits = [table for table in tables if table.endswith(".json")]
    sections = {"audit": audited(map(Path, audits))} if audits else {}
    tables = tuple(table for table in tables if table not in audits)
    for name, _, columns in (spec.partition(":") for spec in tables):
        [(_, table)] = chosen_tables([leaderboard], [name])
        sheet = sheet_of(table, leaderboard, columns=columns.split(";") if columns else [], caption=f"{table.title}.")
        sections[name] = markdown(shortened(sheet)).splitlines()
    records = [record for _, record in store.records() if isinstance(record, TaskRecord)]
    seconds = sum(record.seconds for record in records if record.spec.track == leaderboard.track)
    ran = leaderboard.model_dump(include={"tasks_done", "tasks_failed", "tasks_missing", "waiting"})
    return {
        track: {
            **(compared(leaderboard) or {}),
            **ran,
            "minutes": round(seconds / MINUTE, 1),
            "tables": sections,
            "numbers": numbers(leaderboard),
        }
    }


def shortened(sheet: Sheet) -> Sheet:
    """Return a sheet with only the first sentences of each tier of its findings, and remarks on how many there are."""
    tiers = by_tier(sheet.findings)
    more = [
        f"{tier.capitalize()}: the first {LEADING} of {len(findings)} sentences. "
        "The site that a run of this study builds has all."
        for tier, findings in tiers.items()
        if len(findings) > LEADING
    ]
    leading = tuple(finding for findings in tiers.values() for finding in findings[:LEADING])
    return replace(sheet, findings=leading, remarks=(*sheet.remarks, *more))


def groups(arguments: Iterable[str]) -> list[list[str]]:
    """Return the arguments of each track; ``--`` stands between two tracks."""
    batches: list[list[str]] = [[]]
    for argument in arguments:
        if argument == "--":
            batches.append([])
        else:
            batches[-1].append(argument)
    return batches


def main(address: str, *arguments: str) -> None:
    """Print the facts of the tracks that are named."""
    facts = {track: values for group in groups(arguments) for track, values in study(address, *group).items()}
    sys.stdout.write(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
