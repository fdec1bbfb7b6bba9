"""Files of a stranger are refused if readers could take them for something else: manifests, wheels, arrays."""

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imharness.errors import UsageError
from imharness.reading.wheels import check_wheel
from imharness.results.identity import ComponentRef, digest
from imharness_membership.audit_inputs import MODELS, SIDES, read_audit
from imharness_submissions.manifest import read_lock, read_manifest

MANIFEST = """format = 1
summary = "A defense for tests."
authors = ["A stranger"]
contact = "a@b.example"
licence = "MIT"
extra_training_data = "none"
[package]
name = "x"
version = "1.0"
sha256 = "{digest}"
[[entries]]
kind = "defense"
id = "acme/x"
"""
WHOLE = MANIFEST.format(digest="0" * 64)
OTHERS = {
    "a control character in a key": (WHOLE + 'parameters = { "a\\u001b[2J" = 1 }\n', "one line of text"),
    "hidden direction in a nested value": (WHOLE + 'parameters = { a = { b = ["\\u202e"] } }\n', "one line of text"),
    "a number that is none": (
        WHOLE + "[[claims]]\n" + 'track = "a/b"\ntable = "t"\nrow = "r"\ncolumn = "c"\nvalue = nan\ntolerance = 1\n',
        "finite",
    ),
    "any number claimed": (
        WHOLE + "[[claims]]\n" + 'track = "a/b"\ntable = "t"\nrow = "r"\ncolumn = "c"\nvalue = 1\ntolerance = inf\n',
        "finite",
    ),
    "parameters that give one label": (
        WHOLE + 'parameters = { a = "1,b=2" }\n[[entries]]\nkind = "defense"\nid = "acme/x"\n'
        'parameters = { a = "1", b = "2" }\n',
        "listed twice",
    ),
    "a key twice": (WHOLE.replace("format = 1", "format = 1\nformat = 1"), "TOML"),
    "a field of no manifest": (WHOLE + "trusted = true\n", "trusted"),
    "a field of no package": (WHOLE.replace('name = "x"', 'name = "x"\nindex = "https://evil.example"'), "index"),
    "two ways to a package": (
        WHOLE.replace('name = "x"', 'name = "x"\nfile = "x.whl"\naddress = "https://a.b/x.whl"'),
        "one of address",
    ),
    "an address without encryption": (
        WHOLE.replace('name = "x"', 'name = "x"\naddress = "http://a.b/x.whl"'),
        "address",
    ),
    "an address of a file": (WHOLE.replace('name = "x"', 'name = "x"\naddress = "file:///etc/x.whl"'), "address"),
    "an option as a name": (WHOLE.replace('name = "x"', 'name = "--index-url"'), "name"),
    "a negative tolerance": (
        WHOLE + "[[claims]]\n" + 'track = "a/b"\ntable = "t"\nrow = "r"\ncolumn = "c"\nvalue = 1\ntolerance = -1\n',
        "tolerance",
    ),
    "a digest in other digits": (MANIFEST.format(digest="\u0660" * 64), "sha256"),
    "no time at all": (WHOLE + "[hardware]\nanswer_s = 0\n", "answer_s"),
    "endless nesting": (WHOLE + f"parameters = {{ a = {'[' * 400}{']' * 400} }}\n", "nested|deep|TOML"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_manifest_that_says_something_else_is_refused(name: str, tmp_path: Path) -> None:
    text, message = OTHERS[name]
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "submission.toml").write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        read_manifest(folder)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "one==1.0 --hash=md5:" + "0" * 32,
        "one===1.0 --hash=sha256:" + "0" * 64,
        "one==1.* --hash=sha256:" + "0" * 64,
        "one==1.0,!=2 --hash=sha256:" + "0" * 64,
        "one @ https://a.b/one.whl --hash=sha256:" + "0" * 64,
        "one==1.0 --hash=sha256:" + "0" * 64 + " --index-url=https://a.b",
        "one==1.0 --hash=sha256:" + "0" * 64 + "\u2028two==1.0",
    ],
)
def test_a_lock_that_asks_for_something_else_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(line + "\n")
    with pytest.raises(UsageError):
        read_lock(tmp_path)


METADATA = "Metadata-Version: 2.1\nName: x\nVersion: 1.0\n"


def wheel(folder: Path, *members: tuple[str, str]) -> Path:
    """Write a wheel with further members (name, text), and return its path."""
    path = folder / "x-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in (("x.py", ""), ("x-1.0.dist-info/METADATA", METADATA), *members):
            file.writestr(name, text)
    return path


@pytest.mark.parametrize(
    "member",
    [
        "y-1.0.dist-info/METADATA",
        "X-1.0.DIST-INFO/METADATA",
        "x.egg-info/PKG-INFO",
        "sub/../../y.py",
        "C:\\y.py",
        "x.py/",
        "a\u202ey.py",
        "." * 2 + "/x",
    ],
)
def test_a_wheel_with_other_metadata_or_a_way_out_is_refused(member: str, tmp_path: Path) -> None:
    check_wheel(wheel(tmp_path))
    with pytest.raises(UsageError):
        check_wheel(wheel(tmp_path, (member, METADATA)))


def test_a_wheel_whose_two_lists_of_names_differ_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"x.py", b"y.py", 1))
    with pytest.raises(UsageError, match="not a wheel"):
        check_wheel(path)


def npy(
    kind: str | list[tuple[str, str]],
    shape: tuple[int, ...],
    content: bytes,
    version: bytes = b"\x01\x00",
    extra: str = "",
) -> bytes:
    """Return an npy file with any header: type, shape, format version and further keys."""
    head = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}{extra}}}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(head)) + head + content


def parts(rows: int = 4) -> dict[str, bytes]:
    """Return the members of an npz file that an audit accepts."""
    files = {}
    for stem in (f"{model}_{side}" for model in MODELS for side in SIDES):
        for name, array in (("outputs", np.full((rows, 2), 0.5, np.float32)), ("labels", np.zeros(rows, np.int64))):
            file = io.BytesIO()
            np.save(file, array)
            files[f"{stem}_{name}.npy"] = file.getvalue()
    return files


def saved(folder: Path, members: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(folder / "a.npz", "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return folder / "a.npz"


NAME = "shadow_member_outputs.npy"
ARRAYS: dict[str, tuple[bytes, str]] = {
    "objects": (npy("|O", (4, 2), b"cos\nsystem\n(S'id'\ntR."), "not plain numbers"),
    "a pickle": (b"\x80\x04cos\nsystem\n", "not an npy file"),
    "a header that is code": (npy("<f4", (4, 2), bytes(32)).replace(b"False", b"id(1)"), "plain arrays|header"),
    "a further key": (npy("<f4", (4, 2), bytes(32), extra=", 'x': 1"), "header"),
    "more than there is": (npy("<f4", (1 << 40, 2), bytes(32)), "declares"),
    "a negative size": (npy("<f4", (-4, -2), bytes(32)), "shape"),
    "true as a size": (npy("<f4", (True, 8), bytes(32)), "shape"),
    "names of fields": (npy([("a", "<f4")], (4, 2), bytes(32)), "not plain numbers"),
    "complex numbers": (npy("<c8", (4, 2), bytes(64)), "not plain numbers"),
    "booleans": (npy("|b1", (4, 2), b"\x01\x00" * 4), "must be numbers"),
    "halves that sum to more": (npy("<f2", (4, 2), np.full(8, 0.51, "<f2").tobytes()), "does not sum"),
    "minus zero and more than one": (npy("<f4", (4, 2), np.float32([-0.002, 1.002] * 4).tobytes()), "outside"),
    "infinity": (npy("<f8", (4, 2), np.array([np.inf, -np.inf] * 4).tobytes()), "infinity"),
    "another version": (npy("<f4", (4, 2), bytes(32), version=b"\x03\x00"), "version"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_of_an_audit_that_is_something_else_is_refused(name: str, tmp_path: Path) -> None:
    content, message = ARRAYS[name]
    read_audit(saved(tmp_path, parts()), logits=False)
    with pytest.raises(UsageError, match=message) as caught:
        read_audit(saved(tmp_path, {**parts(), NAME: content}), logits=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays | {NAME.removesuffix(".npy"): arrays[NAME]},
        lambda arrays: {k: v for k, v in arrays.items() if k != NAME} | {f"../{NAME}": arrays[NAME]},
    ],
    ids=["twice", "under a way out"],
)
def test_an_array_of_an_audit_has_one_name(change: Callable[[Any], dict[str, bytes]], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_audit(saved(tmp_path, change(parts())), logits=False)


def test_a_bomb_of_an_audit_is_not_unpacked(tmp_path: Path) -> None:
    zeros = npy("<f4", (20 << 20, 2), bytes(160 << 20))
    with pytest.raises(UsageError, match="at most"):
        read_audit(saved(tmp_path, {**parts(), NAME: zeros}), logits=False)


def test_values_that_differ_have_keys_that_differ() -> None:
    """A component with the key of another one would get its results."""
    values: list[Any] = [1, 1.5, "1", "1.0", None, "null", [1], ["1"], [[1]], {"a": 1}, {"a": "1"}, {"a,b": 1}, "", " "]
    values += [
        "\u00e9",
        "e\u0301",
        "\u212b",
        "\u00c5",
        "a\\",
        'a"',
        "[1]",
        "true",
        2**53,
        2**53 + 1,
        1e-320,
        0.1 + 0.2,
        0.3,
    ]
    keys = [
        digest(ComponentRef(kind="defense", id="a/b", version="1", label="a/b", parameters={"p": value}).identity())
        for value in values
    ]
    assert len(set(keys)) == len(values)


def test_another_package_under_the_same_name_has_a_key_of_its_own() -> None:
    one = ComponentRef(kind="defense", id="a/b", version="1", label="a/b", parameters={}, content="0" * 64)
    keys = {digest(reference.identity()) for reference in (one, one.model_copy(update={"content": "1" * 64}))}
    keys |= {digest(one.model_copy(update={"content": "", "parameters": {"content": "0" * 64}}).identity())}
    assert len(keys) == 3
