"""Every reader of users' files refuses malformed ones in one line, within the bounds of `spent.bounded`."""

import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.core.reading import malformed
from tests.core.reading.spent import bounded

from imharness.cli.commands import component
from imharness.errors import HarnessError
from imharness.planning.profiles import load_profile
from imharness.reading.images import read_pixels
from imharness.reading.opening import GIB, read_bytes
from imharness_iqa.calibration import read_presets
from imharness_iqa.external import read_external
from imharness_membership.audit_inputs import read_audit
from imharness_submissions.ledger import FILE, Ledger
from imharness_submissions.manifest import read_lock, read_manifest

HASH = f"--hash=sha256:{'0' * 64}"
PRESET = '[{"attack": "a", "metric": "m", "field": "f", "strengths": {"weak": 0.5}, "distortion": "linf"}]'
PROFILE = 'name = "own"\ndescription = "x"\n'
MANIFEST = f"""format = 1
summary = "A defense for tests."
authors = ["A stranger"]
contact = "a@b.example"
licence = "MIT"
extra_training_data = "none"
[package]
name = "median"
version = "1.0"
sha256 = "{"0" * 64}"
[[entries]]
kind = "defense"
id = "good/median"
"""


def ledger_text(folder: Path) -> str:
    ledger = Ledger(folder)
    ledger.append("x", ("a/x",), "added", "for a test")
    return (folder / FILE).read_text()


def audit(suffix: str) -> Callable[[Path, bytes], object]:
    """Return a function that writes content to a file with this ending, and reads it as an audit; so do those below."""

    def read(folder: Path, content: bytes) -> object:
        (folder / f"audit{suffix}").write_bytes(content)
        return read_audit(folder / f"audit{suffix}", False)

    return read


def external(folder: Path, content: bytes) -> object:
    (folder / "rows.csv").write_bytes(content)
    return read_external(folder / "rows.csv", (), ("m=0:1",), component)


def manifest(folder: Path, content: bytes) -> object:
    submission = folder / "median"
    submission.mkdir(exist_ok=True)
    (submission / "submission.toml").write_bytes(content)
    return read_manifest(submission)


def lock(folder: Path, content: bytes) -> object:
    (folder / "requirements.txt").write_bytes(content)
    return read_lock(folder)


def profile(folder: Path, content: bytes) -> object:
    (folder / "own.toml").write_bytes(content)
    return load_profile(str(folder / "own.toml"))


def presets(folder: Path, content: bytes) -> object:
    (folder / "presets.json").write_bytes(content)
    return read_presets(folder / "presets.json")


def ledger(folder: Path, content: bytes) -> object:
    (folder / "ledger.jsonl").write_bytes(content)
    return Ledger(folder).lines()


def tampered(good: str, *changes: tuple[str, str, str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of a right file with one text replaced; a change is name, old text, new text."""
    for name, old, new in changes:
        assert old in good, old
        yield name, good.replace(old, new, 1).encode()


CLAIM = '[[claims]]\ntrack="a/b"\ntable="t"\nrow="r"\ncolumn="c"\nvalue={}\ntolerance={}\n'
MANIFESTS = (
    ("claim of NaN", "[[entries]]", CLAIM.format("nan", "1") + "[[entries]]"),
    ("claim of inf", "[[entries]]", CLAIM.format("1", "inf") + "[[entries]]"),
    ("escape in an author", "A stranger", "A \\u001b[2Jstranger"),
    ("line separator in an author", "A stranger", "A \\u2028 stranger"),
    ("next line in an author", "A stranger", "A \\u0085 stranger"),
    ("direction in an author", "A stranger", "A \\u202e stranger"),
    ("zero width in the licence", "MIT", "M\\u200bIT"),
    ("two lines in the summary", "A defense for tests.", "A defense\\nfor tests."),
    ("escape in a parameter", 'id = "good/median"', 'id = "good/median"\nparameters = { a = "\\u001b[2J" }'),
    ("escape in the contact", "a@b.example", "a@b.example\\u001b"),
    ("line separator in the contact", "a@b.example", "a@b.example\\u2028"),
    ("letters of another script in the version", 'version = "1.0"', 'version = "1.\u0661"'),
)
PROFILES = (
    ("endless time", 'description = "x"', 'description = "x"\ntime_limit_s = inf'),
    ("no time", 'description = "x"', 'description = "x"\ntime_limit_s = nan'),
    ("a batch of many digits", 'description = "x"', f'description = "x"\nbatch_size = {"9" * 400}'),
    ("escape", 'description = "x"', 'description = "x\\u001b[2J"'),
)
LOCKS = [("not UTF-8", b"\xff"), ("NUL", b"a\0==1"), ("a line separator", f"a==1 \u2028 {HASH}".encode())]
# Reader -> the function that reads, and malformed files, name -> content.
CASES: dict[str, tuple[Callable[[Path, bytes], object], Sequence[tuple[str, malformed.Content]]]] = {
    "audit npz": (audit(".npz"), list(malformed.npz_files())),
    "audit csv": (audit(".csv"), list(malformed.audit_csv_files())),
    "audit parquet": (audit(".parquet"), list(malformed.parquet_files())),
    "external": (external, list(malformed.external_files())),
    "manifest": (manifest, [*malformed.toml_files(MANIFEST), *tampered(MANIFEST, *MANIFESTS)]),
    "profile": (profile, [*malformed.toml_files(PROFILE), *tampered(PROFILE, *PROFILES)]),
    "lock": (lock, LOCKS),
    "presets": (presets, list(malformed.json_files(PRESET))),
}


def refused(read: Callable[[Path, bytes], object], folder: Path, content: bytes) -> str:
    """Return the line with which a reader refuses a file; fail if it accepts the file, or needs much time or memory."""
    with bounded(), pytest.raises(HarnessError) as caught:
        read(folder, content)
    line = str(caught.value)
    assert line.isprintable(), repr(line)
    assert len(line) < 1500
    return line


@pytest.mark.parametrize(
    ("reader", "name"), [(reader, name) for reader, (_, files) in CASES.items() for name, _ in files]
)
def test_a_malformed_file_is_refused_in_one_line(reader: str, name: str, tmp_path: Path) -> None:
    read, files = CASES[reader]
    content = dict(files)[name]
    refused(read, tmp_path, content if isinstance(content, bytes) else content())


@pytest.mark.parametrize("number", range(6))
def test_a_damaged_ledger_is_refused_in_one_line(number: int, tmp_path: Path) -> None:
    _, content = list(malformed.ledger_lines(ledger_text(tmp_path / "good")))[number]
    refused(ledger, tmp_path, content)


def test_right_files_are_read(tmp_path: Path) -> None:
    """The right files from which malformed ones are made are accepted."""
    assert set(audit(".npz")(tmp_path, malformed.npz())) == {"shadow", "target"}  # type: ignore[call-overload]
    table = "\n".join([malformed.AUDIT_HEAD, *malformed.AUDIT_ROWS, ""]).encode()
    columns = audit(".csv")(tmp_path, table)
    assert columns["target"].member.tolist() == [True, True, False, False]  # type: ignore[index]
    assert external(tmp_path, f"{malformed.EXTERNAL_HEAD}\n{malformed.EXTERNAL_ROW}\n".encode())
    assert manifest(tmp_path, MANIFEST.encode())
    assert profile(tmp_path, PROFILE.encode())
    assert presets(tmp_path, PRESET.encode())


def test_a_line_separator_in_a_name_leaves_the_ledger_readable(tmp_path: Path) -> None:
    """Separators and control characters in reasons and authors are replaced by blanks; each decision stays one line."""
    ledger = Ledger(tmp_path)
    for sign in ("\u2028", "\u0085", "\x1b", "\x0c", "\x1c"):
        ledger.append("x", ("a/x",), "added", f"for{sign}a test", manifest={"authors": [f"A{sign}stranger"]})
    assert [line.number for line in ledger.lines()] == [1, 2, 3, 4, 5]
    assert {line.reason for line in ledger.lines()} == {"for a test"}


def test_a_pipe_or_a_device_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    for name in ("audit.npz", "rows.csv", "presets.json", "requirements.txt", "ledger.jsonl"):
        os.mkfifo(tmp_path / name)
    for read in (
        lambda: read_audit(tmp_path / "audit.npz", False),
        lambda: read_external(tmp_path / "rows.csv", (), ("m=0:1",), component),
        lambda: read_presets(tmp_path / "presets.json"),
        lambda: read_lock(tmp_path),
        lambda: Ledger(tmp_path).lines(),
    ):
        with pytest.raises(HarnessError):
            read()


def test_a_file_that_is_too_large_is_refused_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "audit.npz").touch()
    os.truncate(tmp_path / "audit.npz", 4 * GIB + 1)  # a sparse file, which takes no room on the disk
    with pytest.raises(HarnessError, match="has 4294967297 bytes; at most 4294967296 are read"):
        read_audit(tmp_path / "audit.npz", False)


def test_a_file_is_read_up_to_the_limit_and_not_cut_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    with pytest.raises(HarnessError, match="has 5 bytes; at most 4 are read"):
        read_bytes(tmp_path / "a", 4)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="files of processes")
def test_a_file_that_has_more_than_its_size_says_is_refused() -> None:
    with pytest.raises(HarnessError, match="has more than 4 bytes"):
        read_bytes(Path("/proc/self/status"), 4)


def test_a_pipe_in_a_folder_of_images_is_named(tmp_path: Path) -> None:
    import os

    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.png")
    (tmp_path / "c.png").symlink_to("/dev/zero")
    import torch

    folder = component("dataset", f"folder:{tmp_path}")
    with pytest.raises(HarnessError, match=r"2 of 3 images .* b\.png, c\.png"):
        folder.build(torch.device("cpu"))  # type: ignore[attr-defined]


def test_half_a_photograph_is_no_photograph(tmp_path: Path) -> None:
    """The first chunk of pixels announces 2 GiB; one decoder takes such a file for whole, another reads half of it."""
    Image.fromarray(np.arange(16 * 12 * 3, dtype=np.uint8).reshape(16, 12, 3)).save(tmp_path / "a.png")
    content = bytearray((tmp_path / "a.png").read_bytes())
    assert read_pixels(tmp_path / "a.png").shape == (16, 12, 3)
    content[33] = 0x80  # the length of that chunk is in the bytes 33 to 36
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(HarnessError, match=r"a\.png is not a readable image"):
        read_pixels(tmp_path / "a.png")


@pytest.mark.parametrize("length", [0x0800002F, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_photograph_that_announces_more_than_it_holds_takes_no_memory(length: int, tmp_path: Path) -> None:
    """The first chunk of pixels announces 128 MiB, 2 GiB or 4 GiB, which a decoder may allocate for a file of bytes.

    0x0800002F is its true length, 0x2F, with one bit more.
    """
    Image.fromarray(np.arange(16 * 12 * 3, dtype=np.uint8).reshape(16, 12, 3)).save(tmp_path / "a.png")
    content = bytearray((tmp_path / "a.png").read_bytes())
    content[33:37] = length.to_bytes(4, "big")
    (tmp_path / "a.png").write_bytes(content)
    with bounded(), pytest.raises(HarnessError, match=r"a\.png is not a readable image: it is cut off"):
        read_pixels(tmp_path / "a.png")


def test_a_photograph_of_many_empty_parts_is_refused_at_once(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    chunk = b"\0\0\0\0tEXt" + zlib.crc32(b"tEXt").to_bytes(4, "big")
    (tmp_path / "a.png").write_bytes(content[:33] + chunk * 2_000_000 + content[33:])
    with bounded(), pytest.raises(HarnessError, match=r"a\.png is not a readable image"):
        read_pixels(tmp_path / "a.png")
