"""Digests of files and of folders follow from contents and names, and files that did not change are not read again."""

import os
import shutil
import time
from pathlib import Path

import pytest

from imharness.files import file_digest, files_digest


def test_a_file_s_digest_is_that_of_its_bytes_and_empty_without_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abc")  # FIPS 180-2, appendix B.1
    assert file_digest(file) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_digest(str(file)) == file_digest(file)
    assert file_digest("") == file_digest(tmp_path) == file_digest(tmp_path / "b") == ""


def test_files_have_a_digest_of_contents_and_of_names_below_the_folder(tmp_path: Path) -> None:
    def digest(folder: Path) -> str:
        return files_digest(folder, sorted(file for file in folder.rglob("*") if file.is_file()))

    first = tmp_path / "first"
    for name, content in (("cats/1", b"abc"), ("dogs/1", b"xyz"), ("votes", b"0.2")):
        (first / name).parent.mkdir(parents=True, exist_ok=True)
        (first / name).write_bytes(content)
    before = digest(first)
    copy = shutil.copytree(first, tmp_path / "copy", copy_function=shutil.copyfile)
    assert digest(copy) == before, "a copy has other times"
    for name, content in (("votes", b"0.8"), ("cats/1", b"xyz")):
        facts = (copy / name).stat()
        (copy / name).write_bytes(content)
        os.utime(copy / name, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        assert digest(copy) != before, f"{name} has the size and the time that it had"
        (copy / name).write_bytes((first / name).read_bytes())
        assert digest(copy) == before
    (first / "cats/1").rename(first / "cats/swap")
    (first / "dogs/1").rename(first / "cats/1")
    (first / "cats/swap").rename(first / "dogs/1")
    assert digest(first) != before, "images changed their folders"


def test_files_are_read_again_only_if_they_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, read = tmp_path / "a", []
    file.write_bytes(b"abc")
    monkeypatch.setattr("imharness.reading.digests.SETTLED_NS", 0)
    monkeypatch.setattr("imharness.reading.digests.file_digest", lambda file: read.append(file) or file_digest(file))
    first = files_digest(tmp_path, [file])
    assert files_digest(tmp_path, [file]) == first
    assert read == [file]
    time.sleep(0.05)
    file.write_bytes(b"xyz")
    assert files_digest(tmp_path, [file]) != first
    assert read == [file, file]


def test_a_missing_file_counts_as_such(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    names = [tmp_path / "a"], [tmp_path / "b"], []
    assert len({files_digest(tmp_path, files) for files in names}) == 3


def test_names_that_are_no_text_have_a_digest(tmp_path: Path) -> None:
    assert files_digest(tmp_path, [tmp_path / "\udcff.png"]) != files_digest(tmp_path, [tmp_path / "ÿ.png"])
