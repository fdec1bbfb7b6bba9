"""Typed results: what a task leaves in the store, and the tables made of it. Imports no torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from imharness.results.identity import ComponentRef, canonical_json, digest
from imharness.results.rankings import Ranking
from imharness.results.storage.backend import sha256_of
from imharness.results.storage.files import StoredFile

SCHEMA = 3
EXTERNAL = "external"
"""The configuration and the step of results that were measured elsewhere; they stand in the tables of all runs."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskSpec(_Frozen):
    """A task as pure data; its key is the sha256 of `identity()`."""

    track: str
    step: str
    version: str
    components: Mapping[str, ComponentRef]
    """By role. A measure of a group (see `Planner.task`) has the role ``group.name``."""
    options: Mapping[str, str | int | float | bool]
    limit: int | None
    seed: int
    needs: Mapping[str, str]

    def named(self) -> dict[str, ComponentRef]:
        """Return the components that say which cell this is: all but the measures."""
        return {role: ref for role, ref in self.components.items() if "." not in role}

    def identity(self) -> dict[str, Any]:
        """Return everything the result depends on."""
        return self._identity({role: ref.identity() for role, ref in self.components.items()})

    def _identity(self, parts: Mapping[str, Any] | None) -> dict[str, Any]:
        return dict(self) | {"components": parts, "options": dict(self.options), "needs": dict(self.needs)}

    def key_with(self, parts: Mapping[str, str]) -> str:
        """Return the key; `parts`: by role the canonical JSON of the components' identities, made once for many."""
        rest = canonical_json(self._identity(None))
        inside = ",".join(f"{canonical_json(role)}:{text}" for role, text in sorted(parts.items()))
        return sha256_of(rest.replace("null", f"{{{inside}}}", 1).encode())  # components come first

    def describe(self) -> str:
        """Return one line that a person can tell the task by."""
        roles = ", ".join(f"{role}={ref.label}" for role, ref in self.named().items())
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.step}: " + ", ".join(part for part in (roles, options) if part)


class Failure(_Frozen):
    """Why a task has no result. `who` is the component at fault, or the harness."""

    who: str
    error: str
    message: str
    traceback: str = ""


class TaskRecord(_Frozen):
    """What happened to a task. `seal` is the digest of all other fields: an edited record does not open."""

    schema_version: int = SCHEMA
    key: str
    spec: TaskSpec
    status: Literal["done", "failed"]
    failure: Failure | None = None
    rows: StoredFile | None = None
    n_rows: int = 0
    arrays: StoredFile | None = None
    facts: Mapping[str, float] = Field(default_factory=dict)
    started: str
    seconds: float
    device: str
    versions: Mapping[str, str]
    isolation: str = "none"
    """What kept the code of its components apart from the runner: "none", or "bubblewrap+seccomp" and the like."""
    notes: tuple[str, ...] = ()
    """What code that is kept apart tried and may not; which objects of a notebook drew from global randomness."""
    seal: str = ""

    def sealed(self) -> TaskRecord:
        """Return the record with its seal."""
        return self.model_copy(update={"seal": self.expected_seal()})

    def expected_seal(self) -> str:
        """Return the digest that `seal` must equal."""
        younger = {"isolation", "notes"} if self.schema_version < 3 else set()
        return digest(self.model_dump(mode="json", exclude={"seal"} | younger))


LEFT_OUT = "did not fit into the budget of"
"""How the reason begins why tasks were planned and then left out."""


class Missing(_Frozen):
    """A task that was not planned because something is not on this machine."""

    what: str
    reason: str
    remedy: str


class RunFacts(_Frozen):
    """One track of a run, under which settings, and what has no result.

    `run_configuration` is the digest of profile, seed and limit (stores of before 1.0 call it edition), `failed` has a
    line for each address. `secret`: digest of the seed of the secret split that the images are of, or "". `waiting`:
    how many cells the run had still to compute. `set_up`: the options and parameters that the profile gave the track,
    None in stores of before they were kept.
    """

    schema_version: int = SCHEMA
    track: str
    title: str
    measures: str
    profile: str
    run_configuration: str = Field(default="", validation_alias=AliasChoices("run_configuration", "edition"))
    set_up: Mapping[str, Mapping[str, Any]] | None = None
    seed: int
    secret: str = ""
    limit: int | None
    command: str
    finished: str
    missing: tuple[Missing, ...]
    failed: Mapping[str, str] = Field(default_factory=dict)
    waiting: int = 0

    @property
    def left_out(self) -> tuple[Missing, ...]:
        """What is missing for no other reason than a budget."""
        return tuple(gap for gap in self.missing if gap.reason.startswith(LEFT_OUT))


class Sweep(RunFacts):
    """One call of `harness run` for one track: what was planned.

    Sweeps with one `run_configuration` belong to one leaderboard; a later sweep adds to it or replaces cells. `cells`:
    address of a cell (what it is, without version numbers) -> task key. `number` counts the calls of a store, as clocks
    may go back; 0 in stores of before 1.1.
    """

    cells: Mapping[str, str]
    number: int = 0


class Value(_Frozen):
    """One number of a table with its uncertainty, or the reason why there is none."""

    value: float | None = None
    n: int | None = None
    clusters: int | None = None
    """How many independent sources the n units come from; None where units are independent themselves."""
    low: float | None = None
    high: float | None = None
    missing: str = ""


class ColumnSpec(_Frozen):
    """A column of numbers: what it is, which direction is better, how many decimals to show."""

    key: str
    label: str
    description: str
    better: Literal["higher", "lower", ""] = ""
    decimals: int = 3
    unit: str = ""
    """What n counts, such as "image"; `cluster_unit` is what these come from, such as "photograph"."""
    cluster_unit: str = ""

    def count(self, value: Value | None) -> str:
        """Return the n of a number in words, as in "36 images of 4 photographs"; empty where it has none."""
        if value is None or value.n is None:
            return ""
        text = several(value.n, self.unit) if self.unit else f"n {value.n}"
        return text if value.clusters is None else f"{text} of {several(value.clusters, self.cluster_unit or 'source')}"


def several(number: int, what: str) -> str:
    """Return a number of things in words, as in "1 image" and "4 images"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


class Row(_Frozen):
    """A row: an entry with its numbers by column key."""

    label: str
    title: str = ""
    values: Mapping[str, Value]
    facets: Mapping[str, str] = Field(default_factory=dict)
    """What readers filter by: "dataset" -> its label."""


class Table(_Frozen):
    """A table of the leaderboard. `shading` asks for a heat map of values in [0, `shading`]."""

    id: str
    title: str
    caption: str
    entry: str
    """What a row is: "defense", "metric"."""
    columns: tuple[ColumnSpec, ...]
    rows: tuple[Row, ...]
    ranked_by: str = ""
    note: str = ""
    shading: float | None = None
    not_worse: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Column key -> rows that the best row does not beat significantly."""


class Condition(_Frozen):
    """One setting in which all entries were measured on the same units. `units`: position among the unit sets."""

    facets: Mapping[str, str]
    units: int


class Comparison(_Frozen):
    """Scores of several entries on the same units (images, choices, rows), condition by condition.

    The numbers lie in the store as float32 ``(entries, total)``, the conditions of an entry one after the other.
    `tests` is the number of comparisons that p-values are corrected for: the pool, frozen with the board.
    """

    id: str
    title: str
    entry: str
    measure: str
    description: str
    better: Literal["higher", "lower"]
    decimals: int = 3
    unit: str = "image"
    cluster_unit: str = ""
    """What units come from, such as "photograph"; tests then see each of these once."""
    entries: tuple[str, ...]
    families: Mapping[str, str] = Field(default_factory=dict)
    conditions: tuple[Condition, ...]
    unit_sets: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[str, ...], ...] = ()
    """For each unit set the cluster of each unit; empty where units are independent."""
    tests: int
    alpha: float
    table: str = ""
    column: str = ""
    """Where its ranking stands: the best of that column, and those not significantly worse, are marked."""

    def starts(self) -> list[int]:
        """Return where each condition begins, and the total."""
        sizes = [len(self.unit_sets[condition.units]) for condition in self.conditions]
        return list(itertools.accumulate(sizes, initial=0))


class Series(_Frozen):
    """A line of a chart."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


class Chart(_Frozen):
    """A picture: of two columns of a table (scatter), one column with intervals (dots), or its own lines (curves)."""

    id: str
    title: str
    caption: str
    kind: Literal["scatter", "dots", "curves"]
    table: str = ""
    x: str = ""
    y: str = ""
    log: bool = False
    front: bool = False
    """Join the points that no other beats in both, where both columns say which direction is better."""
    x_label: str = ""
    y_label: str = ""
    series: tuple[Series, ...] = ()


class Panel(_Frozen):
    """An image of the gallery: where it lies in the store, and what is written under it."""

    label: str
    task: str
    array: str
    position: int
    score: str = ""


class Example(_Frozen):
    """Images that belong together, as original, attacked and defended; the first is what the others differ from."""

    entry: str
    title: str
    facets: Mapping[str, str] = Field(default_factory=dict)
    panels: tuple[Panel, ...]


class Parameter(_Frozen):
    """A hyper-parameter of an entry."""

    name: str
    value: str
    default: str
    bounds: str
    description: str


class Standing(_Frozen):
    """A decision about an entry: when, what, why, and the submission it came with."""

    date: str
    decision: str
    reason: str
    submission: str = ""


class Entry(_Frozen):
    """Everything readers want to know of a component that took part."""

    kind: str
    id: str
    label: str
    version: str
    summary: str = ""
    about: str = ""
    package: str = ""
    package_version: str = ""
    author: str = ""
    licence: str = ""
    home: str = ""
    paper: str = ""
    paper_url: str = ""
    traits: Mapping[str, str] = Field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    cells: int = 0
    seconds: float = 0.0
    isolation: str = ""
    """What kept its code apart while it was measured."""
    standing: tuple[Standing, ...] = ()


class Board(RunFacts):
    """Everything the site shows of one track."""

    cells_done: int
    cells_failed: int
    cells_missing: int
    tables: tuple[Table, ...]
    versions: Mapping[str, str]
    entries: tuple[Entry, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    charts: tuple[Chart, ...] = ()
    examples: tuple[Example, ...] = ()
    stale: str = ""
    """Why the tables are not of today's code or results, where they could not be made again."""
    sources: str
    """Digest of the records the tables were made from."""
    scored_by: Mapping[str, str] = Field(default_factory=dict)
    """Distributions whose code made the tables, with their versions."""
    numbers: StoredFile | None = None
    """The scores of the comparisons: one float32 array ``(entries, total)`` per comparison."""
