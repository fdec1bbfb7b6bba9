"""Digests of files say what they contain, or how they look from outside."""

import os
from pathlib import Path

from imharness.files import file_digest, state_digest


def test_a_file_s_digest_is_that_of_its_bytes_and_empty_without_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abc")  # FIPS 180-2, appendix B.1
    assert file_digest(file) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert file_digest(str(file)) == file_digest(file)
    assert file_digest("") == file_digest(tmp_path) == file_digest(tmp_path / "b") == ""


def test_a_state_changes_with_names_sizes_and_times_alone(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"abc")
    other.write_bytes(b"xyz")
    for file in (one, other):
        os.utime(file, ns=(1, 1))
    before = state_digest([one])
    one.write_bytes(b"xyz")
    os.utime(one, ns=(1, 1))
    assert state_digest([one]) == before != state_digest([other])
    os.utime(one, ns=(2, 2))
    assert state_digest([one]) != before
    one.write_bytes(b"longer")
    os.utime(one, ns=(1, 1))
    assert state_digest([one]) not in ("", before)
