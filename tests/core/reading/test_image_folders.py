"""Every image below a folder is used once, or is counted and named as left out."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imharness.files import images_below
from imharness.reading import image_folders


def put(path: Path, form: str | None = None) -> Path:
    """Write an image of 9x8 px in a format, or in that of its ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(len(str(path))).integers(0, 256, (8, 9, 3), dtype=np.uint8)).save(path, form)
    return path


def test_images_at_every_depth_are_used(tmp_path: Path) -> None:
    names = ("logo.png", "a/1.JPG", "a/2.jpeg", "b/c/d/3.webp", "b/4.gif", "5.avif", "b/6.jfif", "7.jp2")
    for name in names:
        put(tmp_path / name, "JPEG" if name.endswith("jfif") else None)
    census = images_below(tmp_path)
    assert census.names == tuple(sorted(names))
    assert census.paths == [tmp_path / name for name in sorted(names)]
    assert census.sentence() == ""


def test_what_is_hidden_is_no_photograph(tmp_path: Path) -> None:
    put(tmp_path / "a.png")
    for name in (".thumbnails/a.png", "__MACOSX/a.png", "b/.ipynb_checkpoints/a.png", "@eaDir/a.png", "._a.png"):
        put(tmp_path / name)
    (tmp_path / "README.txt").write_text("no image")
    (tmp_path / "P3.txt").write_text("BM and GIF are words")
    assert images_below(tmp_path).names == ("a.png",)
    assert images_below(tmp_path).sentence() == ""


def test_what_is_left_out_is_counted_and_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_folders, "formats", lambda: ("PNG", "JPEG"))
    for number in range(3):
        put(tmp_path / f"{number}.png")
    for name in ("a.heic", "b.HEIC", "c.heif", "d.hif"):
        (tmp_path / name).write_bytes(b"\0\0\0\x18ftypheic")
    (tmp_path / "e.CR2").write_bytes(b"II*\0")
    put(tmp_path / "f.png", "PNG").rename(tmp_path / "f")
    put(tmp_path / "g.jpg_original", "JPEG")
    put(tmp_path / "h.avif")
    assert images_below(tmp_path).sentence() == (
        f"{tmp_path}: of 11 image files 3 are used; left out: 4 HEIC: install pillow-heif, or save them as PNG "
        "(a.heic, b.HEIC, c.heif and 1 more); 1 CR2: save them as PNG (e.CR2); 2 whose names do not end as those of "
        "images do: rename them (f, g.jpg_original); 1 AVIF: install Pillow 11.3 or later, or save them as PNG (h.avif)"
    )


def test_what_is_left_out_is_named_by_name_whoever_left_it_out(tmp_path: Path) -> None:
    read = image_folders.Census(tmp_path, ("a.png", "b.png", "d.png"), {"e.png": "damaged", "c.png": "unlabelled"})
    assert read.only(lambda name: name == "d.png", "unlabelled").sentence() == (
        f"{tmp_path}: of 5 image files 1 are used; left out: 3 unlabelled (a.png, b.png, c.png); 1 damaged (e.png)"
    )


def test_links_count_no_image_twice_and_lead_in_no_circle(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.png")
    outside = put(tmp_path / "out" / "b.png")
    (tmp_path / "in" / "b.png").symlink_to(outside)
    (tmp_path / "in" / "again.png").symlink_to(tmp_path / "in" / "a.png")
    (tmp_path / "in" / "circle").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "far").symlink_to(tmp_path / "out")
    census = images_below(tmp_path / "in")
    assert census.names == ("a.png", "far/b.png")
    assert set(census.left_out) == {"again.png", "b.png", "circle/"}
    assert "2 links to another one of them (again.png, b.png)" in census.sentence()
