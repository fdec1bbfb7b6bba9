"""Files of torch: tensors and plain values are read from them, and no code in them is run."""

from pathlib import Path

import numpy as np
import pytest
import torch

from imharness.errors import UsageError
from imharness.reading.tensors import read_torch


@pytest.mark.parametrize("core", [b"numpy.core.", b"numpy._core."])
@pytest.mark.parametrize("value", [np.float64(0.25), np.float32(0.25), np.int64(-3), np.uint8(7), np.bool_(True)])
def test_numbers_of_numpy_beside_the_weights_are_read(core: bytes, value: np.generic, tmp_path: Path) -> None:
    """The scheduler of LipSim's training leaves one as the learning rate; numpy 1 and 2 write other names for it."""
    file, content = tmp_path / "weights.pth", {"weight": torch.ones(3), "optimizer": {"lr": value}}
    torch.save(content, file, _use_new_zipfile_serialization=False)
    file.write_bytes(file.read_bytes().replace(b"numpy._core.", core))
    loaded = read_torch(file)
    assert loaded["optimizer"]["lr"] == value
    assert type(loaded["optimizer"]["lr"]) is type(value)
    assert torch.equal(loaded["weight"], torch.ones(3))


class _Touches:
    """An object that creates a file if it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.file,)


def test_more_than_numbers_is_refused_and_not_run(tmp_path: Path) -> None:
    file, touched = tmp_path / "weights.pth", tmp_path / "touched"
    for value in (_Touches(touched), np.array([_Touches(touched)], dtype=object), np.dtype(object), np.zeros(3)):
        torch.save({"weight": torch.ones(3), "more": value}, file)
        with pytest.raises(UsageError, match="does not hold weights"):
            read_torch(file)
    assert not touched.exists()
