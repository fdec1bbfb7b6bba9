"""What reading a folder of evidence costs: no more than the images that it says it has."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imharness.errors import UsageError
from imharness_submissions.evidence import folder as reading
from imharness_submissions.evidence.folder import read_evidence

HEADER = """format = 1
summary = "a picture that is not what it seems"
authors = ["A stranger"]
contact = "https://strangers.org"
track = "harness/iqa"
entry = "harness/flip"
task = {}
"""


@pytest.fixture(autouse=True)
def tools() -> None:
    """Nothing of a stranger is run here: no sandbox is needed."""


def written(folder: Path, files: list[str]) -> Path:
    """Write a manifest that names these files, one for each image."""
    images = "".join(
        f'[[images]]\nname = "image-{i}"\nclean = "{"0" * 64}"\nfile = "{file}"\n' for i, file in enumerate(files)
    )
    (folder / "evidence.toml").write_text(HEADER + images)
    return folder


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, data: bytes) -> bytes:
    """Return a PNG of three colours with 8 bits whose compressed data are these."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_a_picture_that_inflates_to_more_than_its_header_says_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(png(8, 8, zlib.compress(bytes(8 * 25 + 20_000_000))))
    with pytest.raises(UsageError, match="inflates to more than the 8 x 8 pixels"):
        read_evidence(written(tmp_path, ["bomb.png"]))


@pytest.mark.parametrize("steps", [0, 1])
def test_a_picture_is_decoded_once_however_often_it_is_named(
    steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = (steps * np.arange(40 * 30 * 3) % 251).astype(np.uint8).reshape(40, 30, 3)
    Image.fromarray(pixels).save(tmp_path / "one.png")
    (tmp_path / "copy.png").write_bytes((tmp_path / "one.png").read_bytes())
    calls, plain = list[Path](), reading.read_pixels
    monkeypatch.setattr(reading, "read_pixels", lambda file, content: (calls.append(file), plain(file, content))[1])
    handed_in = read_evidence(written(tmp_path, ["one.png", "copy.png"] * 200))
    assert len(calls) == 1
    assert all(np.array_equal(each, pixels) for each in handed_in.pixels)
    assert len(handed_in.digest) == 64
