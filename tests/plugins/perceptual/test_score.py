"""`harness score`, the tool for every day."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from imharness.cli import cli
from imharness.errors import UsageError


def run(*words: object):
    return CliRunner().invoke(cli, ["score", *map(str, words)], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
    for name, side in (("one.png", 40), ("two.png", 40), ("three.png", 48)):
        clean = rng.integers(40, 200, (side, side, 3), dtype=np.uint8)
        Image.fromarray(clean).save(tmp_path / "a" / name)
        Image.fromarray(clean + (0 if name == "one.png" else 10)).save(tmp_path / "b" / name)
    return tmp_path


def test_folders_are_matched_by_name(folder: Path) -> None:
    found = json.loads(run("mse", "linf", "--reference", folder / "a", folder / "b", "--json").output)
    scores = {Path(item["image"]).name: item["scores"] for item in found}
    assert scores["one.png"] == {"harness/mse": 0, "harness/linf": 0}
    for name in ("two.png", "three.png"):
        assert scores[name]["harness/mse"] == pytest.approx((10 / 255) ** 2, rel=1e-4)
        assert scores[name]["harness/linf"] == pytest.approx(10 / 255, rel=1e-5)
    table = run("psnr", "--reference", folder / "a" / "two.png", folder / "b" / "two.png").output
    assert "28.13" in table
    assert "psnr" in table
    assert "harness/" not in table


def test_metrics_without_reference_score_images_alone(folder: Path) -> None:
    found = json.loads(run("embedded-cnn", folder / "a" / "one.png", folder / "a", "--json").output)
    assert len(found) == 4
    same = [item["scores"]["harness/embedded-cnn"] for item in found if item["image"].endswith("one.png")]
    assert same[0] == pytest.approx(same[1], abs=1e-5)


def test_wrong_words_are_one_line(folder: Path) -> None:
    one, three = folder / "a" / "one.png", folder / "a" / "three.png"
    (folder / "no.png").write_bytes(b"nothing")
    (folder / "b" / "one.png").unlink()
    for words, said in (
        (("mse", one), "add --reference"),
        ((one,), "at least one metric"),
        (("embedded-cnn",), "at least one image"),
        (("mse", "--reference", one, three), "40x40"),
        (("embedded-cnn", folder / "no.png"), "not a readable image"),
        (("mse", "--reference", folder / "b", folder / "a"), "has no one.png"),
        (("fid", one), "is not on this machine|sets of images"),
    ):
        with pytest.raises(Exception, match=said) as error:
            run(*words)
        assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="Did you mean"):
        run("psn", "--reference", one, one)


def test_the_published_lpips_of_two_pairs(shared_data: Path) -> None:
    place = shared_data / "weights" / "lpips-squeeze"
    words = ["--reference", place / "ex_ref.png", place / "ex_p0.png", place / "ex_p1.png", "--json"]
    found = json.loads(run("lpips[net=squeeze]", "--assets", shared_data, *words).output)
    values = [item["scores"]["harness/lpips[net=squeeze]"] for item in found]
    assert values == pytest.approx([0.71105, 0.14790], abs=2e-5)
