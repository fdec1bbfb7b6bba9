"""Messages arrive as they were sent; other bytes are refused before memory is allocated for them."""

import json
import os
import struct

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from imharness.reading.text import stripped
from imharness_submissions.sandbox.wire import MAGIC, Channel, Closed, Message, WireError, pack, unpack

DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.bfloat16]
FACTS = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text())


def printable(value: object) -> object:
    """Return a value as it arrives: texts lose the characters that a terminal interprets."""
    if isinstance(value, dict):
        return {printable(name): printable(item) for name, item in value.items()}
    return stripped(value) if isinstance(value, str) else value


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    tensor = torch.randn(shape).to(draw(st.sampled_from(DTYPES)))
    return tensor.transpose(0, -1) if len(shape) > 1 and draw(st.booleans()) else tensor


def blob(message: Message) -> torch.Tensor:
    """Return the bytes of a message after its mark and length, 12 bytes: (length,), uint8."""
    joined = b"".join(pack(message))
    return torch.frombuffer(bytearray(joined[12:]), dtype=torch.uint8)


@given(st.text(max_size=10), FACTS, st.dictionaries(st.text(min_size=1, max_size=6), tensors(), max_size=4))
def test_a_message_arrives_as_it_was_sent(kind: str, facts: dict, tensors: dict) -> None:
    tensors.pop("__metadata__", None)
    got = unpack(blob(Message(kind, facts, tensors)))
    assert (got.kind, got.facts) == (printable(kind), printable(facts))
    assert {n: t.dtype for n, t in got.tensors.items()} == {n: t.dtype for n, t in tensors.items()}
    assert all(torch.equal(got.tensors[n].nan_to_num(), tensors[n].nan_to_num()) for n in tensors)


def test_the_format_is_safetensors() -> None:
    tensors = {"a": torch.randn(3, 1, 5)[:, :, ::2], "b": torch.tensor(True), "c": torch.arange(3)}
    # The format holds numbers alone, no pickle: reading it runs no code.
    loaded = safetensors.torch.load(bytes(blob(Message("call", {"x": 1}, tensors)).numpy()))
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("facts", ['{"x": NaN}', '{"x": [1, -Infinity]}', '{"x": 1e999}', '{"x": ' + "9" * 5000 + "}"])
def test_numbers_in_facts_are_finite(facts: str) -> None:
    entries = json.dumps({"__metadata__": {"kind": "k", "facts": facts}}).encode()
    content = struct.pack("<Q", len(entries)) + entries
    with pytest.raises(WireError):
        unpack(torch.frombuffer(bytearray(content), dtype=torch.uint8))


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "header",
    [json.dumps({"__metadata__": {"kind": "result", "facts": NESTED}}), f'{{"__metadata__": {NESTED}}}'],
    ids=["facts", "header"],
)
def test_json_that_is_nested_a_hundred_thousand_times_is_not_read(header: str) -> None:
    content = struct.pack("<Q", len(header)) + header.encode()
    with pytest.raises(WireError, match="nested too deeply"):
        unpack(torch.frombuffer(bytearray(content), dtype=torch.uint8))


def test_texts_in_facts_lose_what_terminals_and_json_cannot_take() -> None:
    sent = {"a\x1b": ["x\x1b[2J\u2028y\u202e", "z\ud800\n\t\u200d"], "b": {"\x85": "\x07"}}
    got = unpack(blob(Message("k", sent)))
    assert got.facts == {"a ": ["x [2J y ", "z \n\t\u200d"], "b": {" ": " "}}


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(content: bytes) -> None:
    try:
        message = unpack(torch.frombuffer(bytearray(content or b"0"), dtype=torch.uint8))
    except WireError:
        return
    assert message.size <= len(content)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 8000]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1] * 9, "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2**39, 2**39], "data_offsets": [0, 4]},
        {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": "x", "data_offsets": [0, 4]},
        "nothing",
    ],
)
def test_a_tensor_outside_of_its_message_is_refused(entry: object) -> None:
    header = json.dumps({"__metadata__": {"kind": "x", "facts": "{}"}, "t": entry}).encode()
    content = struct.pack("<Q", len(header)) + header + bytes(8)
    with pytest.raises(WireError):
        unpack(torch.frombuffer(bytearray(content), dtype=torch.uint8))


def pipe(limit: int) -> tuple[int, Channel]:
    """Return a descriptor to write to, and a channel that reads messages of at most `limit` bytes from it."""
    reading, writing = os.pipe()
    return writing, Channel(reading, os.dup(writing), limit)


@pytest.mark.parametrize("length", [1001, 1 << 60])
def test_a_length_is_checked_before_memory_is_taken(length: int) -> None:
    writing, channel = pipe(1000)
    os.write(writing, struct.pack("<4sQ", MAGIC, length))
    with pytest.raises(WireError, match=f"a message of {length} bytes; at most 1000"):
        channel.receive()
    os.close(writing)
    channel.close()


def test_the_end_of_the_other_side_is_noticed() -> None:
    reading, writing = os.pipe()
    channel = Channel(reading, os.dup(reading), 1000)
    os.write(writing, struct.pack("<4sQ", MAGIC, 100))
    os.close(writing)
    with pytest.raises(Closed):
        channel.receive()
    channel.close()
