"""Published tables are read in every layout they come in, and missing or damaged files are named."""

import gzip

import numpy as np
import pytest
import torch

from imharness.components.registry import installed
from imharness.errors import HarnessError, Unavailable

CPU = torch.device("cpu")
NAMES = ("location30", "purchase100", "texas100", "cifar100", "mnist", "ch-mnist")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    return tmp_path


def built(name: str):
    return installed().one("dataset", name).build(CPU)


def put(folder, name: str, data: bytes | str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


@pytest.mark.parametrize("name", NAMES)
def test_without_files_it_says_where_they_come_from(name: str, folder) -> None:
    with pytest.raises(Unavailable, match=name):
        installed().one("dataset", name).require()
    (folder / name).mkdir()
    with pytest.raises(Unavailable, match="has no"):
        installed().one("dataset", name).require()
    assert installed().one("dataset", name).content() == ""


def test_text_files(folder) -> None:
    put(folder, "location30/bangkok", '"3","0","1"\n"7","1","1"\n')
    put(folder, "purchase100/dataset_purchase", "1,0,1\n2,1,0\n2,1,1\n")
    put(folder, "texas100/feats", "0,1\n1,1\n")
    put(folder, "texas100/labels", "5\n9\n")
    for name, features, labels in (
        ("location30", [[0, 1], [1, 1]], [0, 1]),
        ("purchase100", [[0, 1], [1, 0], [1, 1]], [0, 1, 1]),
        ("texas100", [[0, 1], [1, 1]], [0, 1]),
    ):
        table = built(name)
        assert table.features.tolist() == features
        assert table.labels.tolist() == labels
        assert installed().one("dataset", name).content()


def test_npz_files(folder) -> None:
    features = np.array([[0, 1], [1, 0]], np.uint8)
    for name, arrays in (
        ("location30", {"x": features, "y": np.array([4, 2])}),
        ("purchase100", {"features": features, "labels": np.eye(2)[[1, 0]]}),
        ("texas100", {"features": features, "labels": np.array([1, 0])}),
    ):
        (folder / name).mkdir()
        np.savez(folder / name / f"{name}.npz", **arrays)
        assert built(name).labels.tolist() == [1, 0]


def test_images(folder) -> None:
    rows = np.zeros((2, 2 + 3072), np.uint8)
    rows[:, 1], rows[1, 2] = (5, 9), 255
    for file_stem in ("train", "test"):
        put(folder, f"cifar100/{file_stem}.bin", rows.tobytes())
    table = built("cifar100")
    assert table.features.shape == (4, 3, 32, 32)
    assert table.labels.tolist() == [0, 1, 0, 1]
    assert float(table.features[1, 0, 0, 0]) == 1
    head = b"\x00\x00\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (2, 28, 28))
    put(folder, "mnist/train-images-idx3-ubyte.gz", gzip.compress(head + bytes(2 * 784)))
    labels = b"\x00\x00\x08\x01" + (2).to_bytes(4, "big") + b"\x03\x01"
    put(folder, "mnist/train-labels-idx1-ubyte.gz", gzip.compress(labels))
    assert built("mnist").labels.tolist() == [1, 0]


def test_damaged_files_are_named(folder) -> None:
    put(folder, "location30/location30.npz", b"no archive")
    put(folder, "texas100/feats", "0,1\n1,1\n")
    put(folder, "texas100/labels", "5\n")
    put(folder, "mnist/t10k-images-idx3-ubyte", b"PK")
    put(folder, "mnist/t10k-labels-idx1-ubyte", b"PK")
    for name in ("location30", "texas100", "mnist"):
        with pytest.raises(HarnessError, match=name):
            built(name)


@pytest.mark.parametrize("row", ["nan,0,1", "1,0,inf", "1,0,1e999", "1,0,x", "1,0,1_0", "1,0,٣", '"1,0,1', '"1"1,x,1'])
def test_rows_of_text_hold_finite_numbers_alone(folder, row: str) -> None:
    put(folder, "location30/bangkok", f'"2",0,1\n{row}\n')
    with pytest.raises(HarnessError, match=r"bangkok cannot be read: .*(NaN or infinity|could not convert|columns)"):
        built("location30")


def test_the_real_files(shared_data, monkeypatch) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(shared_data))
    table = built("location30")
    assert table.features.shape == (5010, 446)
    assert table.classes == 30
    digits = built("mnist")
    assert digits.features.shape == (10_000, 1, 28, 28)
    assert torch.bincount(digits.labels).min() > 800


def test_tiles_of_tissue_have_their_rows_of_grey_levels_and_the_class_last(folder) -> None:
    levels = np.arange(64 * 64) % 256
    rows = [",".join(map(str, [*(levels if label == 3 else 255 - levels), label])) for label in (3, 8, 3)]
    head = ",".join([*(f"pixel{number:04d}" for number in range(64 * 64)), "label"])
    put(folder, "ch-mnist/hmnist_64_64_L.csv", "\n".join([head, *rows]))
    table = built("ch-mnist")
    assert (table.features.shape, table.labels.tolist(), table.classes) == ((3, 1, 64, 64), [0, 1, 0], 2)
    np.testing.assert_allclose(table.features[0, 0, 0].numpy(), np.arange(64) / 255, rtol=1e-6)
    np.testing.assert_allclose(table.features[1, 0, 3, 63].numpy(), 0, atol=1e-6)
    for spoilt, message in (
        ([row.replace("255", "256") for row in rows], "between 0 and 255"),
        (["1," + row for row in rows], "rows have 4098 numbers; expected 4096 grey levels"),
    ):
        put(folder, "ch-mnist/hmnist_64_64_L.csv", "\n".join([head, *spoilt]))
        with pytest.raises(HarnessError, match=message):
            built("ch-mnist")
