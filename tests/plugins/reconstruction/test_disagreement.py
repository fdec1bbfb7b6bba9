"""The originals on which two metrics disagree most are drawn, and no others."""

import re
from pathlib import Path

import pytest
import scipy.stats
from click.testing import CliRunner
from PIL import Image
from tests.conftest import without_site

from imharness.cli import cli
from imharness.commands import query
from imharness_reconstruction.disagreement import disagreements

PROFILE = """
name = "small"
description = "For a test."

[tracks."harness/reconstruction"]
select = { dataset = ["thumbnails[size=16,per_photograph=1]"], model = ["untrained"], attack = ["invgrad[steps=8]"], defense = ["*"], metric = ["psnr", "semsim", "mse"] }
options = { epochs = 1, judge = "harness/lenet" }
"""  # noqa: E501


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rebuilt")
    (root / "small.toml").write_text(PROFILE)
    run = ["run", "--track", "reconstruction", "--profile", str(root / "small.toml"), "--limit", "4", "--workers", "0"]
    with without_site():
        found = CliRunner().invoke(cli, [*run, "--store", str(root / "store"), "--site", str(root / "site")])
    assert found.exit_code == 0, found.output
    return root / "store"


def test_originals_come_in_the_order_of_kendalls_tau(store: Path) -> None:
    found = query(store, "harness/reconstruction")
    made = disagreements(found, "harness/psnr", "harness/semsim")
    assert len(made) == 4
    assert [d.tau for d in made] == sorted(d.tau for d in made)
    for own in made:
        rows = found(
            "SELECT metric, defense, score FROM leakage WHERE metric IN ('harness/psnr', 'harness/semsim') "
            f"AND name = '{own.name}' ORDER BY metric, defense"
        )
        psnr, semsim = rows["score"][:10], rows["score"][10:]
        assert own.tau == pytest.approx(scipy.stats.kendalltau(psnr, -semsim).statistic)
    same = disagreements(found, "harness/psnr", "harness/mse")
    assert all(d.tau == pytest.approx(1) for d in same)  # PSNR is a function of the squared error


def test_the_command_draws_the_most_different_ones(store: Path, tmp_path: Path) -> None:
    words = ["reconstruction", "disagreement", "--store", str(store), "--out", str(tmp_path / "drawn"), "--count", "2"]
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 0, found.output
    most = disagreements(query(store, "harness/reconstruction"), "harness/psnr", "harness/semsim")[:2]
    said = re.findall(r"(\S+), tau (-?\d\.\d\d)", found.output)
    assert said == [(d.name, f"{d.tau:.2f}") for d in most]
    files = sorted((tmp_path / "drawn").iterdir())
    assert [f.name for f in files] == ["00.png", "01.png"]
    for file in files:
        with Image.open(file) as drawn:
            assert drawn.size[0] > 1000  # an original and ten reconstructions
    alone = CliRunner().invoke(cli, [*words, "--metric", "psnr"])
    assert "give --metric twice" in str(alone.exception)
