"""Warnings about images that are not RGB, or whose colours are not sRGB."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image, ImageCms

from imharness.cli import cli
from imharness.reading.images import said_of_colours, said_of_profiles
from imharness.reading.profiles import other_colours

SRGB = ((0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7139))
"""X, Y and Z of red, green and blue under D50, in sRGB and below in Display P3, a wider space."""
P3 = ((0.5151, 0.2412, -0.0011), (0.2919, 0.6922, 0.0419), (0.1572, 0.0666, 0.7841))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Write an image of each mode, and return mode -> file."""
    shapes = {"L": (4, 4), "RGB": (4, 4, 3), "RGBA": (4, 4, 4), "LA": (4, 4, 2)}
    for mode, shape in shapes.items():
        Image.fromarray(np.full(shape, 100, dtype=np.uint8)).save(tmp_path / f"{mode}.png")
    return {mode: tmp_path / f"{mode}.png" for mode in shapes}


def test_grey_among_rgb_and_transparency_are_said(files: dict[str, Path]) -> None:
    message = said_of_colours(list(files.values()))
    assert message.startswith("3 of 4 images are not RGB")
    for name, what in (("L", "grey"), ("RGBA", "transparency"), ("LA", "transparency")):
        assert f"{name}.png ({what})" in message
    assert "transparency" in said_of_colours([files["RGBA"]])


def test_nothing_is_said_of_images_alike(files: dict[str, Path]) -> None:
    assert said_of_colours([files["RGB"]] * 2) == said_of_colours([files["L"]] * 2) == ""


def profile(name: str, gamma: float, colours: Sequence[Sequence[float]] = ()) -> bytes:
    """Return an ICC profile with these primaries, or one of grey if there are none."""

    def fixed(values: Sequence[float]) -> bytes:
        return b"".join(struct.pack(">i", round(value * 65536)) for value in values)

    white = (0.9642, 1.0, 0.8249)
    curve = b"curv" + struct.pack(">IIHH", 0, 1, round(gamma * 256), 0)
    text = b"desc" + struct.pack(">II", 0, len(name) + 1) + name.encode() + bytes(79)
    tags = {b"desc": text + bytes(-len(text) % 4), b"wtpt": b"XYZ " + bytes(4) + fixed(white)}
    for letter, colour in zip(b"rgb", colours, strict=False):
        tags[bytes([letter]) + b"XYZ"] = b"XYZ " + bytes(4) + fixed(colour)
        tags[bytes([letter]) + b"TRC"] = curve
    if not colours:
        tags[b"kTRC"] = curve
    table, body, start = struct.pack(">I", len(tags)), b"", 132 + 12 * len(tags)
    for tag, content in tags.items():
        table += tag + struct.pack(">II", start + len(body), len(content))
        body += content
    space = b"RGB " if colours else b"GRAY"
    head = b"lcms" + struct.pack(">I", 0x02100000) + b"mntr" + space + b"XYZ " + bytes(12) + b"acsp" + bytes(28)
    return struct.pack(">I", start + len(body)) + head + fixed(white) + bytes(48) + table + body


def test_profiles_other_than_srgb_are_said(tmp_path: Path) -> None:
    """Equal values with different profiles show different colours, and a metric of the values cannot see that."""
    usual = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    profiles = {
        "none.png": b"",
        "usual.jpg": usual,
        "usual.png": profile("Like sRGB", 2.2, SRGB),
        "p3.png": profile("Display P3", 2.2, P3),
        "p3.jpg": profile("Display P3", 2.2, P3),
        "linear.png": profile("Linear", 1.0, SRGB),
        "broken.png": b"no profile",
    }
    paths = []
    for name, content in profiles.items():
        image = Image.fromarray(np.full((64, 64, 3), (200, 100, 50), dtype=np.uint8))
        image.save(tmp_path / name, icc_profile=content or None)
        paths.append(tmp_path / name)
    for name, gamma in (("grey.png", 2.2), ("dark.png", 1.0)):
        Image.new("L", (64, 64), 100).save(tmp_path / name, icc_profile=profile(name, gamma))
        paths.append(tmp_path / name)
    message = said_of_profiles(paths)
    assert message.startswith("4 of 9 images have a colour profile other than sRGB, such as ")
    assert "p3.png (Display P3)" in message
    assert "linear.png (Linear)" in message
    assert "dark.png" in said_of_profiles(paths[-2:])
    assert said_of_profiles([path for path in paths if path.stem in ("none", "usual", "broken", "grey")]) == ""
    scored = CliRunner().invoke(cli, ["score", "psnr", "--reference", str(paths[0]), str(paths[3])])
    assert "1 of 2 images have a colour profile other than sRGB" in " ".join(scored.output.split())


def chunked(file: Path, name: bytes, content: bytes) -> None:
    """Put a chunk into a PNG file, before its pixels."""
    before, pixels = (whole := file.read_bytes())[: whole.index(b"IDAT") - 4], whole[whole.index(b"IDAT") - 4 :]
    chunk = struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    file.write_bytes(before + chunk + pixels)


@pytest.mark.parametrize(
    ("name", "numbers", "why"),
    [
        # gAMA and cHRM hold numbers times 100,000; cICP holds the numbers of primaries and of a curve in H.273
        (b"gAMA", (100_000,), "gamma 1"),
        (b"gAMA", (45_455,), ""),
        (b"cHRM", (31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000), "other primaries"),
        (b"cHRM", (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000), ""),
        (b"cICP", bytes([9, 16, 0, 1]), "primaries 9 and curve 16 of H.273"),
        (b"cICP", bytes([1, 13, 0, 1]), ""),
    ],
)
def test_headers_that_say_other_colours_are_said(tmp_path: Path, name: bytes, numbers: Sequence[int], why: str) -> None:
    """A PNG file without an ICC profile may still say that its light is linear or its colours are wide."""
    file = tmp_path / "a.png"
    Image.new("RGB", (64, 64), (200, 100, 50)).save(file)
    chunked(file, name, numbers if isinstance(numbers, bytes) else struct.pack(f">{len(numbers)}I", *numbers))
    sentence = said_of_profiles([file])
    assert (f"a.png ({why})" in sentence) if why else sentence == ""


@pytest.mark.parametrize(("numbers", "why"), [((12, 16), "primaries 12 and curve 16 of H.273"), ((1, 13), "")])
def test_of_two_statements_that_counts_which_programs_follow(
    tmp_path: Path, numbers: tuple[int, int], why: str
) -> None:
    """In PNG files the chunk cICP counts before an ICC profile; in AVIF files a profile counts before the box colr."""
    other = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes() if why else profile("Wide", 2.2, P3)
    file = tmp_path / "a.png"
    Image.new("RGB", (64, 64), (200, 100, 50)).save(file, icc_profile=other)
    chunked(file, b"cICP", bytes([*numbers, 0, 1]))
    assert (f"a.png ({why})" in said_of_profiles([file])) if why else said_of_profiles([file]) == ""
    box = b"colrnclx" + struct.pack(">HHHB", *numbers, 0, 128)
    late = bytes(9000) + box  # a file with many tiles has a long list before this box
    image = Image.new("RGB", (8, 8))
    assert other_colours(image, late) == why
    image.info["icc_profile"] = other
    assert other_colours(image, late) == ("" if why else "Wide")
    pixels = tmp_path / "b.png"  # bytes cICP behind the pixels are no statement
    Image.new("RGB", (64, 64)).save(pixels)
    with Image.open(pixels) as opened:
        assert other_colours(opened, pixels.read_bytes() + b"\x00\x00\x00\x04cICP\x0c\x10\x00\x01") == ""


def test_adobe_rgb_by_exif_alone_is_said(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x8769] = {0xA001: 65535, 0xA005: {1: "R03"}}
    for name, facts in (("a.jpg", exif), ("b.jpg", Image.Exif())):
        Image.new("RGB", (64, 64), (200, 100, 50)).save(tmp_path / name, exif=facts)
    sentence = said_of_profiles([tmp_path / "a.jpg", tmp_path / "b.jpg"])
    assert sentence.startswith("1 of 2 images have a colour profile other than sRGB, such as ")
    assert "a.jpg (Adobe RGB by its EXIF)" in sentence
