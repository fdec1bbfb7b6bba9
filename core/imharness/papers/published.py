"""Published tables: one TOML file for each, in the folder `papers` of the package of its track.

A file says in which setting a table was measured, and which numbers of our tables are the same quantity. Values are
given as they are printed, so that their last digit is known. A table that is not transcribed says why in `left_out`.

The public code of a paper's authors may compute something else than the paper says. Sentences state this, with the
place in the code: for a component in the package's `otherwise.toml` (paper -> pointer -> sentence), for a single row or
column in its field `otherwise`.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from imharness.components.loading import COMPONENTS, points_of
from imharness.errors import PluginError, UsageError, unknown_name
from imharness.planning.profile import with_bases

FOLDER, OTHERWISE = "papers", "otherwise.toml"
_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)"
_PRINTED = re.compile(rf"-|({_NUMBER})(?:±({_NUMBER}))?")
_OTHERWISE = TypeAdapter(dict[str, dict[str, Annotated[str, StringConstraints(min_length=1)]]])


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Printed(_Strict):
    """A number as it is printed, such as ``0.36±0.65``, or ``-`` if the table has none."""

    text: str

    @property
    def value(self) -> float | None:
        """The number, or None if the table has none."""
        return None if self.text == "-" else float(self.text.partition("±")[0])

    @property
    def spread(self) -> float | None:
        """The number after the sign ±, if there is one."""
        spread = self.text.partition("±")[2]
        return float(spread) if spread else None

    @property
    def half_digit(self) -> float:
        """Half a unit of the last digit, by which rounding may have changed the number."""
        return 0.5 * 10.0 ** -len(self.text.partition("±")[0].partition(".")[2])


class PublishedColumn(_Strict):
    """A column of a published table.

    Attributes:
        key: its name in the file.
        label: its printed name.
        ours: a pointer to the same quantity in our tables, ``table:column`` (see `imharness.papers.pointers`), or "".
        scale: the published number times `scale` is in our unit.
        better: the better direction of our number.
        hardware: whether the number depends on the machine, so that only the order of entries can agree.
        entry: whether the column is ranked, in a table whose entries are columns; False for one such as a ceiling.
        note: a remark for readers.
        otherwise: what the authors' code computes instead, and where; "" if it computes what the paper says.
    """

    key: str
    label: str
    ours: str = ""
    scale: float = Field(1.0, gt=0)
    better: Literal["higher", "lower", ""] = ""
    hardware: bool = False
    entry: bool = True
    note: str = ""
    otherwise: str = ""


class PublishedRow(_Strict):
    """A row of a published table.

    Attributes:
        label: its printed name.
        ours: a pointer to the same entry among our labels, or "".
        data: the data sets of this row, if they differ from those of the table.
        over: what the numbers of this row are means over, if that differs from the table's `over`.
        entry: whether the row is ranked; False for one such as a ceiling.
        values: the numbers, one for each column.
        note: a remark for readers.
        otherwise: what the authors' code computes instead, and where; "" if it computes what the paper says.
    """

    label: str
    ours: str = ""
    data: tuple[str, ...] | None = None
    over: Mapping[str, tuple[str, ...]] | None = None
    entry: bool = True
    values: tuple[Printed, ...]
    note: str = ""
    otherwise: str = ""

    @field_validator("values", mode="before")
    @classmethod
    def _split(cls, values: object) -> object:
        if not isinstance(values, str):
            raise ValueError("values must be one text, with spaces between numbers")
        for word in values.split():
            if not _PRINTED.fullmatch(word):
                raise ValueError(f"{word!r} is neither a number nor '-'")
        return [{"text": word} for word in values.split()]


class PublishedTable(_Strict):
    """A table of a paper."""

    name: str = Field(pattern=r"^[\w.-]+$")
    """The name of the file without its extension and ``table-``, such as ``3-training``."""
    paper: str
    """The key of the paper in the package's papers.toml."""
    table: str = Field(pattern=r"^((figure|section) )?\d+(\.\d+)*$")
    """The number of the table, or where else the numbers are printed, such as ``figure 3``."""
    track: str
    title: str
    setting: str = ""
    """The setting in words, for readers."""
    data: tuple[str, ...] = ()
    """The data sets on which it was measured, by our names."""
    over: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Kind of component -> pointers to all components that its numbers are means over."""
    besides: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Kind of component -> pointers to components that a leaderboard may also have: they do not enter these numbers."""
    profiles: tuple[str, ...] = ()
    """The profiles that repeat its setting."""
    set_up: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Profile -> the options and parameters that the profile's file in the package sets for the track."""
    once: bool = False
    """Whether its numbers come from only one of the units that ours are means over, such as one random split."""
    chosen: bool = False
    """Whether each entry has its best parameter value."""
    entries: Literal["rows", "columns"] = "rows"
    """What is ranked."""
    transposed: bool = False
    """Whether its columns are our rows: then a column points to ``table:row``, and a row points to a column."""
    matrix: str = ""
    """The id of our table of who beats whom, if this is such a table."""
    headline: tuple[str, ...] = ()
    """The quantities by which the paper says what is better."""
    kinds: Mapping[Literal["rows", "columns"], str] = Field(default_factory=dict)
    """The kind of component that pointers of rows, or of columns, name; a run can be narrowed to these components."""
    needs: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Kind of component -> pointers to further components that its numbers depend on."""
    selections: Mapping[str, Mapping[str, tuple[str, ...]]] = Field(default_factory=dict)
    """Profile -> kind of component -> the names that the profile's file in the package selects."""
    notes: tuple[str, ...] = ()
    otherwise: Mapping[str, str] = Field(default_factory=dict)
    """Pointer -> what the authors' code computes in place of that component, and where."""
    columns: tuple[PublishedColumn, ...] = ()
    rows: tuple[PublishedRow, ...] = ()
    left_out: str = ""
    """Why the table is not transcribed; "" if it is."""
    citation: Mapping[str, Any] = Field(default_factory=dict)
    """The paper's entry in the package's papers.toml."""

    @property
    def address(self) -> str:
        """The name of the table on the command line, such as ``iqa/3-training``, without ``harness/``."""
        return f"{self.track.removeprefix('harness/')}/{self.name}"

    @model_validator(mode="after")
    def _is_whole(self) -> PublishedTable:
        if bool(self.left_out) == bool(self.rows):
            raise ValueError("a table must have either rows or a reason in left_out")
        _unique("column", [column.key for column in self.columns])
        _unique("row", [row.label for row in self.rows])
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(f"row {row.label!r} has {len(row.values)} values for {len(self.columns)} columns")
        unknown = set(self.headline) - {line.label for line in (self.columns if self.entries == "rows" else self.rows)}
        if unknown:
            raise ValueError(f"headline {sorted(unknown)[0]!r} is not a quantity of the table")
        for column in self.columns:
            if column.ours and not self.matrix and not column.ours.partition(":")[2]:
                raise ValueError(f"column {column.key!r} points to {column.ours!r}, which is not table:column")
        return self


def published_tables() -> tuple[PublishedTable, ...]:
    """Return the tables of all installed packages, sorted by track and number; raises `PluginError` for a wrong file.

    Packages are found by their entry points and are not imported.
    """
    points = points_of(COMPONENTS)
    packages = sorted({point.value.partition(":")[0].partition(".")[0] for point in points})
    return tuple(sorted((t for package in packages for t in tables_in(package)), key=_order))


def find_table(name: str) -> PublishedTable:
    """Return a table by its address, such as ``iqa/2``; raises a `UsageError` that suggests the nearest address."""
    tables = {table.address: table for table in published_tables()}
    if name not in tables:
        raise UsageError(unknown_name(f"no published table is called {name!r}", name, tables))
    return tables[name]


@functools.cache
def tables_in(package: str) -> tuple[PublishedTable, ...]:
    """Return the tables of one package, if it has some; raises `PluginError` for a wrong file."""
    spec = importlib.util.find_spec(package)
    root = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    files = sorted((Path(root) / FOLDER).glob("*.toml")) if root else []
    papers = _read(Path(str(root)) / "papers.toml", f"{package}/papers.toml") if files else {}
    otherwise = _otherwise(Path(str(root)) / OTHERWISE, package, papers) if files else {}
    return tuple(_table(file, package, papers, otherwise) for file in files)


def _otherwise(file: Path, package: str, papers: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    """Return paper -> pointer -> what the authors' code computes in place of that component."""
    where = f"{package}/{file.name}"
    try:
        otherwise = _OTHERWISE.validate_python(_read(file, where) if file.is_file() else {})
    except ValidationError as error:
        location = ": ".join(str(word) for word in error.errors()[0]["loc"])
        raise PluginError(f"{where}: {location}: {error.errors()[0]['msg']}") from None
    if unknown := sorted(set(otherwise) - set(papers)):
        raise PluginError(f"{where} names {unknown[0]!r}, which is not in {package}/papers.toml.")
    return otherwise


def _table(
    file: Path, package: str, papers: Mapping[str, Any], otherwise: Mapping[str, Mapping[str, str]]
) -> PublishedTable:
    """Return the table of a file, with what the package says of its paper, its profiles and the authors' code."""
    where = f"{package}/{FOLDER}/{file.name}"
    raw = _read(file, where)
    cited = raw.get("paper")
    if not isinstance(cited, str) or cited not in papers:
        raise PluginError(f"{where} cites paper={cited!r}, which is not in {package}/papers.toml.")
    try:
        profiles = _profiles(file, raw)
        set_up = {
            name: {key: settings.get(key, {}) for key in ("options", "parameters")}
            for name, settings in profiles.items()
        }
        selections = {name: settings.get("select", {}) for name, settings in profiles.items()}
        named = {
            "name": file.stem.removeprefix("table-"),
            "citation": papers[cited],
            "otherwise": otherwise.get(cited, {}),
        }
        return PublishedTable.model_validate(raw | named | {"set_up": set_up, "selections": selections})
    except ValidationError as error:
        raise PluginError(f"{where}: {_first_problem(error, raw)}") from None


def _profiles(file: Path, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return profile -> the table's track in it; profiles that the package does not have are left out."""
    folder, settings = file.parents[1] / "profiles", {}
    for profile in raw.get("profiles", ()):
        path = folder / f"{profile}.toml"
        if path.is_file():
            read = with_bases(path, lambda file: _read(file, f"{folder.parent.name}/profiles/{file.name}"))
            settings[str(profile)] = read.get("tracks", {}).get(raw.get("track"), {})
    return settings


def _first_problem(error: ValidationError, raw: Mapping[str, Any]) -> str:
    """Return the first problem in one line, with the label of its row or column."""
    first = error.errors()[0]
    location = list(first["loc"])
    if len(location) > 1 and isinstance(location[1], int):
        entry = raw[str(location[0])][location[1]]
        called = entry.get("label", "") if isinstance(entry, dict) else ""
        location[:2] = [f"{location[0]}[{location[1]}]" + (f" {called!r}" if called else "")]
    return ": ".join([*(str(word) for word in location), first["msg"].removeprefix("Value error, ")])


def _read(file: Path, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PluginError(f"{where} cannot be read: {' '.join(str(error).split())[:200]}") from None


def _unique(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{what} {twice[0]!r} occurs twice")


def _order(table: PublishedTable) -> tuple[str, bool, int, str]:
    """Return what tables are sorted by: track; tables before figures and sections; number; name."""
    number = table.table.rpartition(" ")[2].partition(".")[0]
    return table.track, " " in table.table, int(number), table.name
