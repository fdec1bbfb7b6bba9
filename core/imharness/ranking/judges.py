"""Decides which metrics, attacks and evaluators count for ranks; the others are shown beside them. Imports no torch.

A component that is ranked is an *entry*. A component that an entry is measured with is a *judge* of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from imharness.documents.entries import ACCEPTED, EVIDENCE, REPRODUCED, Standing
from imharness.documents.report import TrackReport
from imharness.documents.tables import Row, Table
from imharness.ranking.ranking import ranked
from imharness.results.identity import HARNESS, LOCAL, ComponentRef, digest, owner_of
from imharness.results.tasks import TaskRecord

if TYPE_CHECKING:
    from imharness.contracts.track import Track

BROUGHT = frozenset({"dataset", "model"})
"""Kinds of components that the person who starts a run chooses; they are no judges, although entries are measured on
them."""


@dataclass(frozen=True)
class Judges:
    """Which judges decide ranks in a contest.

    Args:
        ranked: the kinds of the entries; components of all other kinds except `BROUGHT` are judges.
        hosts: owners whose judges decide: the harness, the owner of the track, and the user's notebook.
        accepted: ids of judges of other owners that decide, because a person accepted them.
        failed: digests of references to components that failed a quick check; they decide nothing, whoever owns them.
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
        """Return the records that decide, and a sentence on those that are only shown; "" where all decide.

        A record decides nothing if one of its judges belongs to another owner and was not accepted, if one failed a
        quick check, or if a judge has the same owner as the entry. Such an entry then lacks a number, and has no rank.
        """
        unaccepted, failed = dict[str, str](), dict[str, str]()  # label of a judge -> its kind
        same_owner = set[str]()
        deciding_records = list[TaskRecord]()
        for record in records:
            refs = record.spec.components.values()
            judges = [ref for ref in refs if ref.kind not in self.ranked | BROUGHT]
            unaccepted_here = {judge.label: judge.kind for judge in judges if not self._decides(judge.id)}
            failed_here = {judge.label: judge.kind for judge in judges if self._failed(judge)}
            unaccepted |= unaccepted_here
            failed |= failed_here
            if unaccepted_here or failed_here:
                continue
            entries = [ref for ref in refs if ref.kind in self.ranked and owner_of(ref.id) not in self.hosts]
            same_owner_here = {
                f"{entry.label} ({judge.label})"
                for entry in entries
                for judge in judges
                if owner_of(entry.id) == owner_of(judge.id)
            }
            same_owner |= same_owner_here
            if not same_owner_here:
                deciding_records.append(record)
        return deciding_records, _note(unaccepted, failed, same_owner)

    def _decides(self, id: str) -> bool:
        return owner_of(id) in self.hosts or id in self.accepted

    def _failed(self, ref: ComponentRef) -> bool:
        return bool(self.failed) and digest(ref.identity()) in self.failed


def is_accepted(standing: Sequence[Standing]) -> bool:
    """Return whether a component is accepted now: its last decision but reproductions and evidence is "accepted".

    So a component that is scored again, flagged or withdrawn has to be accepted again. `standing`: the decisions about
    it, oldest first.
    """
    last = [decision.decision for decision in standing if decision.decision not in (REPRODUCED, EVIDENCE)]
    return last[-1:] == [ACCEPTED]


def _note(unaccepted: Mapping[str, str], failed: Mapping[str, str], same_owner: set[str]) -> str:
    """Return the sentences on judges that decide nothing; the arguments are those of `Judges.apart`."""
    texts = []
    for heading, judges in (
        ("Shown, and without effect on ranks until a person accepts them", unaccepted),
        ("Shown, and without effect on ranks because they failed a quick check", failed),
    ):
        if judges:
            names = ", ".join(f"{label} ({kind})" for label, kind in sorted(judges.items()))
            texts.append(f"{heading}: {names}.")
    if same_owner:
        texts.append(f"Not ranked, because a judge is of the same author: {'; '.join(sorted(same_owner))}.")
    return " ".join(texts)


def beside(deciding: TrackReport, every: TrackReport, note: str) -> TrackReport:
    """Return the report of the records that decide, with everything else of the report of all records.

    Args:
        deciding: the report of the records that decide; its numbers, places and headlines stay as they are.
        every: the report of all records. Its rankings would let other judges decide, so they and their tables are left
            out; rows, columns, tables, comparisons, charts and examples that `deciding` lacks are added.
        note: added to the tables of rankings, or to the first table where there is no ranking.
    """
    ranking_tables = {ranking.table for report in (deciding, every) for ranking in report.rankings}
    deciding_tables = {table.id for table in deciding.tables}
    tables_of_all = {table.id: table for table in every.tables}
    tables = []
    for table in deciding.tables:
        may_be_extended = table.id in tables_of_all and table.id not in ranking_tables
        tables.append(_extended(table, tables_of_all[table.id]) if may_be_extended else table)
    tables += [table for table in every.tables if table.id not in deciding_tables | ranking_tables]
    with_note = ranking_tables & deciding_tables or {table.id for table in tables[:1]}
    comparison_ids = {comparison.id for comparison in deciding.comparisons}
    chart_ids = {chart.id for chart in deciding.charts}
    return replace(
        deciding,
        tables=[_with_note(table, note) if table.id in with_note else table for table in tables],
        comparisons=[
            *deciding.comparisons,
            *(c for c in every.comparisons if c.id not in comparison_ids and c.table not in ranking_tables),
        ],
        charts=[
            *deciding.charts,
            *(chart for chart in every.charts if chart.id not in chart_ids and chart.table not in ranking_tables),
        ],
        examples=[*deciding.examples, *(example for example in every.examples if example not in deciding.examples)],
    )


def _with_note(table: Table, note: str) -> Table:
    return table.model_copy(update={"note": " ".join(filter(None, [table.note, note]))})


def _extended(table: Table, other: Table) -> Table:
    """Return a table with the columns and rows that only another table of the same entries has.

    Columns are the same if they have the same label, whatever their keys; those of the table keep their values.
    """
    key_of = {column.label: column.key for column in table.columns}
    other_columns = {column.label: column for column in other.columns}
    further = []
    for index, (label, column) in enumerate(other_columns.items()):
        if label not in key_of:
            key_of[label] = f"shown{index}"
            further.append(column.model_copy(update={"key": f"shown{index}"}))
    key_here = {column.key: key_of[label] for label, column in other_columns.items()}  # key in `other` -> in the result
    other_values = {
        row.label: {key_here[key]: value for key, value in row.values.items() if key in key_here} for row in other.rows
    }
    further_keys = {column.key for column in further}
    rows = []
    for row in table.rows:
        further_values = {k: v for k, v in other_values.get(row.label, {}).items() if k in further_keys}
        rows.append(row.model_copy(update={"values": {**row.values, **further_values}}))
    present = {row.label for row in rows}
    rows += [Row(**{**dict(row), "values": other_values[row.label]}) for row in other.rows if row.label not in present]
    order = [column for column in table.columns if column.key == table.ranked_by]
    rows = ranked(rows, *order) if order else rows
    return table.model_copy(update={"columns": (*table.columns, *further), "rows": tuple(rows)})
