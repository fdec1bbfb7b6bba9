"""Whose metrics, attacks and evaluators decide ranks, and whose are scored and shown beside them. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imharness.ranking.ranking import ranked
from imharness.results.entries import ACCEPTED, EVIDENCE, REPRODUCED, Standing
from imharness.results.identity import HARNESS, LOCAL, ComponentRef, digest, owner_of
from imharness.results.report import TrackReport
from imharness.results.tables import Row, Table
from imharness.results.tasks import TaskRecord

if TYPE_CHECKING:
    from imharness.contracts.track import Track

BROUGHT = frozenset({"dataset", "model"})
"""Kinds that whoever starts a run chooses: entries are measured on them, and they judge nobody."""


@dataclass(frozen=True)
class Judges:
    """Who decides places in a contest.

    Args:
        ranked: kinds of the entries; components of other kinds, but `BROUGHT`, judge them.
        hosts: owners whose components decide: the harness, whoever wrote the track, and objects of a notebook.
        accepted: ids of other components, which a person accepted.
        failed: digests of references to components that failed a quick check; they decide nothing, whoever wrote them.
    """

    ranked: frozenset[str]
    hosts: frozenset[str]
    accepted: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, track: Track, standing: Mapping[str, Sequence[Standing]], failed: Iterable[str] = ()) -> Judges:
        """Return who decides in a track; `standing`: component id -> what was decided about it, oldest first."""
        hosts = frozenset({HARNESS, LOCAL, owner_of(track.info.id)})
        accepted = frozenset(id for id, decisions in standing.items() if is_accepted(decisions))
        return cls(frozenset(track.ranks), hosts, accepted, frozenset(failed))

    def apart(self, records: Sequence[TaskRecord]) -> tuple[list[TaskRecord], str]:
        """Return the records that decide, and in words who is only shown; "" where all decide.

        What a stranger's component judged decides nothing. What an accepted one judged decides, but not about entries
        of its own owner, which lack a number there and so have no rank.
        """
        unaccepted, failed, partial, deciding_records = (
            dict[str, str](),
            dict[str, str](),
            set[str](),
            list[TaskRecord](),
        )
        for record in records:
            refs = record.spec.components.values()
            entries = [ref for ref in refs if ref.kind in self.ranked and owner_of(ref.id) not in self.hosts]
            judges = [ref for ref in refs if ref.kind not in self.ranked | BROUGHT]
            doubtful = {ref.label: ref.kind for ref in judges if self._failed(ref)}
            strangers = {ref.label: ref.kind for ref in judges if not self._decides(ref.id)}
            same_owner = {f"{e.label} ({j.label})" for e in entries for j in judges if owner_of(e.id) == owner_of(j.id)}
            unaccepted |= strangers
            failed |= doubtful
            partial |= same_owner if not strangers and not doubtful else set()
            if not strangers and not doubtful and not same_owner:
                deciding_records.append(record)
        return deciding_records, _said(unaccepted, failed, partial)

    def _decides(self, id: str) -> bool:
        return owner_of(id) in self.hosts or id in self.accepted

    def _failed(self, ref: ComponentRef) -> bool:
        return bool(self.failed) and digest(ref.identity()) in self.failed


def is_accepted(standing: Sequence[Standing]) -> bool:
    """Say whether a person accepted a component, and nothing but reproductions and evidence came since.

    Whatever is scored again, flagged or withdrawn has to be accepted again.
    """
    last = [decision.decision for decision in standing if decision.decision not in (REPRODUCED, EVIDENCE)]
    return last[-1:] == [ACCEPTED]


def _said(unaccepted: Mapping[str, str], failed: Mapping[str, str], partial: set[str]) -> str:
    texts = []
    for heading, judges in (
        ("Shown, and without effect on ranks until a person accepts them", unaccepted),
        ("Shown, and without effect on ranks because they failed a quick check", failed),
    ):
        if judges:
            names = ", ".join(f"{label} ({kind})" for label, kind in sorted(judges.items()))
            texts.append(f"{heading}: {names}.")
    if partial:
        texts.append(f"Not ranked, because a judge is of the same author: {'; '.join(sorted(partial))}.")
    return " ".join(texts)


def beside(deciding: TrackReport, every: TrackReport, note: str) -> TrackReport:
    """Return what decides, with what else there is to show.

    Args:
        deciding: made of the records that decide; its numbers, places and claims stay as they are.
        every: made of all records. Its rankings decide nothing, so that they and their tables are left out; rows,
            columns, tables, comparisons, charts and examples that `deciding` lacks are added.
        note: added to the tables of rankings, or to the first table where there is no ranking.
    """
    decided = {ranking.table for report in (deciding, every) for ranking in report.rankings}
    table_ids, others = {table.id for table in deciding.tables}, {table.id: table for table in every.tables}
    tables = [t if t.id in decided or t.id not in others else _extended(t, others[t.id]) for t in deciding.tables]
    tables += [table for table in every.tables if table.id not in table_ids | decided]
    noted = decided & table_ids or {table.id for table in tables[:1]}
    compared, drawn = {paired.id for paired in deciding.comparisons}, {chart.id for chart in deciding.charts}
    return replace(
        deciding,
        tables=[_noted(table, note) if table.id in noted else table for table in tables],
        comparisons=[
            *deciding.comparisons,
            *(c for c in every.comparisons if c.id not in compared and c.table not in decided),
        ],
        charts=[*deciding.charts, *(c for c in every.charts if c.id not in drawn and c.table not in decided)],
        examples=[*deciding.examples, *(example for example in every.examples if example not in deciding.examples)],
    )


def _noted(table: Table, note: str) -> Table:
    return table.model_copy(update={"note": " ".join(filter(None, [table.note, note]))})


def _extended(table: Table, other: Table) -> Table:
    """Return a table with the rows and columns, matched by their labels, that only the other one has."""
    mine = {column.label: column.key for column in table.columns}
    theirs = {column.label: column for column in other.columns}
    fresh = {
        label: column.model_copy(update={"key": f"shown{index}"})
        for index, (label, column) in enumerate(theirs.items())
        if label not in mine
    }
    keys = {theirs[label].key: mine[label] if label in mine else fresh[label].key for label in theirs}
    other_values = {
        row.label: {keys[key]: value for key, value in row.values.items() if key in keys} for row in other.rows
    }
    added = {column.key for column in fresh.values()}
    rows = [
        row.model_copy(
            update={
                "values": {**row.values, **{k: v for k, v in other_values.get(row.label, {}).items() if k in added}}
            }
        )
        for row in table.rows
    ]
    present = {row.label for row in rows}
    rows += [Row(**{**dict(row), "values": other_values[row.label]}) for row in other.rows if row.label not in present]
    order = [column for column in table.columns if column.key == table.ranked_by]
    rows = ranked(rows, *order) if order else rows
    return table.model_copy(update={"columns": (*table.columns, *fresh.values()), "rows": tuple(rows)})
