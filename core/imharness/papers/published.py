"""Published tables: one TOML file for each, in the folder `papers` of the package of its track.

A file says in which setting a table was measured, and which numbers of our tables are the same quantity. Values stand
as they are printed, so that their last digit is known. A table without transcribed numbers says why in `left_out`.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from imharness.components.loading import COMPONENTS, points_of
from imharness.errors import PluginError, UsageError, unknown_name

FOLDER = "papers"
_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)"
_PRINTED = re.compile(rf"-|({_NUMBER})(?:±({_NUMBER}))?")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Printed(_Strict):
    """A number as it is printed: ``0.36±0.65``, or ``-`` where the table has none."""

    text: str

    @property
    def value(self) -> float | None:
        """The number, None where the table has none."""
        return None if self.text == "-" else float(self.text.partition("±")[0])

    @property
    def spread(self) -> float | None:
        """What stands after the sign ±, if anything does."""
        spread = self.text.partition("±")[2]
        return float(spread) if spread else None

    @property
    def half_digit(self) -> float:
        """Half a unit of the last digit: how far rounding may have moved the number."""
        return 0.5 * 10.0 ** -len(self.text.partition("±")[0].partition(".")[2])


class PublishedColumn(_Strict):
    """A column. `ours` points to the same quantity as ``table:column``; see `imharness.papers.pointers`.

    Ours is the published number times `scale`. `hardware`: it depends on the machine, so that only order can agree.
    `entry` is False for a column that takes part in no order, where columns are the entries.
    """

    key: str
    label: str
    ours: str = ""
    scale: float = Field(1.0, gt=0)
    better: Literal["higher", "lower", ""] = ""
    hardware: bool = False
    entry: bool = True
    note: str = ""


class PublishedRow(_Strict):
    """A row. `ours` is the label of the same entry; `data` and `over` stand in the place of those of the table.

    `entry` is False for a row that takes part in no order, such as a ceiling.
    """

    label: str
    ours: str = ""
    data: tuple[str, ...] | None = None
    over: Mapping[str, tuple[str, ...]] | None = None
    entry: bool = True
    values: tuple[Printed, ...]
    note: str = ""

    @field_validator("values", mode="before")
    @classmethod
    def _split(cls, values: object) -> object:
        if not isinstance(values, str):
            raise ValueError("values are one text, with a space between numbers")
        for word in values.split():
            if not _PRINTED.fullmatch(word):
                raise ValueError(f"{word!r} is neither a number nor '-'")
        return [{"text": word} for word in values.split()]


class PublishedTable(_Strict):
    """A table of a paper.

    `data`: the data sets it was measured on, by our names. `over`: component kind -> pointers to all those that its
    numbers are means over; `besides`: those that a board may have with them, as they enter none of its numbers.
    `profiles`: those that repeat its setting; `set_up`: by profile, the options and parameters that its file in the
    package gives the track. `once`: its numbers are of one unit of those that ours are means of, such as one random
    split. `chosen`: each entry stands with its best parameter value. `entries`: what is put in order,
    rows or columns. `transposed`: its columns are our rows, so that `ours` of a column is ``table:row`` and `ours` of a
    row is a column. `matrix`: our table of who beats whom, the only one it has. `headline`: the quantities by which the
    paper says what is better. `kinds`: which kind of component the pointers of rows and of columns name, so that a run
    can be narrowed to them; `needs`: by kind, what else its numbers are made of; `selections`: by profile and kind, the
    names that its file in the package selects.
    """

    name: str = Field(pattern=r"^[\w.-]+$")
    """The file without its ending and ``table-``, such as ``3-training``."""
    paper: str
    table: str = Field(pattern=r"^\d+$")
    track: str
    title: str
    setting: str = ""
    data: tuple[str, ...] = ()
    over: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    besides: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    profiles: tuple[str, ...] = ()
    set_up: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    once: bool = False
    chosen: bool = False
    entries: Literal["rows", "columns"] = "rows"
    transposed: bool = False
    matrix: str = ""
    headline: tuple[str, ...] = ()
    kinds: Mapping[Literal["rows", "columns"], str] = Field(default_factory=dict)
    needs: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    selections: Mapping[str, Mapping[str, tuple[str, ...]]] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    columns: tuple[PublishedColumn, ...] = ()
    rows: tuple[PublishedRow, ...] = ()
    left_out: str = ""
    citation: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def address(self) -> str:
        """What the table is called on the command line: ``iqa/3-training``; ``harness/`` is left out."""
        return f"{self.track.removeprefix('harness/')}/{self.name}"

    @model_validator(mode="after")
    def _is_whole(self) -> PublishedTable:
        if bool(self.left_out) == bool(self.rows):
            raise ValueError("a table has either rows or a reason in left_out")
        _unique("column", [column.key for column in self.columns])
        _unique("row", [row.label for row in self.rows])
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(f"row {row.label!r} has {len(row.values)} values for {len(self.columns)} columns")
        unknown = set(self.headline) - {line.label for line in (self.columns if self.entries == "rows" else self.rows)}
        if unknown:
            raise ValueError(f"headline {sorted(unknown)[0]!r} is no quantity of the table")
        for column in self.columns:
            if column.ours and not self.matrix and not column.ours.partition(":")[2]:
                raise ValueError(f"column {column.key!r} points to {column.ours!r}, which is not table:column")
        return self


def published_tables() -> tuple[PublishedTable, ...]:
    """Return the tables of all installed packages, by track and number; raises `PluginError` for a file that is wrong.

    Packages are found by their entry points and are not imported.
    """
    points = points_of(COMPONENTS)
    packages = sorted({point.value.partition(":")[0].partition(".")[0] for point in points})
    return tuple(sorted((t for package in packages for t in tables_in(package)), key=_order))


def find_table(name: str) -> PublishedTable:
    """Return a table by its address, such as ``iqa/2``; raises `UsageError` with the nearest address."""
    known = {table.address: table for table in published_tables()}
    if name not in known:
        raise UsageError(unknown_name(f"no published table is called {name!r}", name, known))
    return known[name]


@functools.cache
def tables_in(package: str) -> tuple[PublishedTable, ...]:
    """Return the tables of one package; empty where it has none. Raises `PluginError`."""
    spec = importlib.util.find_spec(package)
    root = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    files = sorted((Path(root) / FOLDER).glob("*.toml")) if root else []
    papers = _read(Path(str(root)) / "papers.toml", f"{package}/papers.toml") if files else {}
    return tuple(_table(file, package, papers) for file in files)


def _table(file: Path, package: str, papers: Mapping[str, Any]) -> PublishedTable:
    where = f"{package}/{FOLDER}/{file.name}"
    raw = _read(file, where)
    cited = raw.get("paper")
    if not isinstance(cited, str) or cited not in papers:
        raise PluginError(f"{where} cites paper={cited!r}, which is not in {package}/papers.toml.")
    try:
        parts = _profiles(file, raw)
        set_up = {name: {key: own.get(key, {}) for key in ("options", "parameters")} for name, own in parts.items()}
        selections = {name: own.get("select", {}) for name, own in parts.items()}
        named = {"name": file.stem.removeprefix("table-"), "citation": papers[cited]}
        return PublishedTable.model_validate(raw | named | {"set_up": set_up, "selections": selections})
    except ValidationError as error:
        raise PluginError(f"{where}: {_told(error, raw)}") from None


def _profiles(file: Path, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a table's track in the package's profiles, by profile; one that the package does not have is left out."""
    folder, found = file.parents[1] / "profiles", {}
    for profile in raw.get("profiles", ()):
        own = folder / f"{profile}.toml"
        if own.is_file():
            read = _read(own, f"{folder.parent.name}/profiles/{own.name}")
            found[str(profile)] = read.get("tracks", {}).get(raw.get("track"), {})
    return found


def _told(error: ValidationError, raw: Mapping[str, Any]) -> str:
    """Return the first problem in one line, with the label of its row or column."""
    first = error.errors()[0]
    place = list(first["loc"])
    if len(place) > 1 and isinstance(place[1], int):
        entry = raw[str(place[0])][place[1]]
        called = entry.get("label", "") if isinstance(entry, dict) else ""
        place[:2] = [f"{place[0]}[{place[1]}]" + (f" {called!r}" if called else "")]
    return ": ".join([*(str(part) for part in place), first["msg"].removeprefix("Value error, ")])


def _read(file: Path, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PluginError(f"{where} cannot be read: {' '.join(str(error).split())[:200]}") from None


def _unique(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} {twice[0]!r} stands twice")


def _order(table: PublishedTable) -> tuple[str, int, str]:
    return table.track, int(table.table), table.name
