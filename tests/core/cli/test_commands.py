"""Every command on a small store: for people, and with --json for machines."""

import csv
import json
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from imharness.cli import cli
from imharness.errors import UsageError
from imharness.results.version import SCHEMA

ONE = ["--dataset", "harness/severity-ladder[size=192]", "--metric", "mse", "--attack", "stadv"]
WORDS = ["run", "--track", "perceptual", *ONE, "--limit", "6", "--workers", "0", "--device", "cpu"]


def call(folder: Path, *words: str, raises: type[BaseException] | None = None) -> Result:
    import os

    before = Path.cwd()
    os.chdir(folder)
    try:
        result = CliRunner().invoke(cli, list(words))
    finally:
        os.chdir(before)
    if raises is None:
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    else:
        assert isinstance(result.exception, raises), result.exception
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    working_folder = tmp_path_factory.mktemp("commands")
    assert call(working_folder, *WORDS).exit_code == 0
    return working_folder


@pytest.mark.parametrize(
    "words",
    [
        ("results", "list"),
        ("status",),
        ("plugins", "list", "--kind", "attack"),
        ("plugins", "show", "psnr"),
        ("assets", "list"),
        ("papers", "show"),
        ("papers", "compare", "membership/4"),
        ("submissions", "ledger"),
        (*WORDS, "--dry-run"),
    ],
    ids=" ".join,
)
def test_facts_as_json_state_the_version_of_their_format(folder: Path, words: tuple[str, ...]) -> None:
    facts = json.loads(call(folder, *words, "--json").stdout)
    assert (type(facts), facts["schema_version"]) == (dict, SCHEMA)


def test_results_list_show_verify(folder: Path) -> None:
    (record,) = json.loads(call(folder, "results", "list", "--json").output)["records"]
    assert record["status"] == "done"
    assert record["key"][:12] in call(folder, "results", "list").output
    record_facts = json.loads(call(folder, "results", "show", record["key"][:8], "--json").output)
    assert record_facts["spec"]["components"]["metric"]["id"] == "harness/mse"
    text = call(folder, "results", "show", record["key"][:8]).output
    assert f"{record['key']}: done\n" in text
    assert "metric=harness/mse" in text
    assert "1 records, 0 damaged" in call(folder, "results", "verify").output
    call(folder, "results", "show", "zzz", raises=UsageError)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_rows_are_exported(folder: Path, form: str, tmp_path: Path) -> None:
    assert call(folder, "results", "export", "--rows", "--format", form, "--to", str(tmp_path)).exit_code == 0
    path = tmp_path / f"perceptual-distance.{form}"
    if form == "parquet":
        rows = pq.read_table(path).to_pylist()
    elif form == "json":
        rows = json.loads(path.read_text())
    else:
        rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 6
    assert {row["metric"] for row in rows} == {"harness/mse"}
    (record,) = json.loads(call(folder, "results", "list", "--json").output)["records"]
    assert json.loads(call(folder, "results", "show", record["key"], "--json").output)["facts"]["ms"] > 0
    assert "ms" not in rows[0]  # a measured time differs from run to run, as rows do not


def test_exported_rows_are_those_of_the_latest_run(tmp_path: Path) -> None:
    for limit in ("6", "4"):
        assert call(tmp_path, *WORDS[:-6], "--limit", limit, *WORDS[-4:]).exit_code == 0
    words = ["results", "export", "--rows", "--format", "csv", "--to", "rows"]
    assert "4 rows" in call(tmp_path, *words).output
    rows = list(csv.DictReader((tmp_path / "rows" / "perceptual-distance.csv").read_text().splitlines()))
    assert len(rows) == 4
    call(tmp_path, *words, "--track", "iqa", raises=UsageError)


def test_tables_are_exported(folder: Path, tmp_path: Path) -> None:
    words = ["results", "export", "--track", "perceptual"]
    printed = call(folder, *words, "--format", "latex", "--caption", "Mine").output
    assert printed.count("\\begin{tabular}") == 2
    assert "\\caption{Mine Part 1 of 2.}" in printed
    result = call(folder, *words, "--format", "parquet", "--to", str(tmp_path / "a.parquet"), "--columns", "rank")
    assert result.output == f"{tmp_path / 'a.parquet'}\n"
    assert pq.read_table(tmp_path / "a.parquet")["metric"].to_pylist() == ["harness/mse"]
    tables = ["--table", "ranking", "--table", "agreement"]
    call(folder, *words, "--format", "csv", *tables, "--to", str(tmp_path / "folder"))
    names = {file.name for file in (tmp_path / "folder").iterdir()}
    assert names == {"perceptual-ranking.csv", "perceptual-agreement.csv"}
    for wrong in (
        ["--format", "csv", *tables],
        ["--format", "xlsx"],
        ["--format", "latex", *tables, "--caption", "x"],
        ["--format", "latex", "--rows"],
        ["--format", "csv", "--rows", "--columns", "rank"],
    ):
        call(folder, *words, *wrong, raises=UsageError)
    call(folder, "results", "export", "--track", "percptual", "--format", "csv", raises=UsageError)


def test_dry_run_says_what_is_done(folder: Path) -> None:
    facts = json.loads(call(folder, *WORDS, "--dry-run", "--json").output)
    assert facts["tasks"] == [{"track": "harness/perceptual", "step": "distance", "tasks": 1, "done": 1}]


@pytest.mark.parametrize("command", ["run --all", "plugins check jpeg", "iqa calibrate --attack ifgsm --metric nima"])
@pytest.mark.parametrize("seed", ["-1", str(2**63), "1.5", "x"])
def test_a_seed_is_a_whole_number_from_0(command: str, seed: str) -> None:
    with pytest.raises(click.BadParameter, match=rf"a seed is a whole number from 0 to 2\^63 - 1, not {seed}\.$"):
        cli.main([*command.split(), "--seed", seed], standalone_mode=False)


def test_fresh_computes_again_and_gets_the_same(folder: Path) -> None:
    planned = json.loads(call(folder, *WORDS, "--fresh", "--dry-run", "--json").output)
    assert {step["done"] for step in planned["tasks"]} == {0}
    facts = json.loads(call(folder, *WORDS, "--fresh", "--json").output)
    assert (facts["done"], facts["reused"]) == (1, 0)


def test_a_narrower_run_adds_to_the_table(folder: Path) -> None:
    words = [word if word != "mse" else "mae" for word in WORDS]
    assert call(folder, *words).exit_code == 0
    leaderboard = json.loads((folder / "store" / "leaderboards" / "harness--perceptual.json").read_text())
    assert {row["label"] for row in leaderboard["tables"][0]["rows"]} == {"harness/mse", "harness/mae"}


def test_site_build(folder: Path, tmp_path: Path) -> None:
    out = call(folder, "site", "build", "--site", str(tmp_path / "s")).output
    assert " pages" in out
    assert (tmp_path / "s" / "perceptual.html").is_file()


def test_plugins(folder: Path) -> None:
    facts = json.loads(call(folder, "plugins", "list", "--kind", "attack", "--json").output)
    assert {c["kind"] for c in facts["components"]} == {"attack"}
    text = call(folder, "plugins", "show", "square").output
    for fragment in ("Andriushchenko", "queries", ">= 2", "10000", "Apache-2.0"):
        assert fragment in text
    call(folder, "plugins", "show", "sqare", raises=UsageError)


def test_doctor_and_assets(folder: Path) -> None:
    facts = json.loads(call(folder, "doctor", "--json").output)
    assert facts["left_out"] == {}
    assert "squeezenet1-1-features" in {
        a["name"] for a in json.loads(call(folder, "assets", "list", "--json").output)["assets"]
    }
    call(folder, "assets", "get", "nothing", raises=UsageError)


def test_train_lists_trainings(folder: Path) -> None:
    assert "harness/embedded-cnn" in call(folder, "train").output


def test_no_colour_and_no_bars_outside_a_terminal(folder: Path) -> None:
    assert "\x1b" not in call(folder, *WORDS, "--fresh").output
