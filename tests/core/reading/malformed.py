"""Malformed files, each named by what is wrong with it; for a large file, its content is a function that makes it."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping

import numpy as np

Content = bytes | Callable[[], bytes]
# An audit as npz has these arrays, one as csv these columns and rows; below, the columns and a row of external results.
ARRAYS = [
    f"{model}_{side}_{content}"
    for model in ("shadow", "target")
    for side in ("member", "nonmember")
    for content in ("outputs", "labels")
]
AUDIT_HEAD = "model,member,label,p0,p1"
AUDIT_ROWS = [
    f"{model},{member},{label},{1 - label},{label}"
    for model in ("shadow", "target")
    for member in (0, 1)
    for label in (0, 1)
]
EXTERNAL_HEAD = "image,metric,attack,strength,defense,clear,attacked,defended_clear,defended_attacked,mos"
EXTERNAL_ROW = "a.png,m,x,medium,jpeg,0.5,0.9,0.5,0.6,3"


def head_of(descr: object, shape: object, *, order: object = False) -> bytes:
    """Return the head of an npy file that announces an array."""
    text = repr({"descr": descr, "fortran_order": order, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def npz(changes: Mapping[str, bytes | None] = {}, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a right audit as npz, with other bytes for some members; None leaves one out."""
    members: dict[str, bytes] = {}
    for name in ARRAYS:
        content = io.BytesIO()
        np.save(content, np.eye(4, 2)[[0, 1, 0, 1]] if name.endswith("outputs") else np.array([0, 1, 0, 1]))
        members[name] = content.getvalue()
    members |= {k: v for k, v in changes.items() if v is not None}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as out:
        for name, content in members.items():
            if changes.get(name, b"") is not None:
                out.writestr(f"{name}.npy", content)
    return file.getvalue()


def saved(array: np.ndarray, *, pickle: bool = False) -> bytes:
    """Return an array as the bytes of an npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=pickle)
    return file.getvalue()


def npz_files() -> Iterator[tuple[str, Content]]:
    """Yield malformed audits as npz."""
    good, first = npz(), ARRAYS[0]
    yield "empty", b""
    yield "text", b"not a zip file"
    yield "cut off", good[: len(good) // 2]
    yield "one bit", good[:60] + bytes([good[60] ^ 8]) + good[61:]
    yield "announces 21 TiB", npz({first: head_of("<f8", (10**12, 3))})
    yield "announces too little", npz({first: head_of("<f8", (1, 2)) + bytes(64)})
    yield "no npy inside", npz({first: b"hello"})
    yield "npz inside", npz({first: good})
    yield "complex", npz({first: saved(np.ones((4, 2), complex))})
    yield "timedelta", npz({first: saved(np.ones((4, 2), "m8[s]"))})
    yield "text array", npz({first: saved(np.full((4, 2), "0.5"))})
    yield "objects", npz({first: saved(np.array([[None, {}]], object), pickle=True)})
    yield "record array", npz({first: saved(np.zeros(4, [("a", "f8")]))})
    yield "negative shape", npz({first: head_of("<f8", (-4, -2)) + bytes(64)})
    yield "huge numbers in shape", npz({first: head_of("<f8", (2**62, 4)) + bytes(64)})
    yield "shape of text", npz({first: head_of("<f8", ("4", 2)) + bytes(64)})
    yield "true in shape", npz({first: head_of("<f8", (True, 8)) + bytes(64)})
    yield "many dimensions", npz({first: head_of("<f8", (1,) * 70) + bytes(8)})
    yield "deep head", npz({first: b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000})
    yield "head is code", npz({first: b"\x93NUMPY\x01\x00" + struct.pack("<H", 20) + b"__import__('os')    "})
    yield "NaN", npz({first: saved(np.full((4, 2), np.nan))})
    yield "no rows", npz({first: saved(np.ones((0, 2))), ARRAYS[1]: saved(np.ones(0, int))})
    yield "labels of bool", npz({ARRAYS[1]: saved(np.array([True, False, True, False]))})
    yield "bomb", lambda: npz({first: head_of("<f8", (10_000_000, 2)) + bytes(160_000_000)})
    yield "lzma", npz(kind=zipfile.ZIP_LZMA)


def audit_csv_files() -> Iterator[tuple[str, bytes]]:
    """Yield malformed audits as csv."""

    def table(*rows: str, head: str = AUDIT_HEAD) -> bytes:
        return "\n".join([head, *AUDIT_ROWS, *rows, ""]).encode()

    yield "empty", b""
    yield "only a head", f"{AUDIT_HEAD}\n".encode()
    yield "not UTF-8", table("shadow,1,0,1,0").replace(b"shadow", b"sh\xffdow", 1)
    yield "duplicate columns", table(head=AUDIT_HEAD.replace("p1", "p0"))
    yield "a wider row", table("shadow,1,0,1,0,0")
    yield "NUL", table("shadow,1,0,1,\0")
    for value in ("2", ".5", "-1", "nan", "", "true", "1_0", "inf"):
        yield f"member is {value!r}", table(f"shadow,{value},0,1,0")
    for value in ("1_000", "\u0661", "nan", "inf", "1e999", "0x1", "", "one"):
        yield f"output is {value!r}", table(f"shadow,1,0,{value},0")
    for value in ("0.5", "-1", "2", "9" * 5000, "nan"):
        yield f"label is {value[:8]!r}", table(f"shadow,1,{value},1,0")
    yield "model is neither", table("other,1,0,1,0")
    yield "an open quote", table('"shadow,1,0,1,0')
    yield "a long field", table("s" * 200_000 + ",1,0,1,0")


def parquet_files() -> Iterator[tuple[str, Content]]:
    """Yield malformed audits as parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    good = {
        "model": ["shadow"] * 4 + ["target"] * 4, "member": [0, 0, 1, 1] * 2, "label": [0, 1] * 4,
        "p0": [1.0, 0.0] * 4, "p1": [0.0, 1.0] * 4,
    }  # fmt: skip

    def written(changes: Mapping[str, object]) -> bytes:
        file = io.BytesIO()
        pq.write_table(pa.table({**good, **changes}), file)
        return file.getvalue()

    whole = written({})
    yield "empty", b""
    yield "text", b"PAR1 is not enough"
    yield "cut off", whole[:-100]
    yield "without its middle", whole[:100] + bytes(len(whole) - 200) + whole[-100:]
    yield "member of 2", written({"member": [0, 0, 1, 2] * 2})
    yield "member of a half", written({"member": [0.0, 0.5, 1.0, 1.0] * 2})
    yield "member is missing", written({"member": [0, None, 1, 1] * 2})
    yield "outputs of text", written({"p0": ["1", "0"] * 4})
    yield "outputs of lists", written({"p0": [[1.0], [0.0]] * 4})
    yield "labels of time", written({"label": np.zeros(8, "M8[s]")})
    file = io.BytesIO()
    names = list(good)
    pq.write_table(
        pa.Table.from_arrays([pa.array(v) for v in good.values()] + [pa.array([0.0] * 8)], [*names, "p0"]), file
    )
    yield "duplicate columns", file.getvalue()
    same = pa.array(np.zeros(6_000_000, np.int8))
    yield "six million rows in a few bytes", lambda: written({k: pa.array(v[:1]).take(same) for k, v in good.items()})


def external_files() -> Iterator[tuple[str, bytes]]:
    """Yield malformed tables of results that others measured."""

    def table(row: str = EXTERNAL_ROW, head: str = EXTERNAL_HEAD) -> bytes:
        return f"{head}\n{row}\n".encode()

    yield "empty", b""
    yield "only a head", f"{EXTERNAL_HEAD}\n".encode()
    yield "not UTF-8", table().replace(b"a.png", b"a\xff.png")
    yield "duplicate columns", table(EXTERNAL_ROW + ",4", EXTERNAL_HEAD + ",mos")
    yield "a long field", table("x" * 200_000 + EXTERNAL_ROW[5:])
    yield "a short row", table(EXTERNAL_ROW.rpartition(",")[0])
    yield "a wider row", table(EXTERNAL_ROW + ",1")
    yield "NUL", table(EXTERNAL_ROW.replace("a.png", "a\0.png"))
    yield "escape", table(EXTERNAL_ROW.replace("a.png", "a\x1b[2J.png"))
    yield "line separator", table(EXTERNAL_ROW.replace("a.png", "a\u2028b.png"))
    yield "an open quote", table('"' + EXTERNAL_ROW)
    for value in ("1_000", "\u0660.\u0665", "nan", "inf", "1e999", "9" * 5000, "", "half"):
        yield f"score is {value[:8]!r}", table(EXTERNAL_ROW.replace("0.9", value))
    yield "a clean score above its bounds", table(EXTERNAL_ROW.replace(",0.5,0.9", ",1.5,0.9"))


def toml_files(good: str) -> Iterator[tuple[str, bytes]]:
    """Yield malformed TOML files, from the text of a right one."""
    text = good.encode()
    yield "not UTF-8", text + b"# \xff\n"
    yield "nested 5,000 levels", text + b"further = " + b"[" * 5000 + b"]" * 5000 + b"\n"
    yield "tables 5,000 levels deep", text + b"[" + b".".join([b"a"] * 5000) + b"]\n"
    yield "an integer of 5,000 digits", text + b"[deep]\nx = " + b"9" * 5000 + b"\n"
    yield "an integer of 4,000 digits", text + b"[deep]\nx = " + b"9" * 4000 + b"\n"
    yield "NUL", text + b"# \0\n"
    yield "many dotted keys", text + b"".join(b"a%d%s = 1\n" % (i, b".b" * 100) for i in range(4500))
    yield "one key of 300,000 parts", text + b"a" + b".b" * 300_000 + b" = 1\n"
    yield "2 MiB", text + b"#" * (2 << 20) + b"\n"
    yield "not TOML", text + b"= 3\n"


def json_files(good: str) -> Iterator[tuple[str, bytes]]:
    """Yield malformed JSON files; some are made from a right one, a list of objects."""
    yield "empty", b""
    yield "not UTF-8", b'["\xff"]'
    yield "nested 100,000 levels", b"[" * 100_000
    yield "an integer of 5,000 digits", b"[" + b"9" * 5000 + b"]"
    yield "NaN", b"[NaN]"
    yield "a number", b"3"
    yield "a key twice", b'[{"attack": "a", "attack": "b"}]'
    yield "half a character", b'["\\ud800"]'
    yield "an infinite strength", good.replace("0.5", "1e999", 1).encode()


def ledger_lines(good: str) -> Iterator[tuple[str, bytes]]:
    """Yield damaged ledgers; some are made from the text of a right one, which has the reason "for a test"."""
    yield "not UTF-8", b"\xff\n"
    yield "not JSON", b"{\n"
    yield "nested 100,000 levels", b"[" * 100_000 + b"\n"
    yield "half a line, and its end", good.encode()[:-20] + b"\n"
    yield "an integer of 5,000 digits", json.dumps({"number": 1}).replace("1", "9" * 5000).encode() + b"\n"
    yield "half a character", good.replace("for a test", "\\ud800").encode()
