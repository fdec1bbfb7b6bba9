"""Published tables and comparisons as plain data, for JSON and for pages."""

from __future__ import annotations

from typing import Any

from imharness.papers.order import SAYS
from imharness.papers.published import PublishedTable
from imharness.papers.verdicts import JUDGED, NOT_RUN, OTHER, SAME, Cell, Comparison, Series, agreement


def cited(table: PublishedTable) -> str:
    """Return a text that cites the paper and the number of a table."""
    paper, table_name = table.citation, table.table if " " in table.table else f"table {table.table}"
    return f"{paper.get('authors', '')}, {paper.get('title', table.paper)} ({paper.get('year', '')}), {table_name}"


def counts(comparison: Comparison) -> str:
    """Return how many quantities have which verdict, in words."""
    series = comparison.series
    if not series:
        return "no number of ours is the same quantity"
    same = [result for result in series if result.verdict == SAME]
    judged = [cell for result in same for cell in result.with_verdict(*JUDGED)]
    phrases = [f"same setting: {agreement(judged, 'numbers ')}"] if same else []
    others = [result.order.says for result in series if result.verdict == OTHER]
    kinds = [f"{kind} {others.count(kind)}" for kind in SAYS if kind in others]
    phrases += [f"another setting: {', '.join(kinds)}"] if others else []
    missing = sum(result.verdict == NOT_RUN for result in series)
    return "; ".join([*phrases, *([f"not run: {missing}"] if missing else [])])


def table_facts(table: PublishedTable) -> dict[str, Any]:
    """Return a table with its numbers as plain data; a value is None if the table has none."""
    facts = table.model_dump(exclude={"rows", "citation", "set_up", "selections"}) | {
        "address": table.address,
        "cited": cited(table),
    }
    facts["rows"] = [
        row.model_dump(exclude={"values"})
        | {"values": [{"text": v.text, "value": v.value, "spread": v.spread} for v in row.values]}
        for row in table.rows
    ]
    return facts


def comparison_facts(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison with all its numbers as plain data."""
    return {
        "table": comparison.table.address,
        "cited": cited(comparison.table),
        "verdict": comparison.verdict,
        "says": counts(comparison),
        "differs": comparison.differs,
        "entries_differ": comparison.entries_differ,
        "computed_otherwise": comparison.otherwise,
        "notes": comparison.table.notes,
        "commands": comparison.runs.commands,
        "not_in_profile": comparison.runs.without,
        "not_run": comparison.not_run,
        "without_pointer": comparison.unpointed,
        "series": [_series_facts(series) for series in comparison.series],
    }


def _series_facts(series: Series) -> dict[str, Any]:
    order = series.order
    return {
        "quantity": series.quantity,
        "label": series.label,
        "ours": series.ours,
        "note": series.note,
        "verdict": series.verdict,
        "says": series.says,
        "order": {
            "tau": order.tau,
            "low": order.low,
            "high": order.high,
            "p": order.p,
            "n": order.n,
            "entries": order.entries,
            "reason": order.reason,
        },
        "cells": [_cell_facts(cell) for cell in series.cells],
    }


def _cell_facts(cell: Cell) -> dict[str, Any]:
    ours, (low, high) = cell.ours, cell.within or (None, None)
    return {
        "entry": cell.entry,
        "published": cell.published,
        "printed": cell.text,
        "label": cell.label,
        "ours": ours.value if ours else None,
        "low": low,
        "high": high,
        "difference": cell.difference,
        "verdict": cell.verdict,
        "differs": cell.itself,
        "computed_otherwise": [sentence for _, sentence in cell.otherwise],
        "missing": cell.missing,
        "note": cell.note,
    }
