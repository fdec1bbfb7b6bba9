"""A track: which cells to compute, how one is computed, and which tables they make."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from imharness.contracts.component import Component
from imharness.errors import UsageError, unknown_name

if TYPE_CHECKING:
    import torch

    from imharness.contracts.attack import Target
    from imharness.contracts.image_dataset import ImageSet
    from imharness.contracts.model_audit import AuditAnswer, AuditRequest, ModelAudit
    from imharness.contracts.randomness import ImageRng
    from imharness.contracts.shared_gradients import Reconstructed, SharedGradients
    from imharness.contracts.table_dataset import TableSet
    from imharness.contracts.values import Images
    from imharness.results.blocks import Blocks
    from imharness.results.report import TrackReport
    from imharness.results.tasks import TaskSpec

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

    def component(self, kind: str, name: str, /) -> Component:
        """Return one registered component by id or label."""

    def within(self, options: Mapping[str, Option] | None = None, /, **components: Component) -> Planner:
        """Return a planner whose tasks have these components and options already, before their own."""

    def task(
        self, step: Step | str, components: Mapping[str, Component] | None = None, /, *,
        options: Mapping[str, Option] | None = None, measures: Mapping[str, Mapping[str, Component]] | None = None,
        needs: Mapping[str, Planned] | None = None,
    ) -> Planned:  # fmt: skip
        """Add a task to the graph, once however often it is asked for.

        `step`: one of the track's steps, or its name. `components`: role -> component; they say which cell this is.
        `measures`: group -> name -> component, for components that measure the cell and do not say which it is; a
        step gets them by `StepContext.measures`. `needs`: name -> a task planned before. Where something is not on
        this machine, no task is added: the result says ``available = False``, and so does every task that needs it.
        """


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

    def measures(self, group: str, /) -> Mapping[str, str]:
        """Return the measures that were planned under a group: name -> the role to build it by, in planned order."""

    def component(self, role: str) -> Any:
        """Return the component that plays a role."""

    def build(self, role: str | Component, *given: Any, method: str = "build") -> Any:
        """Return what a method of a component gives, its results checked against its contract.

        `role` may be a component itself. `given`: what the method takes after the device. `method`: "build", or
        another that its contract names, such as "smooth" of a certification or "fit" of an attack.
        """

    def images(self, role: str = "dataset", *, limited: bool = True) -> ImageSet:
        """Return an image set; with `limited`, only as many images as the run asks for."""

    def table(self, role: str = "dataset") -> TableSet:
        """Return a table of labelled rows."""

    def need(self, name: str) -> Output:
        """Return rows and arrays of a task this one depends on."""

    def rng(self, names: Sequence[str], *purpose: str) -> ImageRng:
        """Return one stream per name, the same in every task of the run that gives the same purpose."""

    def generator(self, *purpose: str, shared: bool = False) -> torch.Generator:
        """Return a generator that belongs to this task alone or, `shared`, is the same in every task of the run."""

    def target(
        self, metric: str, names: Sequence[str], *, attack: str, defense: str | None = None, samples: int = 1,
        counted: bool = True, reference: Images | None = None, stand_in: str | None = None,
    ) -> Target:  # fmt: skip
        """Return the target of an attack: the metric, behind the defense when the attack is adaptive.

        With a `reference` for each image, the attack raises the distance from it that a full-reference metric measures.
        `samples` defended copies are averaged when the defense is random (expectation over transformation). The role
        `stand_in`, or else the identity, lends its gradient to a defense without one (see `DefenseInfo`). The option
        `precision` of a task: "fast" takes gradients by bfloat16, "search" also the scores of black-box attacks.
        """

    def map(
        self, images: ImageSet, function: Callable[[list[int], Images], Mapping[str, torch.Tensor]]
    ) -> dict[str, npt.NDArray[Any]]:
        """Call `function(positions, images)` batch by batch and join what it returns, row by row.

        The batch is halved when memory runs out. Every tensor it returns has one row per image.
        """

    def parts(self, total: int, size: int, function: Callable[[int, int], Mapping[str, Any]]) -> dict[str, Any]:
        """Call `function(start, stop)` for ranges of at most `size` among `total`, and join its arrays row by row."""

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
    """One kind of task: a function of the context, its name, the version of its numbers, and whether it is shared."""

    run: Callable[[StepContext], StepResult]
    version: str
    name: str
    shared: bool = False

    def __call__(self, context: StepContext, /) -> StepResult:
        """Run the step."""
        return self.run(context)


@dataclass(frozen=True)
class Work:
    """What a task is expected to cost: rows that it leaves, and floating-point operations of its networks."""

    rows: int
    operations: float


def step(*, version: str, shared: bool = False) -> Callable[[Callable[[StepContext], StepResult]], Step]:
    """Make a function a step of a track, named after it: ``@step(version="2")``.

    A new version computes every cell of the step again. Name and version are part of the identity of its results.
    `shared`: what takes long is its first call of `StepContext.map` or `parts`. Where a cell takes long, several
    workers do a part of it each, and before that all that the step does before it.
    """
    return lambda run: Step(run, version, run.__name__, shared)


class Query(Protocol):
    """Finished results as SQL.

    Each step is a view of its name (dashes become underscores) with the rows of all its tasks and, in each row, the
    label of every component by role, every option, every fact and `task`. The view ``<step>_tasks`` has one row for
    each task. A step without results has no view: see `steps`.

    The view ``components`` has one row for each component that took part: `kind`, `id`, `label`, `version`, `entry`
    (the label without the field of its parameter study), `control` (what it is a control for, or empty), what its
    `info` says (such as `access`, `norm`, `group`, `labelled`, `higher_means`, `differentiable`, bounds as `lower` and
    `upper`), `closeness`, and `parameters` as JSON (``parameters->>'radius'``). A fact that one does not have is NULL.

    Joins are carried out as they are written, and only rows of the first table need not fit into memory: name the
    largest first.
    """

    def __call__(self, sql: str, /) -> dict[str, npt.NDArray[Any]]:
        """Run DuckDB SQL; return columns, NULL as NaN in numbers and None in text."""

    def blocks(
        self, sql: str, *, entry: str, by: Sequence[str] = (), unit: str = "name",
        measures: Sequence[str] = ("score",), about: Sequence[str] = (),
    ) -> Blocks:  # fmt: skip
        """Return what a SELECT finds as arrays ``(entries, units)``, one for each condition and measure.

        Every other argument names columns of the SELECT. `entry`: what is ranked. `by`: what tells conditions apart.
        `unit`: what was measured (an image). `measures`: numbers, REAL as float32 and everything else as float64.
        `about`: facts of a unit that are equal for all entries (its cluster, its reference). Raises `UsageError` when
        an entry has two rows for one unit of a condition.
        """

    @property
    def steps(self) -> frozenset[str]:
        """The steps that have results."""


class Track(Component):
    """One benchmark: a plan, the steps that compute its cells, and its tables.

    A track may also answer what notebooks ask: `profiles`, `own_objects`, `folder_dataset` and `takes_bare_images` say
    what `imharness.evaluate` takes; `audit` and `reconstruct` are what the functions of these names call. One that does
    not answer leaves them as they are.
    """

    kind: ClassVar[str] = "track"
    title: ClassVar[str]
    measures: ClassVar[str]
    """What the track measures, in one sentence."""
    steps: ClassVar[tuple[Step, ...]]
    """The kinds of task, made by `step`."""
    profiles: ClassVar[tuple[str, ...]] = ("quick", "embedded")
    """The profiles that say what an evaluation takes by default; the first that has the track."""
    own_objects: ClassVar[Mapping[str, type[Component]]] = {}
    """Kind -> the contract that an object of a notebook has here; kinds that are left out are refused.

    Where none is named, a defense purifies images, an attack moves the score of a metric, a metric is as it says.
    """
    folder_dataset: ClassVar[str] = ""
    """The id of the data set that reads a folder of images, by its address; "" where there is none."""
    takes_bare_images: ClassVar[bool] = False
    """Whether images of which nothing is known can be its data set."""
    utility_loss: float = Field(default=0.05, ge=0, le=1, description="Share of utility that a winner may cost.")

    def step(self, name: str) -> Step:
        """Return a step by name; raises `UsageError` for a name that the track does not have."""
        known = {step.name: step for step in self.steps}
        if name not in known:
            raise UsageError(unknown_name(f"track {self.info.id} has no step {name!r}", name, known, "It has"))
        return known[name]

    @abstractmethod
    def plan(self, planner: Planner, selection: Selection) -> None:
        """Add the tasks for a selection. Reads no data and loads no weights."""

    def work(self, spec: TaskSpec, units: int) -> Work | None:
        """Return what a task costs on a data set of so many images or rows, or None where the track does not know."""
        return None

    @abstractmethod
    def report(self, query: Query) -> TrackReport:
        """Return what readers see of the finished cells."""

    def audit(self, asked: AuditRequest) -> AuditAnswer:
        """Return what adversaries find out about one model; raises `UsageError` for what does not fit."""
        raise UsageError(f"track {self.info.id} audits no models.")

    def audit_page(self, found: ModelAudit, name: str) -> str:
        """Return an audit as one page of HTML that makes no request; `name` is that of the model."""
        raise UsageError(f"track {self.info.id} audits no models.")

    def reconstruct(self, asked: SharedGradients) -> Reconstructed:
        """Return the images that an attack rebuilds from gradients; raises `UsageError` for what does not fit."""
        raise UsageError(f"track {self.info.id} rebuilds no images.")
