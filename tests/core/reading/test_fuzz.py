"""Damaged and invented files of every format are read, or refused in one line; never is there a traceback."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.core.reading import malformed
from tests.core.reading.spent import LARGEST_MIB, bounded
from tests.core.reading.test_malformed import MANIFEST, PRESET, PROFILE, ledger_text

from imharness.errors import HarnessError
from imharness.reading.arrays import read_array, read_arrays
from imharness.reading.images import FORMATS, image_shape, read_image, read_pixels
from imharness.reading.structured import read_json, read_json_lines, read_toml
from imharness.reading.tables import read_columns, read_csv
from imharness.reading.tensors import read_tensors
from imharness.reading.wheels import check_wheel

INPUTS = int(os.environ.get("HARNESS_FUZZ", "150"))
"""Files that are tried of each format and right file; the usual 150 are the same in each run."""
Reader = Callable[[Path], object]


def picture(kind: str) -> bytes:
    file = io.BytesIO()
    pixels = np.arange(16 * 12 * 3, dtype=np.uint8).reshape(16, 12, 3)
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    table = {"model": ["shadow", "target"] * 20, "p0": np.linspace(0, 1, 40), "label": list(range(40))}
    pq.write_table(pa.table(table), file)
    return file.getvalue()


def wheel() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("a.py", "x = 1\n" * 50)
        out.writestr("a-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: a\nVersion: 1.0\nAuthor: A stranger\n")
    return file.getvalue()


def safetensors() -> bytes:
    from safetensors.numpy import save

    return bytes(save({"a": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.zeros(3, np.int64)}))


def rows(path: Path) -> None:
    """Read a table row by row, then column by column."""
    table = read_csv(path)
    for _, row in table.rows():
        assert row.keys() == set(table.columns)
    columns(path)


def columns(path: Path) -> None:
    table = read_columns(path)
    for name in table.columns:
        try:
            assert np.isfinite(table.numbers(name)).all()
        except HarnessError:
            table.texts(name)


def arrays(path: Path) -> None:
    for array in read_arrays(path).values():
        assert array.dtype.kind in "biuf"
        assert array.nbytes < LARGEST_MIB << 20


def picture_shape(path: Path) -> None:
    assert read_pixels(path).shape[:2] == image_shape(path)
    assert min(read_image(path).size) > 0


def lines(path: Path) -> None:
    for value in read_json_lines(path):
        json.dumps(value, allow_nan=False)


SEEDS: dict[str, tuple[str, Reader, list[bytes]]] = {  # format -> ending, reader, right files
    "npz": (".npz", arrays, [malformed.npz(), malformed.npz(kind=zipfile.ZIP_STORED)]),
    "npy": (".npy", read_array, [malformed.saved(np.arange(12.0).reshape(3, 4)), malformed.saved(np.ones(3, bool))]),
    "csv": (".csv", rows, ["\n".join([malformed.AUDIT_HEAD, *malformed.AUDIT_ROWS]).encode(), b'a,b\n"x, y",1']),
    "parquet": (".parquet", columns, [parquet()]),
    "toml": (".toml", read_toml, [MANIFEST.encode(), PROFILE.encode()]),
    "json": (".json", read_json, [PRESET.encode()]),
    "json lines": (".jsonl", lines, [f"{PRESET}\n{PRESET}\n".encode()]),
    **{kind.lower(): (f".{kind.lower()}", picture_shape, [picture(kind)]) for kind in FORMATS},
    "wheel": ("-1.0-py3-none-any.whl", check_wheel, [wheel()]),
    "safetensors": (".safetensors", read_tensors, [safetensors()]),
}
WORDS = (
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\x7f\xff\xff\xff",
    b"NaN",
    b"1e999",
    b"9" * 400,
    b"[" * 60,
    b'"',
    b",",
    b"\n",
    b"\\ud800",
    "\u2028\u0661\u202e".encode(),
    b"\x1b[2J",
    b"-1",
    b"1_0",
    b"PK\x01\x02",
    b".a" * 150,
    b"\0",
)
"""Bytes that replace a part of a file: large numbers, brackets, separators, control characters."""


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Return a right file after a few changes: other bytes, parts cut, doubled or replaced; or invented bytes."""
    content = bytearray(draw(st.sampled_from([*seeds, b""])))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(content)))
        stop = min(len(content), start + draw(st.integers(0, 40)))
        what = draw(st.sampled_from(("bytes", "cut", "double", "word", "flip", "end")))
        if what == "bytes":
            content[start:stop] = draw(st.binary(max_size=16))
        elif what == "cut":
            del content[start:stop]
        elif what == "double":
            content[start:start] = content[start:stop] * draw(st.integers(1, 50))
        elif what == "word":
            content[start:stop] = draw(st.sampled_from(WORDS))
        elif what == "flip" and start < len(content):
            content[start] ^= 1 << draw(st.integers(0, 7))
        elif what == "end":
            del content[start:]
    return bytes(content)


def tried(read: Reader, path: Path, content: bytes) -> bool:
    """Read a file, and return whether it was accepted; a refusal must be one line that names the file."""
    path.write_bytes(content)
    message = ""
    with bounded():
        try:
            read(path)
        except HarnessError as error:
            message = str(error)
    assert message.isprintable(), repr(message)
    assert not message or path.name in message
    assert len(message) < 1000
    return not message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SEEDS)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    ending, read, seeds = SEEDS[name]
    path = tmp_path / f"a{ending}"
    for seed in seeds:
        assert tried(read, path, seed), "a right file is read"

    @settings(
        max_examples=INPUTS,
        deadline=None,
        database=None,
        derandomize=INPUTS == 150,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(damaged(seeds))
    def one(content: bytes) -> None:
        tried(read, path, content)

    one()


@pytest.mark.filterwarnings("ignore")
def test_damaged_ledgers_are_refused(tmp_path: Path) -> None:
    """A changed ledger is refused; one that is read has the line of the right ledger, or none."""
    from imharness_submissions.ledger import Ledger

    good = ledger_text(tmp_path / "good").encode()

    @settings(
        max_examples=INPUTS,
        deadline=None,
        database=None,
        derandomize=INPUTS == 150,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(damaged([good]))
    def one(content: bytes) -> None:
        def read(path: Path) -> None:
            assert [line.reason for line in Ledger(path.parent, path.name).lines()] in (["for a test"], [])

        tried(read, tmp_path / "ledger.jsonl", content)

    one()
