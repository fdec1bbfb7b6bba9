"""Tests of what is said about images that are not RGB."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from imharness.files import said_of_colours


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
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
