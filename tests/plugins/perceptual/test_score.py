"""`harness score`: metrics of images and folders from the command line."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from imharness.cli import cli
from imharness.errors import UsageError
from imharness_perceptual import command


def run(*words: object):
    return CliRunner().invoke(cli, ["score", *map(str, words)], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for subfolder in ("a", "b"):
        (tmp_path / subfolder).mkdir()
    for name, side in (("one.png", 40), ("two.png", 40), ("three.png", 48)):
        clean = rng.integers(40, 200, (side, side, 3), dtype=np.uint8)
        Image.fromarray(clean).save(tmp_path / "a" / name)
        Image.fromarray(clean + (0 if name == "one.png" else 10)).save(tmp_path / "b" / name)
    return tmp_path


def test_folders_are_matched_by_name(folder: Path) -> None:
    items = json.loads(run("mse", "linf", "--reference", folder / "a", folder / "b", "--json").output)["images"]
    scores = {Path(item["image"]).name: item["scores"] for item in items}
    assert scores["one.png"] == {"harness/mse": 0, "harness/linf": 0}
    for name in ("two.png", "three.png"):
        assert scores[name]["harness/mse"] == pytest.approx((10 / 255) ** 2, rel=1e-4)
        assert scores[name]["harness/linf"] == pytest.approx(10 / 255, rel=1e-5)
    table = run("psnr", "--reference", folder / "a" / "two.png", folder / "b" / "two.png").output
    assert "28.13" in table
    assert "psnr" in table
    assert "harness/" not in table


def test_metrics_without_reference_score_images_alone(folder: Path) -> None:
    items = json.loads(run("embedded-cnn", folder / "a" / "one.png", folder / "a", "--json").output)["images"]
    assert len(items) == 4
    same = [item["scores"]["harness/embedded-cnn"] for item in items if item["image"].endswith("one.png")]
    assert same[0] == pytest.approx(same[1], abs=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
def test_scores_stand_in_the_order_of_the_images_however_long_each_takes_to_read(
    tmp_path: Path, monkeypatch, threads: int
) -> None:
    """Every third image takes longer to read; there are more images than one batch and the read-ahead hold."""
    count = command.BATCH + command.AHEAD + 3
    names = [f"{i:02d}.png" for i in range(count)]
    for i, name in enumerate(names):
        for subfolder, level in (("a", 0), ("b", 5 * i)):
            (tmp_path / subfolder).mkdir(exist_ok=True)
            Image.fromarray(np.full((8, 8, 3), level, dtype=np.uint8)).save(tmp_path / subfolder / name)
    reading, most, opened = [0], [0], command._opened

    def slow(path: Path) -> np.ndarray:
        reading[0] += 1
        most[0] = max(most[0], reading[0])
        time.sleep(0.01 * (int(path.stem) % 3 == 0))
        reading[0] -= 1
        return opened(path)

    monkeypatch.setattr(command, "_opened", slow)
    monkeypatch.setattr(command.os, "cpu_count", lambda: threads)
    for reference in (tmp_path / "a", tmp_path / "a" / "00.png"):
        items = json.loads(run("linf", "--reference", reference, tmp_path / "b", "--json").output)["images"]
        assert [Path(item["image"]).name for item in items] == names
        scores = [item["scores"]["harness/linf"] for item in items]
        np.testing.assert_allclose(scores, [5 * i / 255 for i in range(count)], atol=1e-6)
    assert (most[0] > 1) == (threads > 1)


def test_wrong_words_are_one_line(folder: Path) -> None:
    one, three = folder / "a" / "one.png", folder / "a" / "three.png"
    (folder / "no.png").write_bytes(b"nothing")
    (folder / "b" / "one.png").unlink()
    for words, message in (
        (("mse", one), "add --reference"),
        ((one,), "at least one metric"),
        (("embedded-cnn",), "at least one image"),
        (("mse", "--reference", one, three), "40x40"),
        (("embedded-cnn", folder / "no.png"), "not a readable image"),
        (("mse", "--reference", folder / "b", folder / "a"), "has no one.png"),
        (("fid", one), "is not on this machine|sets of images"),
    ):
        with pytest.raises(Exception, match=message) as error:
            run(*words)
        assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="Did you mean"):
        run("psn", "--reference", one, one)


def test_the_published_lpips_of_two_pairs(shared_data: Path) -> None:
    weights_folder = shared_data / "weights" / "lpips-squeeze"
    words = [
        "--reference",
        weights_folder / "ex_ref.png",
        weights_folder / "ex_p0.png",
        weights_folder / "ex_p1.png",
        "--json",
    ]
    items = json.loads(run("lpips[net=squeeze]", "--assets", shared_data, *words).output)["images"]
    values = [item["scores"]["harness/lpips[net=squeeze]"] for item in items]
    assert values == pytest.approx([0.71105, 0.14790], abs=2e-5)


def test_a_turned_photograph_is_compared_upright(tmp_path: Path) -> None:
    y, x = np.mgrid[:96, :64]
    image = Image.fromarray(np.stack([y * 2, x * 3, x + y], -1).astype(np.uint8))
    image.save(tmp_path / "reference.png")
    exif = Image.Exif()
    exif[0x0112] = 8  # orientation: to be turned by 270 degrees
    for ending in ("jpg", "webp", "png", "tiff", "avif"):
        image.transpose(Image.Transpose.ROTATE_270).save(tmp_path / f"turned.{ending}", exif=exif, quality=98)
    turned = [tmp_path / f"turned.{ending}" for ending in ("jpg", "webp", "png", "tiff", "avif")]
    items = json.loads(run("psnr", "--reference", tmp_path / "reference.png", *turned, "--json").output)["images"]
    assert min(item["scores"]["harness/psnr"] for item in items) > 35


def test_folders_are_looked_into_and_files_left_out_are_counted(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name / "deep").mkdir()
        (folder / name / "two.png").rename(folder / name / "deep" / "one.png")
        (folder / name / ".hidden.png").write_bytes(b"no image")
    (folder / "b" / "x.heic").write_bytes(b"\0\0\0\x18ftypheic")
    result = run("mse", "--reference", folder / "a", folder / "b", "--json")
    assert "of 4 image files 3 are used; left out: 1 HEIC" in result.stderr
    items = json.loads(result.stdout)["images"]
    assert [Path(item["image"]).relative_to(folder).as_posix() for item in items] == [
        "b/deep/one.png",
        "b/one.png",
        "b/three.png",
    ]
    assert [item["scores"]["harness/mse"] > 0 for item in items] == [True, False, True]
    with pytest.raises(UsageError, match=r"has no deep/one\.png"):
        run("mse", "--reference", folder / "a" / "deep", folder / "b")


def test_the_name_of_a_photograph_that_is_not_there_is_no_metric() -> None:
    for name in ("photo.HEIC", "photo.jfif", "photo.gif"):
        with pytest.raises(UsageError, match=f"image {name} does not exist"):
            run("mse", name)


def test_a_metric_named_twice_has_one_column(folder: Path) -> None:
    names = ["psnr", "harness/psnr", "mse", "psnr"]
    words = [*names, "--reference", folder / "a" / "two.png", folder / "b" / "two.png"]
    (item,) = json.loads(run(*words, "--json").output)["images"]
    assert list(item["scores"]) == ["harness/psnr", "harness/mse"]
    lines = run(*words).output.splitlines()
    head = next(line for line in lines if "psnr" in line)
    assert head.count("psnr") == 1
    scores = next(line for line in lines if "28.13" in line)
    assert scores.index("28.13") < head.index("mse") <= scores.index("0.00154")


def test_a_folder_with_the_name_of_a_metric_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "a").rename(folder / "linf")
    words = ("mse", "linf", "--reference", "linf", "b", "--json")
    with pytest.raises(
        UsageError, match=r"linf names a file or folder here and a metric; write \./linf or harness/linf"
    ):
        run(*words)
    columns = [set(item["scores"]) for item in json.loads(run("harness/linf", *words[2:]).output)["images"]]
    assert columns == [{"harness/linf"}] * 3
    assert len(json.loads(run("mse", "./linf", "--reference", "b", "--json").output)["images"]) == 3


def test_files_that_show_the_reference_of_another_one_are_named(tmp_path: Path) -> None:
    """Without the warning, images whose names are shifted by one would be compared with other photographs."""
    for kind in ("references", "same", "other"):
        (tmp_path / kind).mkdir()
    for i in range(3):
        noise = np.random.default_rng(i).integers(0, 256, (5, 6, 3), dtype=np.uint8)
        photograph = Image.fromarray(noise).resize((60, 50), Image.Resampling.BICUBIC)
        photograph.save(tmp_path / "references" / f"{i}.png")
        photograph.point(lambda value: value // 2).save(tmp_path / "same" / f"{i}.png")
        photograph.save(tmp_path / "other" / f"{(i + 1) % 3}.png")
    assert (
        "another reference" not in run("mse", "mae", "--reference", tmp_path / "references", tmp_path / "same").output
    )
    words = " ".join(run("mse", "mae", "--reference", tmp_path / "references", tmp_path / "other").output.split())
    assert words.count("3 of 3 images look like another reference than their own") == 1
