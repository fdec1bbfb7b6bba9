"""The templates that this process has compiled: compiling them takes longer than rendering a small site."""

from __future__ import annotations

import types

from jinja2.bccache import Bucket, BytecodeCache


class Compiled(BytecodeCache):
    """Keeps the code of templates in memory, by their names and contents, for all builds of a process."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], types.CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._codes[bucket.key, bucket.checksum] = bucket.code


COMPILED = Compiled()
