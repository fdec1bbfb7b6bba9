"""A track: which tasks there are, how each is computed, and which tables are made from them."""

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
    from imharness.contracts.purification import Purifier
    from imharness.contracts.randomness import ImageRng
    from imharness.contracts.table_dataset import TableSet
    from imharness.contracts.values import Images
    from imharness.documents.report import TrackReport
    from imharness.results.blocks import Blocks
    from imharness.results.tasks import TaskSpec

C = TypeVar("C")
Option = str | int | float | bool
Column = npt.NDArray[np.generic] | Sequence[str] | Sequence[float] | Sequence[int]


class Progress(Protocol):
    """Tells how far a long step is: `done` of `total` units are finished."""

    def __call__(self, done: int, total: int, /) -> None: ...


class Planned(Protocol):
    """A task of the graph, or the reason why there is none."""

    @property
    def available(self) -> bool:
        """False if something that it needs is not on this machine."""


class Planner(Protocol):
    """What a track adds its tasks to."""

    def component(self, kind: str, name: str, /) -> Component:
        """Return one registered component by id or label."""

    def within(self, options: Mapping[str, Option] | None = None, /, **components: Component) -> Planner:
        """Return a planner that gives these components and options to every task, before the task's own."""

    def task(
        self,
        step: Step | str,
        components: Mapping[str, Component] | None = None,
        /,
        *,
        options: Mapping[str, Option] | None = None,
        measures: Mapping[str, Mapping[str, Component]] | None = None,
        needs: Mapping[str, Planned] | None = None,
    ) -> Planned:
        """Add a task to the graph. The same task is added only once, however often it is asked for.

        `step` is one of the track's steps, or its name. `components` (role -> component) say which task this is.
        `measures` (group -> name -> component) are components that measure the task but do not say which it is; a step
        gets them by `StepContext.measures`. `needs` (name -> task) are tasks planned before. If something is not on
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
    """What a step may use: its components, which are built and checked, its data and its randomness."""

    device: torch.device
    options: Mapping[str, Option]
    roles: Sequence[str]
    progress: Progress

    def measures(self, group: str, /) -> Mapping[str, str]:
        """Return the measures that were planned in a group, in that order: name -> the role to pass to `build`."""

    def component(self, role: str) -> Any:
        """Return the component that plays a role."""

    def build(self, role: str | Component, *arguments: Any, method: str = "build") -> Any:
        """Return the function or data that a method of a component gives, checked against its contract.

        `role` may be a component itself. `arguments` are the method's arguments after the device. `method` is "build"
        or another one that the contract names, such as "smooth" of a certification or "fit" of an attack.
        """

    def images(self, role: str = "dataset", *, limited: bool = True) -> ImageSet:
        """Return an image set; if `limited`, only as many images as the run asks for."""

    def table(self, role: str = "dataset") -> TableSet:
        """Return a table of labelled rows."""

    def need(self, name: str) -> Output:
        """Return the rows and arrays of a task that this one depends on."""

    def rng(self, names: Sequence[str], *purpose: str) -> ImageRng:
        """Return one stream per name; every task of the run that gives the same purpose gets the same streams."""

    def generator(self, *purpose: str, shared: bool = False) -> torch.Generator:
        """Return a generator of this task alone, or, if `shared`, one that is the same in every task of the run."""

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
        towards: bool = False,
        stand_in: str | None = None,
        training: bool = False,
    ) -> Target:
        """Return the target of an attack: the metric, behind the defense if the attack is adaptive.

        Metric and defense see images rounded to 8 bits, each image once in a call. The task's option `precision` says
        how the target computes: with "tf32", a GPU rounds factors to 10 bits; with "fast", gradients are computed in
        bfloat16; with "search", so are the scores of black-box attacks.

        Args:
            metric: the role of the metric.
            names: the name of each image, from which its random streams follow.
            attack: the role of the attack.
            defense: the role of the defense that stands before the metric; None for an attack that does not know it.
            samples: how many defended copies are averaged if the defense is random (expectation over transformation).
            counted: whether queries count against the attack's budget.
            reference: a reference for each image, for a full-reference metric. The attack then raises the distance
                from it; what comes out of the defense is resized to the reference's size.
            towards: whether the attack lowers the distance from `reference` instead.
            stand_in: the role of the component whose gradient a defense without one gets, by default the identity (see
                `DefenseInfo`).
            training: whether the attack asks about images in any order and number, as in `FittedAttack.fit`.
        """

    def as_attacked(self, defense: str, *, stand_in: str | None = None) -> Purifier:
        """Return a defense with the gradient that attacks read: its own, that of a stand-in, or the identity's.

        Its results are not checked against the contract.
        """

    def map(
        self, images: ImageSet, function: Callable[[list[int], Images], Mapping[str, torch.Tensor]]
    ) -> dict[str, npt.NDArray[Any]]:
        """Call `function(positions, images)` batch by batch and join the tensors that it returns, row by row.

        A batch is halved if memory runs out. Every tensor that the function returns has one row per image.
        """

    def chunks(self, total: int, size: int, function: Callable[[int, int], Mapping[str, Any]]) -> dict[str, Any]:
        """Call `function(start, stop)` for ranges of at most `size` out of `total`, and join its arrays row by row."""

    def time_per_image(self, function: Callable[[Images], object], images: ImageSet) -> float:
        """Return milliseconds per image, measured after a warm-up with the device synchronised."""


@dataclass(frozen=True)
class StepResult:
    """What a step leaves behind.

    `rows` are columns of one length, `arrays` numpy arrays by name. `facts` are single numbers that are not part of the
    rows, such as timings; two runs may differ in them.
    """

    rows: Mapping[str, Column] = field(default_factory=dict)
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One kind of task: a function of the context, the version of its numbers, its name, and whether it is shared.

    `doing` says what it computes, for people who wait; see `step`.
    """

    run: Callable[[StepContext], StepResult]
    version: str
    name: str
    shared: bool = False
    doing: str = ""

    def __call__(self, context: StepContext, /) -> StepResult:
        """Run the step."""
        return self.run(context)


@dataclass(frozen=True)
class Workload:
    """What a task is expected to cost.

    `rows`: how many rows it leaves in the store; `operations`: floating-point operations of its networks; `size`: bytes
    that it leaves in the store.
    """

    rows: int
    operations: float
    size: float = 0.0


def step(
    *, version: str, shared: bool = False, doing: str = ""
) -> Callable[[Callable[[StepContext], StepResult]], Step]:
    """Make a function a step of a track, named after the function: ``@step(version="2")``.

    Name and version are part of the identity of the results, so a new version computes every task of the step again.
    `shared` says that the first call of `StepContext.map` or `StepContext.chunks` takes most of the time. A task that
    takes long is then divided among several workers: each does everything that the step does before that call, and
    then its part of the call.

    `doing` is a template of the sentence that says what a task computes, as in "attacking {count}photographs with
    {attack}[ behind {defense}]". A role in braces becomes the name of its component. ``{count}`` becomes the number of
    images and a space, or nothing if the number is not known before the data are read. Text in square brackets is left
    out for a task without its role.
    """
    return lambda run: Step(run, version, run.__name__, shared, doing)


class Query(Protocol):
    """Finished results as SQL.

    Each step is a view named after it (dashes become underscores) with the rows of all its tasks. Each row also has the
    label of every component by role, every option, every fact and `task`. The view ``<step>_tasks`` has one row for
    each task. A step without results has no view: see `steps`.

    The view ``components`` has one row for each component that took part: `kind`, `id`, `label`, `version`, `entry`
    (the label without the field of its parameter study), `control` (what the control is, or empty), what its `info`
    says (such as `access`, `norm`, `group`, `labelled`, `higher_means`, `differentiable`, bounds as `lower` and
    `upper`), `closeness`, `letter` (of an attack's threat model), and `parameters` as JSON
    (``(parameters->>'radius')``). Facts that a component lacks are NULL.

    The tables of a join are joined in the order of the SQL text. All but the first must fit into memory: name the
    largest first.
    """

    def __call__(self, sql: str, /) -> dict[str, npt.NDArray[Any]]:
        """Run DuckDB SQL and return columns by name; NULL becomes NaN in numbers and None in text."""

    def blocks(
        self,
        sql: str,
        *,
        entry: str,
        by: Sequence[str] = (),
        unit: str = "name",
        measures: Sequence[str] = ("score",),
        about: Sequence[str] = (),
    ) -> Blocks:
        """Return the rows of a SELECT as arrays ``(entries, units)``, one for each condition and measure.

        All other arguments name columns of the SELECT. `entry` is what is ranked, `by` what distinguishes conditions,
        `unit` what was measured (an image). `measures` are numbers: REAL becomes float32, everything else float64.
        `about` are facts of a unit that are equal for all entries (its cluster, its reference). Raises `UsageError` if
        an entry has two rows for one unit of a condition.
        """

    @property
    def steps(self) -> frozenset[str]:
        """The steps that have results."""


class Track(Component):
    """One benchmark: a plan, the steps that compute its tasks, and its tables.

    `profiles`, `own_objects`, `secondary_measures`, `folder_dataset` and `accepts_unlabelled` say what
    `imharness.evaluate` takes.
    """

    kind: ClassVar[str] = "track"
    title: ClassVar[str]
    measures: ClassVar[str]
    """What the track measures, in one sentence."""
    question: ClassVar[str] = ""
    """What a reader wants to know of its leaderboard, as a question; it is the title of the leaderboard's page."""
    steps: ClassVar[tuple[Step, ...]]
    """The kinds of task, made by `step`."""
    profiles: ClassVar[tuple[str, ...]] = ("quick", "embedded")
    """The profiles to evaluate with by default; the first of them that has the track is used."""
    ranks: ClassVar[tuple[str, ...]] = ("defense",)
    """The kinds of the entries, which are ranked. All other components judge them, except data sets and models. A judge
    that belongs neither to the harness nor to the owner of the track decides no rank before a person accepts it."""
    chance_level_steps: ClassVar[tuple[str, ...]] = ()
    """The names of steps that check evaluators for leaks: their inputs hold no information about membership.

    Rows of these steps have the columns ``member``, bool, and ``score``. An evaluator whose scores separate members
    from others better than chance has read the answers somewhere else."""
    evidence_steps: ClassVar[tuple[str, ...]] = ()
    """Two steps of a track that accepts attacked images as evidence against an entry; () if it accepts none.

    The first step is the one whose tasks the evidence may contradict. The second step measures the submitted images. It
    gets

    - the components of one task of the first step;
    - the need ``evidence``: rows with a column ``name``, and arrays ``0``, ``1``, ... (uint8 ``(3, H, W)``), one image
      for each row;
    - the options ``evidence`` (a digest of the images), ``draws`` (how often a random entry is asked) and ``fresh``
      (what the entry's random streams are derived from).

    It returns rows with the columns ``name``, ``draw``, ``score``, ``clean`` (sha256 of the original image as 8 bits
    ``(H, W, 3)``), ``distance`` (of the submitted image from the original) and ``allowed`` (the greatest distance). The
    contest of the track adds these rows by `imharness.leaderboard.with_evidence`."""
    own_objects: ClassVar[Mapping[str, type[Component]]] = {}
    """Kind -> the contract of a notebook's objects of this kind; kinds that are left out are refused.

    If the mapping is empty, a defense purifies images, an attack moves the score of a metric, and a metric is what it
    declares to be.
    """
    secondary_measures: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Kind -> names of components that a notebook evaluates beside a user's object of this kind, for comparison."""
    folder_dataset: ClassVar[str] = ""
    """The id of the data set whose address is a folder of images; "" if there is none."""
    season_datasets: ClassVar[Mapping[str, str]] = {}
    """Source of labels -> id of the data set that reads a folder of unpublished photographs with such labels.

    The sources are "people" and "ladder", a ladder of severities. In a season on unpublished photographs the data set
    gets the folder as its address. A track without the season's source of labels is left out of the season."""
    accepts_unlabelled: ClassVar[bool] = False
    """Whether images without any labels can be its data set."""
    next_command: ClassVar[tuple[str, str] | None] = None
    """A command that a reader of its results may want to run on a model or data of their own, and what it is for."""
    utility_loss: float = Field(default=0.05, ge=0, le=1, description="Share of utility that a winner may cost.")

    def step(self, name: str) -> Step:
        """Return a step by name; raises `UsageError` for a name that the track does not have."""
        steps = {step.name: step for step in self.steps}
        if name not in steps:
            raise UsageError(unknown_name(f"track {self.info.id} has no step {name!r}", name, steps, "It has"))
        return steps[name]

    @abstractmethod
    def plan(self, planner: Planner, selection: Selection) -> None:
        """Add the tasks for a selection; reads no data and loads no weights."""

    def workload(self, spec: TaskSpec, units: int) -> Workload | None:
        """Return what a task costs on a data set of `units` images or rows, or None if the track does not know."""
        return None

    @abstractmethod
    def report(self, query: Query) -> TrackReport:
        """Return the tables, rankings and charts of the finished tasks."""
