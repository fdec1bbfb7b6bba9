"""Folders of classes, read by two data sets: every image is used or named, and hidden folders are no classes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from imharness.components.registry import installed
from imharness.errors import HarnessError

CPU = torch.device("cpu")
NAMES = ("cat/1.png", "cat/deep/10.tif", "cat/2.webp", "dog/1.gif", "dog/2.avif", "dog/3.bmp")


def put(path: Path, shade: int = 0, exif: Image.Exif | None = None, side: int = 12) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(shade).integers(0, 100, (side, side, 3), dtype=np.uint8)
    pixels[: side // 2] += 150
    Image.fromarray(pixels).save(path, exif=exif or Image.Exif())


def filled(root: Path, folders: tuple[str, ...] = ("",)) -> None:
    for folder in folders:
        for shade, name in enumerate(
            ("cat/1.png", "cat/deep/10.tif", "cat/2.webp", "dog/1.gif", "dog/2.avif", "dog/3.bmp")
        ):
            put(root / folder / name, shade)
        (root / folder / "dog" / "x.heic").write_bytes(b"\0\0\0\x18ftypheic")
        put(root / folder / ".ipynb_checkpoints" / "1.png")


@pytest.mark.parametrize("folders", [("",), ("train", "test")])
def test_a_class_folder_uses_or_names_every_image(tmp_path: Path, folders: tuple[str, ...]) -> None:
    filled(tmp_path, folders)
    put(tmp_path / "alone.png")
    kinds = {}
    for split in ("train", "test"):
        data = installed().one("dataset", f"class-folder[path={tmp_path},split={split},size=12]")
        with pytest.warns(
            UserWarning, match=r"left out: .*1 in no folder of a class: move them \(alone\.png\)"
        ) as warned:
            kinds[split] = data.build(CPU)
        assert f"{len(folders)} HEIC: install pillow-heif" in str(warned[0].message)
        assert set(kinds[split].columns["class"]) == {"cat", "dog"}
    names = {name for images in kinds.values() for name in images.names}
    assert len(names) == 6 * len(folders)
    assert kinds["test"].load([0]).shape == (1, 3, 12, 12)


def test_a_part_without_the_other_is_no_class(tmp_path: Path) -> None:
    filled(tmp_path, ("train",))
    with pytest.warns(UserWarning, match="1 HEIC"):
        assert len(installed().one("dataset", f"class-folder[path={tmp_path},split=train]").build(CPU)) == 6
    with pytest.raises(HarnessError, match="contains no images in folders; expected CLASS"):
        installed().one("dataset", f"class-folder[path={tmp_path}]").build(CPU)


@pytest.mark.parametrize("folders", [("",), ("train", "test")])
def test_image_folders_use_or_name_every_image(tmp_path: Path, folders: tuple[str, ...]) -> None:
    filled(tmp_path, folders)
    put(tmp_path / "alone.png")
    with pytest.warns(UserWarning, match=r"1 in no folder of a class: move them \(alone\.png\)"):
        dataset = installed().one("dataset", f"image-folders[path={tmp_path},size=12]").build(CPU)
    assert dataset.classes == 2
    assert dataset.features.shape == (6 * len(folders), 3, 12, 12)
    assert dataset.labels.tolist() == [0, 0, 0, 1, 1, 1] * len(folders)


def test_turned_photographs_of_classes_are_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 3  # orientation: to be turned by 180 degrees
    for name, metadata in (("cat/1.png", None), ("cat/2.jpg", exif), ("dog/1.webp", exif)):
        put(tmp_path / name, exif=metadata)
    images = installed().one("dataset", f"image-folders[path={tmp_path},size=12]").build(CPU).features
    assert [bool(image[:, :4].mean() > image[:, 8:].mean()) for image in images] == [True, False, False]


def test_photographs_of_one_name_stay_apart_on_the_ladder(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", "b/1.bmp"):
        put(tmp_path / name, 60, side=20)
    (tmp_path / "x.heic").write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.warns(UserWarning, match="of 4 image files 3 are used; left out: 1 HEIC"):
        ladder = installed().one("dataset", f"folder-ladder[folder={tmp_path},size=16,severities=[5]]").build(CPU)
    assert set(ladder.columns["photograph"]) == {"a/1.png", "b/1.bmp", "b/1.png"}
    assert len(set(ladder.names)) == 15
    with pytest.raises(HarnessError, match=r"1\.png has 20 x 20 px, which is too small for crops of 32 px"):
        installed().one("dataset", f"folder-ladder[folder={tmp_path / 'a'},size=32,severities=[5]]").build(CPU)


def test_copies_among_private_images_count_as_one(tmp_path: Path) -> None:
    for number, seed in enumerate((0, 1, 0)):
        pixels = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), dtype=np.uint8)
        (tmp_path / "test" / f"c{number}").mkdir(parents=True)
        Image.fromarray(pixels).save(tmp_path / "test" / f"c{number}" / "a.png")
    with pytest.warns(UserWarning, match="3 images look like 2 photographs"):
        dataset = installed().one("dataset", f"class-folder[path={tmp_path},size=12]").build(CPU)
    assert dataset.columns["source"].tolist() == ["test/c0/a.png", "test/c1/a.png", "test/c0/a.png"]
