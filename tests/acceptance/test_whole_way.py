"""A small run by one command: plan, run in workers, store, rank, publish; the second run computes nothing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rows_of import files_of, rows_of

SMALL = """
name = "small"
description = "Two splits of digits."
[tracks."harness/membership"]
select = { dataset = ["digits"], model = ["mlp[hidden=(64,)]"], defense = ["plain-training", "early-stopping"], evaluator = ["confidence", "confidence[per_class=False]", "correctness", "entropy"] }
options = { splits = 2, epochs = 20 }
"""  # noqa: E501


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, harness) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("run")
    (folder / "small.toml").write_text(SMALL)
    result = harness(
        "run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", "2", "--json", cwd=folder
    )
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_everything_is_computed_and_published(first: tuple[Path, dict]) -> None:
    folder, facts = first
    assert facts["done"] == facts["tasks"] > 0
    assert facts["failed"] == {}
    leaderboard = json.loads((folder / "store" / "leaderboards" / "harness--membership.json").read_text())
    places = [row["values"]["rank"]["value"] for row in leaderboard["tables"][0]["rows"]]
    ranked = [rank for rank in places if rank is not None]
    assert places[: len(ranked)] == sorted(ranked)
    keys = ("table", "outcome", "winner", "claim")
    wanted = [{key: ranking[key] for key in keys} for ranking in leaderboard["rankings"]]
    assert facts["headlines"]["harness/membership"] == wanted
    assert facts["findings"]["harness/membership"] == leaderboard["rankings"][0]["findings"]
    page = (folder / "site" / "membership.html").read_text()
    assert "harness/early-stopping" in page
    assert "harness/plain-training" in page


def test_the_second_run_computes_nothing(first: tuple[Path, dict], harness_here) -> None:
    folder, facts = first
    again = harness_here("run", "--all", "--profile", "small.toml", "--device", "cpu", "--json", cwd=folder)
    assert json.loads(again.stdout)["reused"] == facts["tasks"]


def test_in_process_rows_are_the_same_bytes(first: tuple[Path, dict], harness_here, no_site) -> None:
    folder, _ = first
    words = ("run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", "0", "--store", "other")
    assert harness_here(*words, cwd=folder).returncode == 0
    assert rows_of(folder / "other") == rows_of(folder / "store")


def test_damage_is_named_and_mended(first: tuple[Path, dict], harness_here, no_site) -> None:
    folder, facts = first
    before = rows_of(folder / "store")
    first, *_, last = files_of(folder / "store")
    first.write_bytes(first.read_bytes()[:-10])
    last.write_bytes(last.read_bytes().replace(b'"seconds"', b'"sekonds"'))
    ranked = harness_here("results", "rank", cwd=folder)
    assert ranked.returncode == 1
    assert "is damaged" in ranked.stderr
    again = harness_here(
        "run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", "0", "--json", cwd=folder
    )
    assert again.returncode == 0
    assert {first.name, last.name} <= {*re.findall(r"\w+\.\d+\.\w+\.\w+\.parquet", again.stderr)}
    assert json.loads(again.stdout)["reused"] == facts["tasks"] - 2
    assert rows_of(folder / "store") == before
    checked = harness_here("results", "verify", cwd=folder)
    assert checked.returncode == 0, checked.stdout


def test_help_imports_neither_torch_nor_plugins(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom imharness.cli import cli\n"
        "for words in (['--help'], ['--version'], ['run', '-h'], ['site', '-h'], ['iqa', 'import', '-h'],\n"
        "              ['plugins', '-h'], ['plugins', 'new', '-h'], ['plugins', 'check', '-h']):\n"
        "    cli.main(words, standalone_mode=False)\n"
        "light = {'imharness_iqa', 'imharness_iqa.command', 'imharness_membership', 'imharness_membership.command'}\n"
        "heavy = [m for m in sys.modules if m == 'torch' or m.startswith(('imharness_iqa', 'imharness_membership'))]\n"
        "print(sorted(set(heavy) - light))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert result.stdout.strip().endswith("[]")
    for command in ("list", "show", "new", "check"):
        assert f"\n  {command} " in result.stdout


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["run"], "say what to run"),
        (["run", "--track", "membershp"], "Did you mean"),
        (["run", "--all", "--defense", "early-stoping"], "Did you mean"),
        (["run", "--all", "--profile", "nothing"], "one of: cifar10, cifar10-membership, embedded"),
        (["run", "--all", "--device", "cuda:99"], "not on this machine"),
    ],
)
def test_wrong_usage_is_one_clear_line(words: list[str], fragment: str, tmp_path: Path, harness_here) -> None:
    result = harness_here(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert fragment in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
