"""Records for Every Eval Ever and for the results of models on the Hugging Face Hub; both packages accept them."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.core.exports.leaderboards import EVIL, evil, sample_leaderboard
from tests.leaderboard.contested import JPEG, NONE, PURIFIER

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.stored import write_leaderboard
from imharness.documents.tables import Value
from imharness.errors import UsageError
from imharness.exports import community_evals, every_eval_ever, sheet_of
from imharness.exports.evaluations import model_id
from imharness.results.store import Store

REPOSITORY = "acme/leaderboard"
LEADERBOARDS = sample_leaderboard(), evil()
SHAPE = {
    "schema_version": str,
    "evaluation_id": str,
    "evaluation_timestamp": str,
    "retrieved_timestamp": str,
    "source_metadata": dict,
    "eval_library": dict,
    "model_info": dict,
    "evaluation_results": list,
}
"""The members of a record of Every Eval Ever, schema 0.3.0, with their types; a record has no others."""


def written(write, *leaderboards: Leaderboard) -> dict[str, bytes]:
    """Return the files that an export writes of the first table of each leaderboard."""
    sheets = [sheet_of(leaderboard.tables[0], leaderboard) for leaderboard in leaderboards]
    return write(sheets, {leaderboard.track: leaderboard for leaderboard in leaderboards}, REPOSITORY)


def records() -> dict[str, dict]:
    """Return the records of Every Eval Ever of both leaderboards, path -> content."""
    leaderboard, other = LEADERBOARDS[0], LEADERBOARDS[1].model_copy(update={"track": "acme/evil"})
    return {name: json.loads(content) for name, content in written(every_eval_ever, leaderboard, other).items()}


def of(label: str) -> dict:
    """Return the record of one entry."""
    (record,) = [record for record in records().values() if record["model_info"]["name"] == label]
    return record


def test_every_number_with_a_direction_is_a_result_of_the_entry_that_it_is_of() -> None:
    table = LEADERBOARDS[0].tables[0]
    for row in table.rows:
        results = of(row.label)["evaluation_results"]
        wanted = {column.key: row.number(column.key) for column in table.columns if column.better}
        scores = {result["metric_config"]["metric_id"]: result["score_details"]["score"] for result in results}
        assert scores == {f"acme/contest.{table.id}.{key}": score for key, score in wanted.items() if score is not None}
    row = next(row for row in table.rows if row.label == JPEG)
    result = next(
        result for result in of(JPEG)["evaluation_results"] if result["metric_config"]["metric_id"].endswith(".worst")
    )
    value = row.values["worst"]
    assert result["score_details"]["uncertainty"] == {
        "confidence_interval": {"lower": value.low, "upper": value.high, "confidence_level": 0.95},
        "num_samples": value.n,
    }
    assert result["metric_config"]["lower_is_better"] is True
    assert "Control" in of(NONE)["model_info"]["additional_details"]["notes"]
    assert "Incomplete" in of(PURIFIER)["model_info"]["additional_details"]["notes"]


def test_records_have_the_shape_of_the_schema_and_stand_where_their_model_says() -> None:
    for name, record in records().items():
        assert {member: type(content) for member, content in record.items()} == SHAPE
        folder, file = name.rsplit("/", 1)
        assert folder == f"data/image-privacy-harness/{record['model_info']['id']}"
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json", file)
        for result in record["evaluation_results"]:
            metric, score = result["metric_config"], result["score_details"]["score"]
            least, most = (float(metric[end]) for end in ("min_score", "max_score"))
            assert least <= score <= most
            assert (metric["score_type"], result["source_data"]["source_type"]) == ("continuous", "other")


def test_ids_of_models_are_names_that_file_systems_and_the_hub_take_and_differ_where_labels_do() -> None:
    labels = [f"{lead}{EVIL}" for lead in ("", "a", "acme/")]
    labels += ["harness/jpeg", "jpeg", "harness/x[a=1]", "harness/x[a-1]", "x/../y", "x/y" * 99]
    ids = [model_id(label, "harness/iqa", "protected model") for label in labels]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9-]+/[A-Za-z0-9-]{1,96}", id) and "--" not in id for id in ids)
    assert ids[3] == "harness/iqa-protected-model-jpeg"


def test_infinite_numbers_are_left_out() -> None:
    leaderboard = evil()
    row = (
        leaderboard.tables[0].rows[0].model_copy(update={"values": {"d": Value(value=math.inf), "e": Value(value=1.0)}})
    )
    other = leaderboard.model_copy(update={"tables": (leaderboard.tables[0].model_copy(update={"rows": (row,)}),)})
    (content,) = written(every_eval_ever, other).values()
    assert [result["score_details"]["score"] for result in json.loads(content)["evaluation_results"]] == [1.0]


def test_the_hub_gets_one_number_for_each_entry_the_worst_case_and_its_direction() -> None:
    files = {name: yaml.safe_load(content) for name, content in written(community_evals, LEADERBOARDS[0]).items()}
    benchmark = files.pop("eval.yaml")
    assert [*benchmark] == ["name", "description", "evaluation_framework", "tasks"]
    assert benchmark["tasks"] == [{"id": "contest-contest", "config": "numbers", "split": "train"}]
    assert "lower is better" in benchmark["description"]
    rows = {row.label: row.number("worst") for row in LEADERBOARDS[0].tables[0].rows}
    wanted = {
        f"{model_id(label, 'acme/contest', 'defense')}/.eval_results/image-privacy-harness.yaml": score
        for label, score in rows.items()
        if score is not None
    }
    assert {name: entry["value"] for name, (entry,) in files.items()} == wanted
    notes = {entry["notes"].partition(";")[0]: entry["notes"] for (entry,) in files.values()}
    assert "lower is better; 95% interval [" in notes[JPEG]
    assert "Control" in notes[NONE]


def test_texts_and_small_numbers_stay_what_they_are_in_yaml() -> None:
    leaderboard = evil()
    rows = tuple(
        row.model_copy(update={"label": f"acme/{i}\n{EVIL}", "values": {"d": Value(value=1e-05 * (i + 1))}})
        for i, row in enumerate(leaderboard.tables[0].rows)
    )
    sheet = sheet_of(leaderboard.tables[0].model_copy(update={"rows": rows}), leaderboard)
    files = community_evals([sheet], {leaderboard.track: leaderboard}, REPOSITORY)
    benchmark = yaml.safe_load(files.pop("eval.yaml"))
    assert EVIL in benchmark["description"]
    entries = [entry for content in files.values() for entry in yaml.safe_load(content)]
    assert sorted(entry["value"] for entry in entries) == [row.number("d") for row in rows]
    assert all(EVIL in entry["notes"] for entry in entries)


def test_a_table_without_one_number_for_each_entry_is_refused() -> None:
    with pytest.raises(UsageError, match="has several rows for one"):
        written(community_evals, LEADERBOARDS[1])
    sheet = sheet_of(LEADERBOARDS[0].tables[0], LEADERBOARDS[0])
    columns = tuple(column for column in sheet.table.columns if column.key != "worst")
    unordered = replace(sheet, table=sheet.table.model_copy(update={"columns": columns, "ranked_by": ""}))
    with pytest.raises(UsageError, match="is in no order"):
        community_evals([unordered], {LEADERBOARDS[0].track: LEADERBOARDS[0]}, REPOSITORY)


def test_the_command_writes_a_folder_and_asks_where_the_leaderboard_is_published(tmp_path: Path, harness_here) -> None:
    store = Store(tmp_path / "store")
    store.prepare()
    write_leaderboard(store, sample_leaderboard(track="harness/iqa", run_configuration=""))
    words = ("results", "export", "--format")
    published = ("--hub", f"hf://datasets/{REPOSITORY}")
    for form, many in (("every-eval-ever", 6), ("community-evals", 7)):  # a file for each of 6 entries, and eval.yaml
        ran = harness_here(*words, form, *published, "--to", form, cwd=tmp_path)
        assert (ran.returncode, ran.stdout) == (0, f"{form}: {many} files\n"), ran.stderr
        assert len([path for path in (tmp_path / form).rglob("*") if path.is_file()]) == many
        assert "--hub hf://datasets/OWNER/NAME" in harness_here(*words, form, cwd=tmp_path).stderr
    refused = harness_here(*words, "csv", *published, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "not for csv" in refused.stderr


@pytest.mark.extra
def test_every_eval_ever_finds_no_error_and_nothing_to_warn_of(tmp_path: Path) -> None:
    pytest.importorskip("every_eval_ever")
    written_records = records()
    for name, record in written_records.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(record), encoding="utf-8")
    command = [sys.executable, "-m", "every_eval_ever", "validate", "--format", "json", "data/*/*/*/*.json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    reports = json.loads(ran.stdout)
    assert [report for report in reports if report["errors"] or report["warnings"]] == []
    assert (ran.returncode, len(reports)) == (0, len(written_records))


@pytest.mark.extra
def test_the_hub_library_reads_the_results_and_would_write_the_same() -> None:
    from huggingface_hub import eval_result_entries_to_yaml, parse_eval_result_entries

    files = written(community_evals, LEADERBOARDS[0])
    for name in files.keys() - {"eval.yaml"}:
        content = yaml.safe_load(files[name])
        entries = parse_eval_result_entries(content)
        assert eval_result_entries_to_yaml(entries) == content
        assert {entry.dataset_id for entry in entries} == {REPOSITORY}
