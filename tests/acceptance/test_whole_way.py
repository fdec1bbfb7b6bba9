"""One command, small but real: plan, run in workers, store, rank, publish; then the same again for nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = """
name = "small"
description = "Two splits of digits."
[tracks."harness/membership"]
select = { dataset = ["digits"], model = ["mlp[hidden=(64,)]"], defense = ["plain-training", "early-stopping"], evaluator = ["confidence", "confidence[per_class=False]", "correctness", "entropy"] }
options = { splits = 2, epochs = 20 }
"""  # noqa: E501


def rows(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(store.glob("rows/*/*.parquet"))}


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
    assert facts["done"] == facts["cells"] > 0
    assert facts["failed"] == {}
    board = json.loads((folder / "store" / "boards" / "harness--membership.json").read_text())
    places = [row["values"]["rank"]["value"] for row in board["tables"][0]["rows"]]
    ranked = [place for place in places if place is not None]
    assert places[: len(ranked)] == sorted(ranked)
    assert facts["winners"]["harness/membership"] == board["rankings"][0]["winner"]
    assert facts["claims"]["harness/membership"] == board["rankings"][0]["claim"]
    assert facts["findings"]["harness/membership"] == board["rankings"][0]["findings"]
    page = (folder / "site" / "membership.html").read_text()
    assert "harness/early-stopping" in page
    assert "harness/plain-training" in page


def test_the_second_run_computes_nothing(first: tuple[Path, dict], harness_here) -> None:
    folder, facts = first
    again = harness_here("run", "--all", "--profile", "small.toml", "--device", "cpu", "--json", cwd=folder)
    assert json.loads(again.stdout)["reused"] == facts["cells"]


def test_in_process_rows_are_the_same_bytes(first: tuple[Path, dict], harness_here, no_site) -> None:
    folder, _ = first
    words = ("run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", "0", "--store", "other")
    assert harness_here(*words, cwd=folder).returncode == 0
    assert rows(folder / "other") == rows(folder / "store")


def test_damage_is_named_and_mended(first: tuple[Path, dict], harness_here, no_site) -> None:
    folder, facts = first
    before = rows(folder / "store")
    victims = sorted((folder / "store").glob("rows/*/*.parquet"))
    victims[0].write_bytes(victims[0].read_bytes()[:-10])
    record = sorted((folder / "store").glob("tasks/*/*.json"))[-1]
    record.write_text(record.read_text().replace('"seconds"', '"seconds" ', 1).replace('"done"', '"failed"', 1))
    check = harness_here("results", "verify", cwd=folder)
    assert check.returncode == 1
    assert "2 damaged" in check.stdout
    again = harness_here(
        "run", "--all", "--profile", "small.toml", "--device", "cpu", "--workers", "0", "--json", cwd=folder
    )
    assert again.returncode == 0
    assert victims[0].name in again.stderr.replace("\n", "")
    assert json.loads(again.stdout)["reused"] == facts["cells"] - 2
    assert rows(folder / "store") == before


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
    ("words", "part"),
    [
        (["run"], "say what to run"),
        (["run", "--track", "membershp"], "Did you mean"),
        (["run", "--all", "--defense", "early-stoping"], "Did you mean"),
        (["run", "--all", "--profile", "nothing"], "one of: cifar10, cifar10-membership, embedded"),
        (["run", "--all", "--device", "cuda:99"], "not on this machine"),
    ],
)
def test_wrong_usage_is_one_clear_line(words: list[str], part: str, tmp_path: Path, harness_here) -> None:
    result = harness_here(*words, cwd=tmp_path)
    assert result.returncode == 2
    assert part in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
