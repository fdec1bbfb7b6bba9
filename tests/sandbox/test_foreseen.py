"""What the text of a package says of its imports is read outside, before anything of it runs."""

from pathlib import Path

import pytest
from tests.sandbox.conftest import laid_out

from imharness_submissions.sandbox import foreseen as outside
from imharness_submissions.sandbox.foreseen import foreseen
from imharness_submissions.sandbox.warming import GRADIENTS

TEXT = """import os, cv2 as seen
import scipy.ndimage
import torch; import kornia
from PIL import Image as I, ImageFilter
from imharness.stats import mean_of
from skimage import (
    filters,
)
if True:
    import torchvision
# import pywt
    from safetensors import torch
from imharness_submissions import secrets
"""


def package(tmp_path: Path, text: str) -> Path:
    (tmp_path / "strangers.py").write_text(text)
    folder = tmp_path / "package"
    folder.mkdir()
    return laid_out([tmp_path / "strangers.py"], folder)


def test_statements_at_the_top_are_read_and_only_libraries_are_named(tmp_path: Path) -> None:
    folder = package(tmp_path, TEXT)
    (folder / "dependency.py").write_text("import torchvision\n")
    wanted = {"cv2", "scipy.ndimage", "torch", "PIL", "PIL.Image", "PIL.ImageFilter", "imharness.stats", "skimage"}
    assert set(foreseen(folder, "strangers")) == wanted, "of what the harness imports itself"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("x = images.sum()", False),
        ("options = 1", False),
        ("step = torch.optim.Adam(p)", True),
        ("from torch import autograd", True),
        ("from torch.autograd import Function, grad", True),
        ("found = torch.autograd.grad(image, leaf, weights)", True),
        ("class Own(torch.autograd.Function):\n    def backward(ctx, upstream):\n        return upstream", False),
        ("from torch.autograd import Function\nclass Own(Function): ...", False),
        ("loss.backward()", True),
        ("torch.func.vjp(f, x)", True),
    ],
)
def test_more_than_gradients_of_numbers_is_foreseen(tmp_path: Path, text: str, more: bool) -> None:
    folder = package(tmp_path, text)
    assert (GRADIENTS in foreseen(folder, "strangers")) == more
    (folder / "strangers.py").write_text("")
    (folder / "dependency.py").write_text(text)
    assert (GRADIENTS in foreseen(folder, "strangers")) == more, "who depends on it calls it"


def test_what_is_not_read_may_want_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = package(tmp_path, "import cv2\n")
    assert foreseen(folder, "strangers") == ("cv2",)
    (folder / "zzz.py").symlink_to("/etc/hostname")
    assert foreseen(folder, "strangers") == ("cv2", GRADIENTS)
    (folder / "zzz.py").unlink()
    monkeypatch.setattr(outside, "_FILES", 0)
    assert foreseen(folder, "strangers") == (GRADIENTS,)
    monkeypatch.setattr(outside, "_FILES", 1)
    monkeypatch.setattr(outside, "_BYTES", 5)
    assert foreseen(folder, "strangers") == (GRADIENTS,)


@pytest.mark.parametrize("points", [b"a = !!", b"a =", b"a = strangers:b [c", b"\xff\xfe"])
def test_a_damaged_package_is_guessed_at_and_raises_nothing(tmp_path: Path, points: bytes) -> None:
    folder = package(tmp_path, "import cv2\n")
    (folder / "folder.py").mkdir()
    (folder / "loop.py").symlink_to("loop.py")
    (folder / "strange.py").write_bytes(b"import \xff\xfe\n")
    (found,) = folder.glob("*.dist-info/entry_points.txt")
    found.write_bytes(b"[imharness]\n" + points + b"\n")
    assert GRADIENTS in foreseen(folder, "strangers")
