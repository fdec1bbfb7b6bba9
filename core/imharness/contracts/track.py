"""A track: which cells to compute, how one is computed, and which tables they make."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from imharness.components.component import Component

if TYPE_CHECKING:
    import torch

    from imharness.contracts.attack import Target
    from imharness.contracts.dataset import ImageSet, TableSet
    from imharness.contracts.types import Images
    from imharness.randomness import ImageRng
    from imharness.ranking.comparisons import PairedScores
    from imharness.results.records import Chart, Example, Table

C = TypeVar("C")
Option = str | int | float | bool
Column = npt.NDArray[np.generic] | Sequence[str] | Sequence[float] | Sequence[int]


class Progress(Protocol):
    """Tells how far a long step is: `done` of `total` units."""

    def __call__(self, done: int, total: int, /) -> None: ...


class Planned(Protocol):
    """A task of the graph, or the reason why there is none."""

    @property
    def available(self) -> bool:
        """False when something it needs is not on this machine."""


class Planner(Protocol):
    """What a track plans with."""

    def component(self, kind: str, name: str) -> Component:
        """Return one registered component by id or label."""

    def task(
        self,
        step: str,
        components: Mapping[str, Component],
        *,
        options: Mapping[str, Option] | None = None,
        needs: Mapping[str, Planned] | None = None,
    ) -> Planned:
        """Add a task to the graph, once however often it is asked for."""


class Selection(Protocol):
    """The components that take part in a track."""

    def of(self, contract: Callable[..., C], /) -> list[C]:
        """Return the selected components of one contract class, sorted by label."""


@dataclass(frozen=True)
class Output:
    """What an earlier task left behind."""

    rows: Mapping[str, npt.NDArray[Any]]
    arrays: Mapping[str, npt.NDArray[Any]]


class StepContext(Protocol):
    """What a step may use: its components, built and checked, its data and its randomness."""

    device: torch.device
    options: Mapping[str, Option]
    roles: Sequence[str]
    progress: Progress

    def component(self, role: str) -> Any:
        """Return the recipe that plays a role."""

    def build(self, role: str) -> Any:
        """Return the built component; its results are checked against its contract, an attack's against its budget."""

    def build_with(self, role: str, argument: Any) -> Any:
        """Return ``recipe.build(device, argument)``, for contracts whose build takes one."""

    def images(self, role: str = "dataset", *, limited: bool = True) -> ImageSet:
        """Return an image set; with `limited`, only as many images as the run asks for."""

    def table(self, role: str = "dataset") -> TableSet:
        """Return a table of labelled rows."""

    def need(self, name: str) -> Output:
        """Return rows and arrays of a task this one depends on."""

    def rng(self, names: Sequence[str], *purpose: str) -> ImageRng:
        """Return one stream per name, the same in every task of the run that gives the same purpose."""

    def generator(self, *purpose: str) -> torch.Generator:
        """Return a generator that belongs to this task alone."""

    def target(
        self,
        metric: str,
        names: Sequence[str],
        *,
        attack: str,
        defense: str | None = None,
        samples: int = 1,
        counted: bool = True,
        reference: Images | None = None,
    ) -> Target:
        """Return the target of an attack: the metric, behind the defense when the attack is adaptive.

        With a `reference` for each image, the attack raises the distance from it that a full-reference metric measures.
        `samples` defended copies are averaged when the defense is random (expectation over transformation). A task
        option `precision` of "fast" takes gradients by bfloat16, "search" also the scores of black-box attacks.
        """

    def map(
        self, images: ImageSet, function: Callable[[list[int], Images], Mapping[str, torch.Tensor]]
    ) -> dict[str, npt.NDArray[Any]]:
        """Call `function(positions, images)` batch by batch and join what it returns, row by row.

        The batch is halved when memory runs out. Every tensor it returns has one row per image.
        """

    def time_per_image(self, function: Callable[[Images], object], images: ImageSet) -> float:
        """Return milliseconds per image, after a warm-up, the device synchronised."""


@dataclass(frozen=True)
class StepResult:
    """What a step leaves behind.

    `rows`: columns of one length. `arrays`: numpy arrays by name. `facts`: single numbers that are no part of the
    rows, such as timings; two runs may differ in them.
    """

    rows: Mapping[str, Column] = field(default_factory=dict)
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One kind of task. `version` is the version of its numbers."""

    run: Callable[[StepContext], StepResult]
    version: str


class Query(Protocol):
    """Finished results, as one SQL view per step."""

    def __call__(self, sql: str, /) -> dict[str, npt.NDArray[Any]]:
        """Run DuckDB SQL; return columns.

        Each step is a view of its name (dashes become underscores) with the rows of all its tasks and, per row, the
        label of every component by role, every option, every fact and `task`. The view ``<step>_tasks`` holds a row per
        task. A step without results has no view: see `steps`.
        """

    @property
    def steps(self) -> frozenset[str]:
        """The steps that have results."""


@dataclass(frozen=True)
class TrackReport:
    """What a track shows of its results.

    `tables`: the first is the main table and its first row the winner. `comparisons`: scores by image, of which the
    core makes win rates, marks, and the rows by condition. `charts` and `examples` may be empty.
    """

    tables: Sequence[Table] = ()
    comparisons: Sequence[PairedScores] = ()
    charts: Sequence[Chart] = ()
    examples: Sequence[Example] = ()


class Track(Component):
    """One benchmark: a plan, the steps that compute its cells, and its tables."""

    kind: ClassVar[str] = "track"
    title: ClassVar[str]
    measures: ClassVar[str]
    """What the track measures, in one sentence."""

    @abstractmethod
    def plan(self, planner: Planner, selection: Selection) -> None:
        """Add the tasks for a selection. Reads no data and loads no weights."""

    @abstractmethod
    def steps(self) -> Mapping[str, Step]:
        """Return the steps by name."""

    @abstractmethod
    def report(self, query: Query) -> TrackReport:
        """Return what readers see of the finished cells."""
