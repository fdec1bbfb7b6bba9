"""Write what a study found: ``python docs/studies.py STORE TRACK TABLE[:COLUMN;...]... > docs/studies/NAME.json``.

Further tracks of the same store follow behind ``--``, each with its tables. Without columns all of a table are taken. A
file ``NAME.json`` in the place of a table is what an audit of the model NAME wrote: all of them become the table
``audit``. `docs/generate.py` writes the file into the page of the study, as the parts ``study`` (what ran), ``table``
(one of its tables), ``orders`` (the paper beside it) and ``numbers`` (number by number, where the setting is the
paper's).
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from compared import compared

from imharness.exports import chosen_tables, markdown, sheet_of
from imharness.exports.sheets import Sheet
from imharness.papers.verdicts import JUDGED
from imharness.results.findings import LEADING, by_tier
from imharness.results.leaderboards import Leaderboard
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness_leaderboard.published import published_view

MINUTE = 60


def numbers(leaderboard: Leaderboard) -> list[dict[str, Any]]:
    """Return the published numbers in whose setting the leaderboard was made, each with ours."""
    view, _ = published_view(leaderboard)
    every = [(comparison, series) for comparison in (view.compared if view else ()) for series in comparison.series]
    return [
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
        for comparison, series in every
        for cell in series.with_verdict(*JUDGED)
        if cell.ours is not None
        for low, high in [cell.within or (None, None)]
    ]


def audited(files: Iterable[Path]) -> list[str]:
    """Return what audits found, a line for each model: the attack that is most accurate on the shadow rows counts."""
    lines = [
        "| model | right, members | right, others | strongest attack | balanced accuracy | AUC | TPR at 1 % FPR |",
        "|---|---|---|---|---|---|---|",
    ]
    for file in files:
        facts = json.loads(file.read_text())
        worst = max(facts["findings"], key=lambda finding: finding["on_shadow"])
        tasks = (_between(worst[name]) for name in ("accuracy", "auc", "tpr_at_1"))
        right = (f"{facts[name]:.3f}" for name in ("train_accuracy", "test_accuracy"))
        lines.append("| " + " | ".join([file.stem, *right, f"`{worst['evaluator']}`", *tasks]) + " |")
    return lines


def _between(estimate: Mapping[str, float]) -> str:
    return f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


def study(address: str, track: str, *tables: str) -> dict[str, Any]:
    """Return what ran in a store, tables as lines of Markdown by id, and how they compare with the paper."""
    store = Store(address)
    leaderboard = store.leaderboard(f"harness/{track}")
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
    """Return a sheet with the first sentences of each tier, and how many there are."""
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
    """Return the arguments of each track, which ``--`` parts."""
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
