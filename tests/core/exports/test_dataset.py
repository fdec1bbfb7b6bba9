"""The leaderboards as a dataset repository: its files, its card, its Croissant metadata, and its upload."""

import hashlib
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.core.exports.leaderboards import EVIL, evil, sample_leaderboard
from tests.leaderboard.contested import JPEG, NONE

from imharness.documents.entries import Entry
from imharness.documents.stored import write_leaderboard
from imharness.errors import UsageError
from imharness.exports.dataset import dataset_files, repository_in
from imharness.results.store import Store

REPOSITORY, RELEASE = "acme/leaderboard", "2026-01"


def files() -> dict[str, bytes]:
    """Return the files of the repository, path -> content."""
    entry = Entry(kind="defense", id="acme/x", label="acme/x", version="1", summary=EVIL)
    return dataset_files([sample_leaderboard(entries=(entry,)), evil()], REPOSITORY, RELEASE)


def test_every_number_of_every_table_is_there() -> None:
    parquet_tables = {
        name: pq.read_table(io.BytesIO(data)) for name, data in files().items() if name.endswith(".parquet")
    }
    numbers = parquet_tables["data/numbers.parquet"].to_pylist()
    tables = [table for leaderboard in (sample_leaderboard(), evil()) for table in leaderboard.tables]
    assert len(numbers) == sum(len(table.rows) * len(table.columns) for table in tables)
    row = next(row for row in sample_leaderboard().tables[0].rows if row.label == JPEG)
    worst_row = next(number for number in numbers if number["entry"] == JPEG and number["column"] == "worst")
    assert [worst_row[k] for k in ("value", "low", "high", "n")] == [
        getattr(row.values["worst"], k) for k in ("value", "low", "high", "n")
    ]
    ranked = {row["entry"]: row for row in parquet_tables["data/rankings.parquet"].to_pylist()}
    assert [name for name, row in ranked.items() if row["winner"]] == [JPEG]
    assert ranked[NONE]["control"] == "undefended"
    assert ranked[JPEG]["rank"] == row.values["rank"].value
    assert parquet_tables["data/entries.parquet"]["summary"].to_pylist() == [EVIL]


def test_croissant_describes_the_files_as_they_are() -> None:
    contents = files()
    facts = json.loads(contents["croissant.json"])
    assert facts["version"] == "2026.1.0"
    assert (facts["@type"], facts["conformsTo"]) == ("sc:Dataset", "http://mlcommons.org/croissant/1.0")
    described = {file["@id"]: file for file in facts["distribution"]}
    assert set(described) == {name for name in contents if name.endswith(".parquet")}
    kinds = {"string": "sc:Text", "double": "sc:Float", "int64": "sc:Integer", "bool": "sc:Boolean"}
    for records, (name, file) in zip(facts["recordSet"], described.items(), strict=True):
        assert file["sha256"] == hashlib.sha256(contents[name]).hexdigest()
        assert file["contentUrl"] == f"https://huggingface.co/datasets/acme/leaderboard/resolve/2026-01/{name}"
        schema = pq.read_schema(io.BytesIO(contents[name]))
        fields = {field["source"]["extract"]["column"]: field["dataType"] for field in records["field"]}
        assert fields == {field.name: kinds[str(field.type)] for field in schema}
        assert {field["source"]["fileObject"]["@id"] for field in records["field"]} == {name}


def test_the_card_tells_the_hub_where_the_files_are() -> None:
    card = files()["README.md"].decode()
    _, header, body = card.split("---\n", 2)
    assert [line.split(": ")[1] for line in header.splitlines() if "path: " in line] == [
        "data/rankings.parquet",
        "data/findings.parquet",
        "data/numbers.parquet",
        "data/entries.parquet",
    ]
    assert "</table>" not in body.replace("\\<", "")
    assert sample_leaderboard().rankings[0].claim.partition("] ")[2] in body


@pytest.mark.parametrize(
    "address", ["hf://models/a/b", "hf://datasets/a", "hf://datasets/a/../b", "hf://datasets/a/b/c"]
)
def test_an_address_that_is_no_dataset_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="hf://datasets/OWNER/NAME"):
        repository_in(address)


def test_publishing_writes_the_repository_and_says_how_to_upload_it(
    tmp_path: Path, harness_here, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    store = Store(tmp_path / "store")
    store.prepare()
    write_leaderboard(store, sample_leaderboard(track="harness/iqa", run_configuration=""))
    words = ("site", "publish", "--to", "hf://datasets/acme/leaderboard", "--release")
    ran = harness_here(*words, RELEASE, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "dataset: hub/acme/leaderboard\n"
    assert "not uploaded: the package huggingface_hub is not installed" in ran.stderr
    assert "hf upload acme/leaderboard hub/acme/leaderboard --repo-type dataset" in ran.stderr
    repository = tmp_path / "hub" / "acme" / "leaderboard"
    assert {str(path.relative_to(repository)) for path in repository.rglob("*.*")} == {
        "README.md",
        "croissant.json",
        "data/rankings.parquet",
        "data/findings.parquet",
        "data/numbers.parquet",
        "data/entries.parquet",
    }
    assert harness_here(*words, "a/b", cwd=tmp_path).returncode == 2
    local_entry = Entry(kind="defense", id="local/mine", label="local/mine", version="1")
    write_leaderboard(store, sample_leaderboard(track="harness/iqa", run_configuration="", entries=(local_entry,)))
    refused = harness_here(*words, "next", cwd=tmp_path)
    assert refused.returncode == 2
    assert "local/mine" in refused.stderr


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore")  # of mlcroissant's own code
def test_mlcroissant_accepts_the_metadata_and_reads_the_records(tmp_path: Path) -> None:
    import mlcroissant

    contents = files()
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    local = {name: str(tmp_path / name) for name in contents if name.endswith(".parquet")}
    dataset = mlcroissant.Dataset(jsonld=str(tmp_path / "croissant.json"), mapping=local)
    issues = dataset.metadata.ctx.issues
    assert not issues.errors
    assert not issues.warnings
    ranked = list(dataset.records(record_set="rankings"))
    assert {row["rankings/entry"].decode() for row in ranked if row["rankings/winner"]} == {JPEG}
    assert len(list(dataset.records(record_set="numbers"))) == pq.read_table(local["data/numbers.parquet"]).num_rows


@pytest.mark.extra
def test_the_hub_library_reads_the_card_and_uploads_once_for_each_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    from imharness_leaderboard import publishing

    card = huggingface_hub.DatasetCard(files()["README.md"].decode())
    assert card.data.license == "apache-2.0"
    assert [config["config_name"] for config in card.data.to_dict()["configs"]] == [
        "rankings",
        "findings",
        "numbers",
        "entries",
    ]
    calls: list[tuple[str, dict]] = []

    class Api:
        def __getattr__(self, name: str):
            return lambda **facts: calls.append((name, facts))

        def list_repo_refs(self, **facts):
            return type("Refs", (), {"tags": [type("Tag", (), {"name": "old"})()]})

    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "token")
    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    url, why = publishing._upload(REPOSITORY, tmp_path, RELEASE)
    assert (url, why) == ("https://huggingface.co/datasets/acme/leaderboard/tree/2026-01", "")
    assert [name for name, _ in calls] == ["create_repo", "upload_folder", "create_tag"]
    assert {facts["repo_id"] for _, facts in calls} == {REPOSITORY}
    with pytest.raises(UsageError, match="published already"):
        publishing._upload(REPOSITORY, tmp_path, "old")
