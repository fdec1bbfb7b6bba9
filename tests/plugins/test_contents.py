"""The digest of a data set changes with the content of its files, even if their sizes and times stay the same."""

import json
import os
import shutil
from pathlib import Path

import pytest

from imharness.components.registry import installed

LAYOUTS = {
    "bapps:{}": ("2afc/val/cnn/ref/1.png", "2afc/val/cnn/judge/1.npy", "2afc/val/cnn/p1/1.png"),
    "nights:{}": ("data.csv", "ref/000/000.png", "distort/000/000_1.png"),
    "tid2013:{}": ("mos_with_names.txt", "reference_images/I01.BMP", "distorted_images/i01_01_1.bmp"),
    "annotated:{}": ("ann/1_ori.png", "-ann/2.png", "index.csv"),
    "class-folder:{}": ("cats/1.png", "dogs/1.png", "cats/2.png"),
    "image-folders:{}": ("train/cats/1.png", "train/dogs/1.png", "test/cats/2.png"),
    "folder:{}": ("cats/1.png", "dogs/1.png", "2.png"),
    "folder-ladder:{}": ("cats/1.png", "dogs/1.png", "2.png"),
    "huggingface:{}": ("data-0.arrow", "data-1.arrow"),
}
TIME = 1_600_000_000_000_000_000


def write(file: Path, content: bytes) -> None:
    """Write a file with the time of change that all of them have, as an archive's may."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, ns=(TIME, TIME))


def digest(name: str, folder: Path) -> str:
    content = installed().one("dataset", name.format(folder)).content()
    assert content
    return content


@pytest.fixture(params=LAYOUTS)
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    for i, file in enumerate(LAYOUTS[request.param]):
        write(tmp_path / "first" / file, b"%016d" % i)
    if "huggingface" in request.param:
        files = [{"filename": file} for file in LAYOUTS[request.param]]
        write(tmp_path / "first" / "state.json", json.dumps({"_data_files": files}).encode())
        write(tmp_path / "first" / "dataset_info.json", b'{"features": {}}')
    return request.param


def test_a_file_of_the_same_size_and_time_is_another_file(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "first"
    before = digest(name, folder)
    for file in LAYOUTS[name]:
        content = (folder / file).read_bytes()
        write(folder / file, content[::-1].replace(b"0", b"9"))
        assert digest(name, folder) != before, file
        write(folder / file, content)
        assert digest(name, folder) == before, file


def test_images_that_change_their_folders_make_another_set(name: str, tmp_path: Path) -> None:
    one, other = (tmp_path / "first" / file for file in LAYOUTS[name][:2])
    before = digest(name, tmp_path / "first")
    content = one.read_bytes(), other.read_bytes()
    write(one, content[1])
    write(other, content[0])
    assert digest(name, tmp_path / "first") != before


def test_a_copy_elsewhere_is_the_same_set(name: str, tmp_path: Path) -> None:
    copy = shutil.copytree(tmp_path / "first", tmp_path / "deep" / "copy", copy_function=shutil.copyfile)
    assert digest(name, copy) == digest(name, tmp_path / "first")


def test_published_files_count_by_content_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    people = "celeba[people=2]", tmp_path / "celeba" / "identity_CelebA.txt"
    write(people[1], b"1.jpg 1\n2.jpg 2\n3.jpg 1\n")
    for i in (1, 2, 3):
        write(tmp_path / "celeba" / "img_align_celeba" / f"{i}.jpg", b"%d" % i)
    write(tmp_path / "cifar100" / "test.bin", b"0" * 99)
    pairs = (
        (people, b"1.jpg 1\n2.jpg 1\n3.jpg 2\n"),
        (("cifar100-images", tmp_path / "cifar100" / "test.bin"), b"1" * 99),
    )
    for (name, file), content in pairs:
        before = digest(name, tmp_path)
        write(file, content)
        assert digest(name, tmp_path) != before, name


def test_a_damaged_list_has_no_digest_and_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    (tmp_path / "celeba" / "img_align_celeba").mkdir(parents=True)
    write(tmp_path / "celeba" / "identity_CelebA.txt", b"nonsense\n")
    assert installed().one("dataset", "celeba").content() == ""


def test_other_names_of_classes_make_another_set(tmp_path: Path) -> None:
    write(tmp_path / "state.json", b'{"_data_files": [{"filename": "data.arrow"}]}')
    digests = set()
    for names in ('["cat", "dog"]', '["dog", "cat"]'):
        write(tmp_path / "dataset_info.json", f'{{"features": {{"label": {{"names": {names}}}}}}}'.encode())
        digests.add(digest("huggingface:{}", tmp_path))
    assert len(digests) == 2
