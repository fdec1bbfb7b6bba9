"""Attacked images that exist: an export comes back with equal numbers, and the authors' layout is read."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from tests.conftest import without_site

import imharness as ih
from imharness.cli import cli
from imharness.commands import component, finished
from imharness.errors import ContractError, UsageError
from imharness_iqa.attacked_folder import Condition, attacked_folder, indexed

pytestmark = pytest.mark.filterwarnings("ignore:.*equal their originals")
"""Patch-RS with four queries moves none of the four images of a run."""
PROFILE = """
name = "small"
description = "A small run."
[tracks."harness/iqa"]
select = { dataset = ["severity-ladder[per_photograph=2,size=32]"], metric = ["embedded-cnn", "embedded-residual"], \
attack = ["ifgsm", "patch-rs[queries=4]"], defense = ["none", "flip", "rotate", "jpeg"] }
options = { strengths = ["weak", "medium"], adaptive = ["harness/ifgsm"] }
"""
COLUMNS = ("score", "psnr", "ssim", "mse", "linf", "psnr_undone", "defended_psnr")


def run(profile: Path, root: Path) -> None:
    words = ["run", "--track", "iqa", "--profile", str(profile), "--limit", "4", "--workers", "0"]
    with without_site():
        result = CliRunner().invoke(cli, [*words, "--store", str(root / "store"), "--site", str(root / "site")])
    assert result.exit_code == 0, result.output


def invoked(*words: str) -> str:
    result = CliRunner().invoke(cli, ["iqa", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Return the folder of a run, that of a run on its exported images, and the export."""
    root = tmp_path_factory.mktemp("attacked")
    (root / "a").mkdir()
    (root / "a" / "small.toml").write_text(PROFILE)
    run(root / "a" / "small.toml", root / "a")
    out = root / "out"
    licence = "https://creativecommons.org/licenses/by/4.0/"
    invoked("export", "--store", str(root / "a" / "store"), "--out", str(out), "--licence", licence)
    profile = root / "again.toml"
    defenses = [word for name in ("flip", "rotate", "jpeg") for word in ("--defense", name)]
    output = invoked("import-images", str(out), "--out", str(profile), *defenses)
    assert "32 attacked images of 4 originals, 8 conditions" in output
    assert "with knowledge of a defense, and are left out" in output
    assert f"harness run --track iqa --profile {profile}" in output
    run(profile, root / "b")
    return root / "a", root / "b", out


def scores(root: Path) -> dict[tuple, dict[str, dict[str, float]]]:
    """Return condition -> name -> numbers, of attacks that do not know the defense."""
    results = {}
    for task in finished(root / "store", "harness/iqa", "evaluate"):
        if task.options["adaptive"]:
            continue
        method = str(task.options["method"]).replace("[", "(").replace("]", ")")
        if method.startswith("harness/recorded"):
            method = component("attack", str(task.options["method"])).method
        key = (task.labels["metric"], task.labels["defense"], method, task.options["strength"])
        rows = task.output.rows
        results[key] = {
            str(name): {column: float(rows[column][i]) for column in COLUMNS} for i, name in enumerate(rows["name"])
        }
    return results


def test_an_export_comes_back_with_equal_numbers(both: tuple[Path, Path, Path]) -> None:
    first, again = scores(both[0]), scores(both[1])
    assert len(first) == len(again) == 2 * 4 * 2 * 2  # metrics, defenses, attacks, strengths
    assert first.keys() == again.keys()
    for key, numbers in first.items():
        assert numbers.keys() == again[key].keys(), key
        for name, columns in numbers.items():
            assert list(columns.values()) == pytest.approx(list(again[key][name].values()), rel=1e-5, nan_ok=True), key


def test_opinions_come_back_too(both: tuple[Path, Path, Path]) -> None:
    opinions = []
    for root in both[:2]:
        (task, *_) = finished(root / "store", "harness/iqa", "clean")
        opinions.append(dict(zip(task.output.rows["name"], task.output.rows["mos"], strict=True)))
    assert opinions[0] == opinions[1]
    assert len(opinions[0]) == 4


def picture(file: Path, value: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((16, 16, 3), value, dtype=np.uint8)).save(file)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The authors' layout: two presets of one attack on one metric, and another attack on some of the originals."""
    for i in range(3):
        picture(tmp_path / "originals" / f"{i}.png", i)
        for preset in ("preset_0", "preset_1"):
            picture(tmp_path / "attacked" / preset / "ifgsm" / "embedded-cnn" / f"{i}.png", 10 + i)
    picture(tmp_path / "attacked" / "preset_0" / "nes" / "embedded-cnn" / "1.png", 20)
    (tmp_path / "mos.csv").write_text("image_name,MOS\n0.jpg,3\n1.jpg,1\n2.jpg,2\n")
    return tmp_path


def read(root: Path, **changes):
    arguments = {"originals": root / "originals", "scores": root / "mos.csv", "renamed": ()} | changes
    return indexed(root / "attacked", installed=component, **arguments)


def test_an_attacked_image_of_another_original_is_refused(tmp_path: Path) -> None:
    """Without the check, files whose names were mixed up counted as a strong attack."""
    scenes = np.random.default_rng(0).integers(0, 256, (2, 16, 16, 3), dtype=np.uint8)
    for i, scene in enumerate(scenes):
        for file, pixels in (("originals", scene), ("attacked/ifgsm/embedded-cnn", scenes[1 - i] // 2)):
            (tmp_path / file).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / file / f"{i}.png")
    read(tmp_path, scores=None)
    path = f"path={tmp_path / 'attacked'}"
    recorded = component("attack", f"recorded[method=ifgsm,metric=harness/embedded-cnn,strength=given,{path}]")
    images = torch.from_numpy(scenes).permute(0, 3, 1, 2) / 255
    with pytest.raises(ContractError, match=r"0\.png looks like .*1\.png, and not like .*0\.png, from which"):
        recorded.build(torch.device("cpu"))(images, None, None)
    for i, scene in enumerate(scenes):
        Image.fromarray(255 - scene // 4).save(tmp_path / "attacked" / "ifgsm" / "embedded-cnn" / f"{i}.png")
    assert recorded.build(torch.device("cpu"))(images, None, None).shape == images.shape
    for i, scene in enumerate(scenes):
        Image.fromarray(scene).save(tmp_path / "attacked" / "ifgsm" / "embedded-cnn" / f"{i}.png")
    with pytest.warns(UserWarning, match="images of ifgsm for harness/embedded-cnn, given, equal their originals"):
        recorded.build(torch.device("cpu"))(images, None, None)


def test_attacked_images_that_are_jpeg_are_said(published: Path) -> None:
    """JPEG is a defense: attacked images that were saved as JPEG count as weaker attacks, so the command says so."""
    read(published)
    attacked, profile = published / "attacked", published / "p.toml"
    assert "JPEG" not in invoked("import-images", str(attacked), "--out", str(profile))
    file = attacked / "preset_0" / "nes" / "embedded-cnn" / "1.png"
    Image.open(file).save(file, format="JPEG")
    assert "1 attacked images are JPEG" in invoked("import-images", str(attacked), "--out", str(profile))
    file.unlink()
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        invoked("import-images", str(attacked), "--out", str(profile))


def test_the_layout_of_the_paper_gets_an_index(published: Path) -> None:
    listed = read(published)
    metric = "harness/embedded-cnn"
    assert set(listed.attacked) == {
        Condition(metric, "ifgsm", "0"),
        Condition(metric, "ifgsm", "1"),
        Condition(metric, "nes", "0"),
    }
    assert [len(files) for files in listed.sets] == [3, 1]
    assert (listed.strengths(metric, "ifgsm", 0), listed.strengths(metric, "ifgsm", 1)) == (["0", "1"], [])
    assert listed.strengths(metric, "nes", 1) == ["0"]
    images = component("dataset", f"attacked-originals[path={published / 'attacked'}]").build(None)
    assert dict(zip(images.names, images.columns["mos"].tolist(), strict=True)) == {"0.png": 3, "1.png": 1, "2.png": 2}
    out = published / "p.toml"
    output = invoked("import-images", str(published / "attacked"), "--out", str(out))
    assert "7 attacked images of 3 originals, 3 conditions" in output
    plan = CliRunner().invoke(cli, ["run", "--track", "iqa", "--profile", str(out), "--dry-run", "--json"])
    assert plan.exit_code == 0, plan.output
    assert json.loads(plan.output)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"originals": None}, "name the folder of the originals"),
        ({"renamed": ("embedded-cnn",)}, "write FOLDER=NAME"),
        ({"renamed": ("embedded-cnn=nosuch",)}, "nosuch"),
    ],
)
def test_what_is_missing_is_named(published: Path, change: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(published, **change)


def test_an_image_without_an_original_or_a_score_is_named(published: Path) -> None:
    picture(published / "attacked" / "preset_0" / "ifgsm" / "embedded-cnn" / "9.png", 3)
    with pytest.raises(UsageError, match=r"embedded-cnn/9\.png: .* has no original called 9"):
        read(published)
    picture(published / "originals" / "9.png", 9)
    with pytest.raises(UsageError, match=r"9\.png: .*mos\.csv has no score of 9"):
        read(published)


@pytest.mark.parametrize(
    ("file", "scores", "message"),
    [
        ("originals/1.jpg", "", r"originals has 1\.jpg and 1\.png: attacked images are matched by the name without"),
        ("", "0.jpg,3\n1.jpg,1\n2.jpg,2\n1.png,5\n", r"mos\.csv has 1\.jpg and 1\.png: attacked images are matched"),
        ("", "a/0.jpg,3\nb/0.jpg,1\n1.jpg,1\n2.jpg,2\n", r"mos\.csv has a/0\.jpg and b/0\.jpg: attacked images"),
    ],
)
def test_two_originals_or_two_scores_of_one_name_are_named(
    published: Path, file: str, scores: str, message: str
) -> None:
    if file:
        picture(published / file, 9)
    if scores:
        (published / "mos.csv").write_text(f"image_name,MOS\n{scores}")
    with pytest.raises(UsageError, match=message):
        read(published)


def test_options_that_an_index_makes_useless_are_named(published: Path) -> None:
    read(published, scores=None)
    (published / "mos.csv").write_text("image_name,MOS\n0.jpg,1\n1.jpg,2\n2.jpg,3\n")
    with pytest.raises(UsageError, match=r"attacked has index\.csv, which says what --originals and --mos would say"):
        read(published)
    (published / "attacked" / "index.csv").unlink()
    assert [facts["mos"] for facts in read(published).originals.values()] == ["1.0", "2.0", "3.0"]


def test_a_line_that_contradicts_another_is_named(published: Path) -> None:
    read(published)
    index = published / "attacked" / "index.csv"
    lines = list(csv.DictReader(index.read_text().splitlines()))
    with index.open("a") as file:
        csv.DictWriter(file, list(lines[0])).writerow({**lines[0], "file": "again.png"})
    with pytest.raises(UsageError, match=r"index\.csv, line 9: a second image of"):
        attacked_folder(published / "attacked")


def test_swapped_columns_of_an_index_are_noticed_where_two_attacks_have_one_original(published: Path) -> None:
    """Without the check, originals counted as attacked images, and each attacked image as an original of its own."""
    read(published)
    index = published / "attacked" / "index.csv"
    header, rest = index.read_text().split("\n", 1)
    swapped = {"file": "original", "original": "file"}
    index.write_text("\n".join([",".join(swapped.get(name, name) for name in header.split(",")), rest]))
    with pytest.raises(UsageError, match=r"is the attacked image of line \d, too; are the columns file and original"):
        attacked_folder(published / "attacked")


def test_folders_that_were_swapped_are_named(tmp_path: Path) -> None:
    """With one attack only the scores tell originals from attacked images; else defenses are ranked on clean ones."""
    rng = np.random.default_rng(0)
    metric = "embedded-cnn"
    for number in range(6):
        coarse = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize((48, 48), Image.Resampling.BICUBIC))
        noisy = (smooth + rng.normal(0, 25, smooth.shape)).clip(0, 255).astype(np.uint8)
        pair = [torch.from_numpy(image.copy()).permute(2, 0, 1)[None] for image in (smooth, noisy)]
        worse, better = sorted(pair, key=lambda image: float(ih.score(metric, image)[0]))
        for folder, image in (("originals", better), (f"attacked/pgd/{metric}", worse)):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[0].permute(1, 2, 0).numpy()).save(tmp_path / folder / f"{number}.png")
    profile = tmp_path / "attacked.toml"
    words = ["--originals", str(tmp_path / "originals"), "--defense", "jpeg", "--out", str(profile)]
    invoked("import-images", str(tmp_path / "attacked"), *words)
    store = ["--store", str(tmp_path / "store"), "--site", str(tmp_path / "site")]
    with without_site():
        done = CliRunner().invoke(cli, ["run", "--track", "iqa", "--profile", str(profile), "--workers", "0", *store])
    assert done.exit_code == 0, done.output
    (leaderboard,) = (json.loads(path.read_text()) for path in (tmp_path / "store" / "leaderboards").glob("*iqa*.json"))
    line = "embedded-cnn 6 of 6 attacked images are worse than before the attack, which usually raises scores; "
    assert line + "are the attacked images and their originals swapped?" in json.dumps(leaderboard)
