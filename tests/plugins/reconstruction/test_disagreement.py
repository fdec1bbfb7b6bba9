"""The originals on which two metrics disagree most are drawn, and no others."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image
from tests.conftest import without_site

from imharness.cli import cli
from imharness.commands import query
from imharness_reconstruction.disagreement import disagreements
from imharness_reconstruction.export import recognised
from imharness_reconstruction.recognition import verdicts

PROFILE = """
name = "small"
description = "For a test."

[tracks."harness/reconstruction"]
select = { dataset = ["thumbnails[size=16,per_photograph=1]"], model = ["untrained"], attack = ["invgrad[steps=8]"], defense = ["*"], metric = ["psnr", "semsim", "mse"] }
options = { epochs = 1, judge = "harness/lenet" }
"""  # noqa: E501


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of a finished run of `PROFILE` on four images."""
    root = tmp_path_factory.mktemp("rebuilt")
    (root / "small.toml").write_text(PROFILE)
    run = ["run", "--track", "reconstruction", "--profile", str(root / "small.toml"), "--limit", "4", "--workers", "0"]
    with without_site():
        result = CliRunner().invoke(cli, [*run, "--store", str(root / "store"), "--site", str(root / "site")])
    assert result.exit_code == 0, result.output
    return root / "store"


def test_originals_come_in_the_order_of_kendalls_tau(store: Path) -> None:
    store_query = query(store, "harness/reconstruction")
    ordered = disagreements(store_query, "harness/psnr", "harness/semsim")
    assert len(ordered) == 4
    assert [d.tau for d in ordered] == sorted(d.tau for d in ordered)
    for disagreement in ordered:
        rows = store_query(
            "SELECT metric, defense, score FROM leakage WHERE metric IN ('harness/psnr', 'harness/semsim') "
            f"AND name = '{disagreement.name}' ORDER BY metric, defense"
        )
        psnr, semsim = rows["score"][:10], rows["score"][10:]  # of ten defenses; a smaller SemSim is closer
        assert disagreement.tau == pytest.approx(scipy.stats.kendalltau(psnr, -semsim).statistic)
    same = disagreements(store_query, "harness/psnr", "harness/mse")
    assert all(d.tau == pytest.approx(1) for d in same)  # PSNR is a function of the squared error


def test_the_command_draws_the_most_different_ones(store: Path, tmp_path: Path, figures: list[Figure]) -> None:
    words = ["reconstruction", "disagreement", "--store", str(store), "--out", str(tmp_path / "drawn"), "--count", "2"]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    most = disagreements(query(store, "harness/reconstruction"), "harness/psnr", "harness/semsim")[:2]
    matches = re.findall(r"(\S+), tau (-?\d\.\d\d)", result.output)
    assert matches == [(d.name, f"{d.tau:.2f}") for d in most]
    files = sorted((tmp_path / "drawn").iterdir())
    assert [f.name for f in files] == ["00.png", "01.png"]
    for file in files:
        with Image.open(file) as drawn:
            assert drawn.size[0] > 1000  # an original and ten reconstructions
    rows = query(store, "harness/reconstruction")
    judged = recognised(rows(verdicts(rows)))
    for figure, each in zip(figures, most, strict=True):
        by_task: list[dict] = []
        for line, closeness in zip(np.array(figure.axes).reshape(2, -1), (each.first, each.second), strict=True):
            order = np.argsort(-closeness, kind="stable")
            assert [axis.get_title() for axis in line] == ["original", *(f"{x:.3g}" for x in closeness[order])]
            by_task.append({each.conditions[position]: axis for position, axis in zip(order, line[1:], strict=True)})
        for task, axis in by_task[0].items():
            (one,), (same,) = axis.images, by_task[1][task].images
            np.testing.assert_array_equal(one.get_array(), same.get_array())
            frame = to_hex(axis.spines["top"].get_edgecolor())
            assert frame == ("#009e73" if judged[task, each.name] else "#d55e00")
    alone = CliRunner().invoke(cli, [*words, "--metric", "psnr"])
    assert "give --metric twice" in str(alone.exception)
