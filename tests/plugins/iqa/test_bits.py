"""A folder and the command warn that images with 14 bits in 16 may be read too dark."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from imharness.cli import cli
from imharness_iqa.datasets.folder import Folder


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    for seed in range(2):
        photograph = np.random.default_rng(seed).integers(0, 2**14, (32, 32, 3)).astype(np.uint16)
        cv2.imwrite(str(tmp_path / f"{seed}.png"), photograph)
    return tmp_path


def test_a_folder_says_it(raw: Path) -> None:
    with pytest.warns(UserWarning, match="2 of 2 images have more than 8 bits .* four times too dark"):
        Folder(path=str(raw)).build(torch.device("cpu"))


def test_the_command_says_it(raw: Path) -> None:
    result = CliRunner().invoke(cli, ["score", "psnr", str(raw / "0.png"), "--reference", str(raw / "1.png")])
    assert result.exit_code == 0, result.output
    assert "four times too dark" in " ".join(result.output.split())
