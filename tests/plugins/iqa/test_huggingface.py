"""Data sets that the library ``datasets`` saved: folders in its layout, written by tests and by the library."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image

from imharness.errors import ContractError, Unavailable, UsageError
from imharness_iqa.datasets.huggingface import HuggingFace

CPU = torch.device("cpu")
FEATURES = {
    "picture": {"_type": "Image"},
    "kind": {"names": ["cat", "dog"], "_type": "ClassLabel"},
    "mos": {"dtype": "float32", "_type": "Value"},
}


def pixels(row: int) -> np.ndarray:
    width = 40 if row % 2 else 32
    return np.random.default_rng(row).integers(0, 255, (24, width, 3), dtype=np.uint8)


def encoded(row: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels(row)).save(file, "PNG")
    return file.getvalue()


def saved(
    folder: Path, images: list[bytes | None], *, shards: int = 1, photographs: list[str] | None = None, **state: object
) -> Path:
    """Write a folder as `Dataset.save_to_disk` does, and return it; `state` changes its state.json."""
    folder.mkdir(parents=True)
    table = pa.table(
        {
            "picture": pa.array(
                [{"bytes": b, "path": None} for b in images], pa.struct([("bytes", pa.binary()), ("path", pa.string())])
            ),
            "kind": pa.array([row % 2 for row in range(len(images))], pa.int64()),
            "mos": pa.array([row / 2 for row in range(len(images))], pa.float32()),
        }
    )
    if photographs is not None:
        table = table.append_column("photograph", pa.array(photographs))
    names = [f"data-{i:05}-of-{shards:05}.arrow" for i in range(shards)]
    each = -(-len(images) // shards)
    for i, name in enumerate(names):
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table.slice(i * each, each))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": n} for n in names], **state}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    return folder


def test_rows_of_all_files_come_out_as_they_went_in(tmp_path: Path) -> None:
    dataset = HuggingFace(path=str(saved(tmp_path / "d", [encoded(row) for row in range(5)], shards=2)))
    dataset.require()
    images = dataset.build(CPU)
    assert images.names == ("0000000", "0000002", "0000004", "0000001", "0000003")
    assert images.shapes == ((24, 32),) * 3 + ((24, 40),) * 2
    for batch in images.batches(2):
        for image, position in zip(images.load(batch), batch, strict=True):
            expected = pixels(int(images.names[position]))
            assert np.array_equal(np.round(image.permute(1, 2, 0).numpy() * 255), expected)
    assert images.columns["mos"].tolist() == [0, 1, 2, 0.5, 1.5]
    assert images.columns["class"].tolist() == ["cat", "cat", "cat", "dog", "dog"]
    assert images.proxy == ""
    before = dataset.content()
    (tmp_path / "d" / "data-00000-of-00002.arrow").touch()
    assert dataset.content() == before
    assert HuggingFace(path="/nowhere").content() == ""


def test_a_split_is_chosen(tmp_path: Path) -> None:
    for split, rows in (("train", 2), ("test", 3)):
        saved(tmp_path / split, [encoded(row) for row in range(rows)])
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert len(HuggingFace(path=str(tmp_path), split="test").build(CPU)) == 3
    with pytest.raises(UsageError, match="split must be one of train, test, got ''"):
        HuggingFace(path=str(tmp_path)).require()


def test_what_is_no_such_data_set_is_told_in_one_line(tmp_path: Path) -> None:
    whole = [encoded(0), encoded(1)]
    with pytest.raises(Unavailable, match="is not a folder that save_to_disk"):
        HuggingFace(path=str(tmp_path)).require()
    with pytest.raises(Unavailable, match="no folder is named"):
        HuggingFace().require()
    with pytest.raises(UsageError, match="flatten_indices"):
        HuggingFace(path=str(saved(tmp_path / "i", whole, _indices_files=[{"filename": "x"}]))).require()
    with pytest.raises(UsageError, match="names no files of that folder"):
        HuggingFace(path=str(saved(tmp_path / "p", whole, _data_files=[{"filename": "../x.arrow"}]))).require()
    with pytest.raises(UsageError, match="image must be one of the columns of images: picture"):
        HuggingFace(path=str(saved(tmp_path / "c", whole)), image="kind").build(CPU)
    with pytest.raises(ContractError, match="1 rows hold no image"):
        HuggingFace(path=str(saved(tmp_path / "n", [*whole, None]))).build(CPU)
    with pytest.raises(UsageError, match="row 1 is not a readable image"):
        HuggingFace(path=str(saved(tmp_path / "b", [whole[0], b"nothing"]))).build(CPU)
    cut = saved(tmp_path / "t", whole)
    file = cut / "data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(UsageError, match=r"arrow cannot be read"):
        HuggingFace(path=str(cut)).build(CPU)


def smooth(row: int, brighter: int = 0) -> bytes:
    noise = np.random.default_rng(row).integers(0, 200, (5, 6, 3), dtype=np.uint8) + np.uint8(brighter)
    file = io.BytesIO()
    Image.fromarray(noise).resize((40, 32), Image.Resampling.BICUBIC).save(file, "PNG")
    return file.getvalue()


def test_versions_of_a_photograph_count_as_one(tmp_path: Path) -> None:
    folder = saved(tmp_path / "d", [smooth(0), smooth(1), smooth(0, 30), smooth(1, 30), smooth(2)])
    with pytest.warns(UserWarning, match="5 images look like 3 photographs.* in a column photograph"):
        images = HuggingFace(path=str(folder)).build(CPU)
    assert images.columns["photograph"].tolist() == ["0000000", "0000001", "0000000", "0000001", "0000004"]


def test_copies_under_several_names_of_photographs_are_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "d", [smooth(0), smooth(1), smooth(0)], photographs=["a", "b", "c"])
    with pytest.warns(UserWarning, match="1 of 3 images look like copies .* such as 0000002 of 0000000; leave"):
        assert HuggingFace(path=str(folder)).build(CPU).columns["photograph"].tolist() == ["a", "b", "c"]


def test_a_turned_photograph_is_upright(tmp_path: Path) -> None:
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6  # orientation: to be turned by 90 degrees
    upright = Image.open(io.BytesIO(smooth(0)))
    upright.transpose(Image.Transpose.ROTATE_90).save(file, "PNG", exif=exif)
    images = HuggingFace(path=str(saved(tmp_path / "d", [file.getvalue()]))).build(CPU)
    assert images.shapes == ((32, 40),)
    assert np.array_equal(np.round(images.load([0])[0].permute(1, 2, 0).numpy() * 255), np.asarray(upright))


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore")
def test_what_the_library_itself_wrote_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "picture": datasets.Image(),
            "kind": datasets.ClassLabel(names=["cat", "dog"]),
            "mos": datasets.Value("float32"),
        }
    )
    rows = {"picture": [Image.fromarray(pixels(r)) for r in range(4)], "kind": [0, 1, 0, 1], "mos": [1.0, 2, 3, 4]}
    whole = datasets.Dataset.from_dict(rows, features=features)
    whole.select([3, 0]).save_to_disk(tmp_path / "d")
    images = HuggingFace(path=str(tmp_path / "d")).build(CPU)
    assert images.columns["mos"].tolist() == [1, 4]
    assert np.array_equal(np.round(images.load([0])[0].permute(1, 2, 0).numpy() * 255), pixels(0))
