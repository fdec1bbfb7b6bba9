"""Writes tables for two collections of evaluation results, Every Eval Ever and the Hub's, where an entry is a "model".

Every Eval Ever: its JSON schema 0.3.0, https://github.com/evaleval/every_eval_ever. The Hub's Community Evals:
https://huggingface.co/docs/hub/eval-results, and the file eval_results.yaml of its documentation.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import ColumnSpec, Row
from imharness.errors import UsageError
from imharness.exports.dataset import ABOUT, TITLE
from imharness.exports.sheets import Line, Sheet
from imharness.reading.text import plain
from imharness.results.storage import sha256_of

LIBRARY = "image-privacy-harness"
SCHEMA_VERSION = "0.3.0"
"""The schema of Every Eval Ever that records keep to."""
_OWNER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_LONGEST = 40


def model_id(label: str, track: str, kind: str) -> str:
    """Return the id that an entry has as a model: ``OWNER/TRACK-KIND-NAME`` of letters, digits and dashes.

    If the label has other signs, or is too long, eight digits of the label's sha256 follow, so that ids stay distinct.
    A label without an owner, such as that of a control, has the owner "harness" and always these digits.
    """
    owner, slash, method = label.partition("/")
    if not (slash and _OWNER.fullmatch(owner)):
        owner, method = "harness", label
    name, prefix = _dashed(method)[:_LONGEST], _dashed(f"{track.rpartition('/')[2]} {kind}")[:_LONGEST]
    digest = "" if name == method and slash else f"-{sha256_of(label.encode())[:8]}"
    return f"{owner}/{prefix}-{name}{digest}"


def _dashed(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def every_eval_ever(
    sheets: Iterable[Sheet], leaderboards: Mapping[str, Leaderboard], repository: str
) -> dict[str, bytes]:
    """Return path -> content of the records, one for each entry of each sheet, with each column that has a direction.

    Args:
        sheets: tables of leaderboards.
        leaderboards: track -> its leaderboard.
        repository: the dataset repository ``OWNER/NAME`` that the leaderboards are published in; its owner is the
            organization that evaluated.
    """
    files = dict[str, bytes]()
    for sheet in sheets:
        for label in dict.fromkeys(line.label for line in sheet.lines):
            record = _record(sheet, leaderboards[sheet.track], repository, label)
            if record["evaluation_results"]:
                content = (json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
                name = uuid.UUID(hex=sha256_of(content)[:32], version=4)
                files[f"data/{LIBRARY}/{record['model_info']['id']}/{name}.json"] = content
    return files


def community_evals(
    sheets: Iterable[Sheet], leaderboards: Mapping[str, Leaderboard], repository: str
) -> dict[str, bytes]:
    """Return path -> content: ``eval.yaml`` of the dataset repository, and the results for each model's repository.

    The number of an entry is its worst case where the table has one, and else that by which the table is ordered.

    Args:
        sheets: tables of leaderboards.
        leaderboards: track -> its leaderboard.
        repository: the dataset repository ``OWNER/NAME`` that the leaderboards are published in.

    Raises:
        UsageError: a table is in no order, or has several rows for an entry.
    """
    tasks, results = list[dict[str, Any]](), dict[str, list[dict[str, Any]]]()
    directions = list[str]()
    for sheet in sheets:
        column, task = _scored(sheet), f"{sheet.track.rpartition('/')[2]}-{sheet.id}"
        direction = f"{column.label}, {column.better} is better"
        tasks.append({"id": task, "config": "numbers", "split": "train"})
        directions.append(f"{task}: {direction}.")
        for line, row in zip(sheet.lines, sheet.table.rows, strict=True):
            score = row.number(column.key)
            if score is None or not math.isfinite(score):
                continue
            value = row.values[column.key]
            interval = [] if value.low is None or value.high is None else [f"95% interval [{value.low}, {value.high}]"]
            remarks = "; ".join([line.label, direction, *interval])
            results.setdefault(model_id(line.label, sheet.track, sheet.entry), []).append(
                {
                    "dataset": {"id": repository, "task_id": task},
                    "value": score,
                    "date": leaderboards[sheet.track].finished[:10],
                    "source": {"url": f"https://huggingface.co/datasets/{repository}", "name": sheet.title},
                    "notes": f"{remarks}. {_notes(sheet, [line])}".strip(),
                }
            )
    benchmark = {
        "name": TITLE,
        "description": " ".join([ABOUT, *directions]),
        "evaluation_framework": LIBRARY,
        "tasks": tasks,
    }
    files = {f"{model}/.eval_results/{LIBRARY}.yaml": lines for model, lines in results.items()}
    return {name: _yaml(content) for name, content in {"eval.yaml": benchmark, **files}.items()}


def _record(sheet: Sheet, leaderboard: Leaderboard, repository: str, label: str) -> dict[str, Any]:
    """Return the record of an entry of a sheet, in the schema of Every Eval Ever."""
    owner, model = repository.partition("/")[0], model_id(label, sheet.track, sheet.entry)
    lines = [line for line in sheet.lines if line.label == label]
    rows = [row for line, row in zip(sheet.lines, sheet.table.rows, strict=True) if line.label == label]
    datasets = [entry.label for entry in leaderboard.entries if entry.kind == "dataset"]
    evaluated = {
        "dataset_name": ", ".join(datasets) or f"data sets of profile {leaderboard.profile}",
        "source_type": "other",
    }
    notes, stamp = _notes(sheet, lines), int(datetime.fromisoformat(leaderboard.finished).timestamp())
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{sheet.track}/{sheet.id}/{model}/{stamp}",
        "evaluation_timestamp": leaderboard.finished,
        "retrieved_timestamp": str(stamp),
        "source_metadata": {
            "source_name": leaderboard.title,
            "source_type": "documentation",
            "source_organization_name": owner,
            "source_organization_url": f"https://huggingface.co/{owner}",
            "evaluator_relationship": "first_party" if model.startswith(f"{owner}/") else "third_party",
            "additional_details": {
                "leaderboard": f"https://huggingface.co/datasets/{repository}",
                "remarks": " ".join(sheet.remarks),
            },
        },
        "eval_library": {
            "name": LIBRARY,
            "version": leaderboard.scored_by.get(LIBRARY, "unknown"),
            "additional_details": {"command": leaderboard.command, "profile": leaderboard.profile},
        },
        "model_info": {
            "name": label,
            "id": model,
            "developer": model.partition("/")[0],
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "unknown",
                "kind": sheet.entry,
                **({"notes": notes} if notes else {}),
            },
        },
        "evaluation_results": [
            result
            for row in rows
            for column in sheet.columns
            if column.better and (result := _result(sheet, row, column, evaluated))
        ],
    }


def _result(sheet: Sheet, row: Row, column: ColumnSpec, evaluated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a number of a row as a result in the schema; {} if the row has no finite number in the column."""
    score = row.number(column.key)
    if score is None or not math.isfinite(score):
        return {}
    value, (least, most) = row.values[column.key], column.limits or ("-Infinity", "Infinity")
    details: dict[str, Any] = {"score": score}
    uncertainty: dict[str, Any] = {} if value.n is None else {"num_samples": value.n}
    if value.low is not None and value.high is not None and math.isfinite(value.low) and math.isfinite(value.high):
        ends = {"lower": value.low, "upper": value.high, "confidence_level": 0.95}
        uncertainty = {"confidence_interval": ends} | uncertainty
    return {
        "evaluation_result_id": "/".join([sheet.track, sheet.id, column.key, *row.facets.values()]),
        "evaluation_name": f"{sheet.track}/{sheet.id}",
        "source_data": evaluated,
        "metric_config": {
            "evaluation_description": column.description,
            "metric_id": f"{sheet.track}.{sheet.id}.{column.key}",
            "metric_name": column.label,
            "lower_is_better": column.better == "lower",
            "score_type": "continuous",
            "min_score": least,
            "max_score": most,
            **({"additional_details": dict(row.facets)} if row.facets else {}),
        },
        "score_details": details | ({"uncertainty": uncertainty} if uncertainty else {}),
    }


def _scored(sheet: Sheet) -> ColumnSpec:
    """Return the column of the worst case, or else the one that ranks the table; raises as `community_evals` does."""
    columns = {column.key: column for column in sheet.table.columns if column.better}
    column = columns.get("worst") or columns.get(sheet.table.ranked_by)
    if column is None or sheet.facets:
        why = "is in no order" if column is None else f"has several rows for one {sheet.entry}"
        raise UsageError(f"community-evals takes one number for each entry, and {sheet.track} {sheet.id} {why}.")
    return column


def _notes(sheet: Sheet, lines: Sequence[Line]) -> str:
    """Return the notes of rows as one text, each once."""
    texts = dict(sheet.notes)
    return " ".join(dict.fromkeys(texts[letter] for line in lines for letter in line.notes))


def _yaml(content: object) -> bytes:
    return ("\n".join(_yaml_lines(content, "")) + "\n").encode()


def _yaml_lines(content: object, indent: str) -> Iterator[str]:
    """Yield mappings and lists as blocks of YAML, and every text in quotes."""
    if isinstance(content, Mapping):
        for key, inner in content.items():
            if isinstance(inner, (Mapping, list)):
                yield f"{indent}{key}:"
                yield from _yaml_lines(inner, indent + "  ")
            else:
                yield f"{indent}{key}: {_scalar(inner)}"
    elif isinstance(content, list):
        for item in content:
            first, *others = _yaml_lines(item, indent + "  ")
            yield f"{indent}- {first.lstrip()}"
            yield from others


def _scalar(content: object) -> str:
    if isinstance(content, str):
        return json.dumps(plain(content), ensure_ascii=False)
    return re.sub(r"^(-?\d+)e", r"\1.0e", str(content))  # YAML 1.1 takes 1e-05 for a text
