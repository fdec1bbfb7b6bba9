"""Photographs are read upright, in many formats; those of more than 8 bits, or of several pictures, are named."""

import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from imharness.errors import UsageError
from imharness.files import image_shape, read_image, read_pixels
from imharness.reading import images
from imharness.reading.images import formats, said_of_bits

TURNS = {
    1: lambda x: x,
    2: lambda x: x[:, ::-1],
    3: lambda x: x[::-1, ::-1],
    4: lambda x: x[::-1],
    5: lambda x: x.transpose(1, 0, 2),
    6: lambda x: np.rot90(x, 1),
    7: lambda x: np.rot90(x, 2).transpose(1, 0, 2),
    8: lambda x: np.rot90(x, 3),
}
"""EXIF orientation -> how a camera stores an upright scene; reading undoes it."""
LOSSLESS = {"png": {}, "webp": {"lossless": True}, "tiff": {}}


def scene(height: int = 24, width: int = 40) -> np.ndarray:
    """Return a picture ``(H, W, 3)``, uint8, that no turn leaves as it is."""
    y, x = np.mgrid[:height, :width]
    return np.stack([y * 6, x * 5, (x + y) * 3], -1).astype(np.uint8)


def turned(orientation: int) -> tuple[Image.Image, Image.Exif]:
    """Return the scene as a camera stores it with this orientation, and the EXIF that says so."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return Image.fromarray(np.ascontiguousarray(TURNS[orientation](scene()))), exif


@pytest.mark.parametrize("orientation", TURNS)
@pytest.mark.parametrize("ending", [*LOSSLESS, "jpg", "mpo", "avif"])
def test_what_a_phone_stores_turned_is_read_upright(ending: str, orientation: int, tmp_path: Path) -> None:
    path = tmp_path / f"photo.{ending}"
    image, exif = turned(orientation)
    extra = {"save_all": True, "append_images": [image.resize((8, 8))]} if ending == "mpo" else {}
    image.save(path, exif=exif, **({"quality": 98} | LOSSLESS.get(ending, {}) | extra))
    assert image_shape(path) == (24, 40)
    upright = read_pixels(path)
    np.testing.assert_array_equal(upright, np.asarray(read_image(path)))
    away = np.abs(upright.astype(int) - scene()).max()
    assert away == 0 if ending in LOSSLESS else away < 16


@pytest.mark.parametrize("ending", ["gif", "jp2", "avif", "jfif", "bmp", "ppm"])
def test_formats_of_today_are_read(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"photo.{ending}"
    form = {"jfif": "JPEG"}.get(ending)
    Image.fromarray(scene()).save(path, form)
    assert np.abs(read_pixels(path).astype(int) - scene()).mean() < 8


def test_heic_is_read_where_its_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("pillow_heif")
    package.__spec__ = ModuleSpec("pillow_heif", None)
    package.register_heif_opener = lambda: Image.register_open("HEIF", Image.Image)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pillow_heif", package)
    for register in ("OPEN", "ID"):
        monkeypatch.setattr(Image, register, getattr(Image, register).copy())
    assert formats.__wrapped__()[-1] == "HEIF"


@pytest.mark.parametrize("bits", [8, 10, 12])
def test_heic_of_more_than_eight_bits_is_said(bits: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pillow-heif reads eight bits of a photograph that has ten, and gives the number of bits beside the image."""
    image = Image.fromarray(scene())
    image.format, image.info["bit_depth"] = "HEIF", bits
    monkeypatch.setattr(images, "_opened", lambda path, content: image)
    (tmp_path / "photo.heic").write_bytes(b"heic")
    assert said_of_bits([tmp_path / "photo.heic"]).startswith("1 of 1 images have more than 8 bits") == (bits > 8)


def grey(path: Path, values: np.ndarray) -> Path:
    """Write a grey picture."""
    Image.fromarray(values).save(path)
    return path


def test_a_picture_of_32_bits_is_refused_and_never_black(tmp_path: Path) -> None:
    path = grey(tmp_path / "deep.tif", scene()[..., 0].astype(np.int32))
    for read in (read_image, read_pixels, image_shape):
        with pytest.raises(UsageError, match=r"deep\.tif holds whole numbers of 32 bits.* save it with 8 or 16 bits"):
            read(path)


@pytest.mark.parametrize("ending", ["png", "tif"])
@pytest.mark.parametrize("bits", [8, 10, 12])
def test_few_bits_in_sixteen_are_refused_and_never_black(bits: int, ending: str, tmp_path: Path) -> None:
    low = (scene()[..., 0].astype(np.uint16) << 8) >> (16 - bits)
    with pytest.raises(UsageError, match=r"16 bits for each value, but none above .* read as black; save it with 8"):
        read_image(grey(tmp_path / f"low.{ending}", low))
    np.testing.assert_array_equal(
        read_pixels(grey(tmp_path / f"full.{ending}", scene()[..., 0].astype(np.uint16) << 8))[..., 0], scene()[..., 0]
    )


@pytest.mark.parametrize("ending", ["png", "tif"])
@pytest.mark.parametrize("bits", [14, 16])
def test_fourteen_bits_in_sixteen_are_said(bits: int, ending: str, tmp_path: Path) -> None:
    deep = (scene()[..., 0].astype(np.uint16) << 8) >> (16 - bits)
    paths = [grey(tmp_path / f"raw.{ending}", deep), grey(tmp_path / "plain.png", scene()[..., 0] // 8)]
    line = said_of_bits(paths)
    assert line.startswith("1 of 2 images have more than 8 bits for each value, of which the upper eight are read")
    assert said_of_bits(paths[1:]) == ""
    assert (f"raw.{ending}: if they hold 14 bits, they are read four times too dark" in line) == (bits == 14)


def test_all_images_of_16_bits_are_said_beside_dark_ones(tmp_path: Path) -> None:
    deep = scene()[..., 0].astype(np.uint16) << 8
    line = said_of_bits([grey(tmp_path / "raw.png", deep >> 2), grey(tmp_path / "full.png", deep)])
    assert line.startswith("2 of 2 images have more than 8 bits for each value, of which the upper eight are read")
    assert re.search(r"full\.png: smaller .* seen; 1 of them have none above 16383, such as [^,]*raw\.png: if", line)


@pytest.mark.parametrize(("ending", "bits"), [("ppm", 16), ("ppm", 10), ("jp2", 16), ("avif", 10)])
def test_colours_of_more_than_eight_bits_are_said_in_every_format(bits: int, ending: str, tmp_path: Path) -> None:
    """Pillow gives eight bits of these as if the file had no more."""
    import cv2

    path, plain = tmp_path / f"deep.{ending}", tmp_path / f"plain.{ending}"
    deep = np.tile(scene()[..., ::-1], (4, 4, 1)).astype(np.uint16) << (bits - 8)
    if ending == "ppm":
        path.write_bytes(b"P6\n%d %d\n%d\n" % (*deep.shape[1::-1], 2**bits - 1) + deep.astype(">u2").tobytes())
    else:
        cv2.imwrite(str(path), deep, [cv2.IMWRITE_AVIF_DEPTH, bits] if ending == "avif" else [])
    Image.fromarray(scene()).save(plain)
    assert said_of_bits([path, plain]).startswith("1 of 2 images have more than 8 bits for each value")
    assert f"such as {path}: smaller" in said_of_bits([path, plain])


def test_black_colours_of_few_bits_in_sixteen_are_refused_in_ppm(tmp_path: Path) -> None:
    low = scene().astype(">u2") << 4
    (tmp_path / "low.ppm").write_bytes(b"P6\n%d %d\n65535\n" % low.shape[1::-1] + low.astype(">u2").tobytes())
    with pytest.raises(UsageError, match="it would be read as black; save it with 8 bits"):
        read_image(tmp_path / "low.ppm")


def test_colours_of_few_bits_in_sixteen_are_refused(tmp_path: Path) -> None:
    import cv2

    for shift, fits in ((0, False), (4, False), (8, True)):
        path = tmp_path / f"{shift}.png"
        cv2.imwrite(str(path), scene()[..., ::-1].astype(np.uint16) << shift)
        if fits:
            np.testing.assert_array_equal(read_pixels(path), scene())
        else:
            with pytest.raises(UsageError, match="read as black"):
                read_pixels(path)


@pytest.mark.parametrize("ending", ["gif", "webp", "png", "tiff"])
def test_a_file_of_several_pictures_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"moving.{ending}"
    frames = [Image.fromarray(scene() // (1 + i)) for i in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    for read in (image_shape, read_pixels):
        with pytest.raises(UsageError, match=rf"moving\.{ending} holds several pictures"):
            read(path)
