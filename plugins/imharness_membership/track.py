"""Track 4: membership inference against trained models.

For each split of the data set a target and a shadow model are trained on disjoint rows. An evaluator learns on the
shadow model, whose membership is known, and guesses membership in the target's training set. Adversaries who know the
defense defend their shadow and reference models as the target is defended; the others train them plainly. A network is
trained once for each split and training: releases use the undefended one, and early stopping at the accuracy of
another defense is one of its epochs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from imharness.data import TableDataset
from imharness.errors import UsageError
from imharness.membership import (
    Component,
    Info,
    MembershipEvaluator,
    MembershipRelease,
    MembershipTraining,
    Model,
    hookimpl,
)
from imharness.tracks import (
    Planned,
    Planner,
    Query,
    Selection,
    Step,
    TaskSpec,
    Track,
    TrackReport,
    Workload,
    check_names,
)
from imharness_membership.augmenting import VIEWS
from imharness_membership.calibrated import calibrated, enough
from imharness_membership.splits import ROLES
from imharness_membership.steps import (
    by_epoch,
    canary,
    evaluate,
    outsider,
    references,
    release,
    release_references,
    sensitivity,
    stop,
    train,
    unseen,
)
from imharness_membership.tables import report
from imharness_membership.tables.figures import UNDEFENDED
from imharness_membership.tables.rates import LOW
from imharness_membership.workload import workload_of

Defense = MembershipTraining | MembershipRelease
OptionValue = int | float | str
STOPPED = "harness/early-stopping"
FURTHER = ("decay_after", "momentum", "weight_decay", "schedule", "augmentation")
"""The settings of `Published` that are options of a training only if they differ from their default."""


class Published(BaseModel):
    """How a paper trains on one data set; the track's options give what is not set here.

    `part`: number of rows that train a model; its defender and its test have as many. `shadow_part`: the same for the
    shadow model; 0: as many as `part`. `decay_after`: epochs after which the learning rate is a tenth; 0: never.
    `momentum`, `weight_decay`, `schedule`, `augmentation`: as in `TrainingPlan`. `queries`: views of each row that
    attacks by reference models ask about, at most 18: the row, its mirror image, and both shifted by 4 px. `models`:
    labels of the models that are trained on it; empty: all. `defended`: label of a model -> the defenses, by id or
    label, that it meets beside none; other models meet all. `defenses`: id or label -> fields that differ from the
    component's own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: int = Field(default=0, ge=0)
    shadow_part: int = Field(default=0, ge=0)
    epochs: int = Field(default=0, ge=0)
    batch_size: int = Field(default=0, ge=0)
    learning_rate: float = Field(default=0, ge=0)
    optimiser: Literal["", "adam", "sgd"] = ""
    decay_after: int = Field(default=0, ge=0)
    momentum: float = Field(default=0, ge=0, lt=1)
    weight_decay: float = Field(default=0, ge=0)
    schedule: Literal["steps", "cosine"] = "steps"
    augmentation: Literal["none", "crop-flip"] = "none"
    queries: int = Field(default=1, ge=1, le=len(VIEWS))
    models: tuple[str, ...] = ()
    defended: Mapping[str, tuple[str, ...]] = Field(default={})
    defenses: Mapping[str, Mapping[str, float]] = Field(default={})

    def of(self, track: "MembershipTrack") -> dict[str, OptionValue]:
        """Return the options of a training: those that are set here, and the track's for the others."""
        names = ("epochs", "batch_size", "learning_rate", "optimiser")
        return {
            **{name: getattr(self, name) or getattr(track, name) for name in names},
            **self._set(FURTHER),
            **self.asked,
        }

    @property
    def asked(self) -> dict[str, OptionValue]:
        """The option of the number of views; empty for the row alone."""
        return self._set(("queries",))

    def _set(self, names: Iterable[str]) -> dict[str, OptionValue]:
        """Return the options among these that differ from their default; the others do not enter a task's identity."""
        options = {name: getattr(self, name) for name in names}
        return {name: value for name, value in options.items() if value != type(self).model_fields[name].default}

    def adjusted(self, defense: Defense) -> Defense:
        """Return a defense with the paper's settings; those for its label count before those for its id."""
        return defense.with_parameters(**self.defenses.get(defense.label, self.defenses.get(defense.info.id, {})))

    def meets(self, model: Model, defense: Component) -> bool:
        """Say whether a model is trained with a defense."""
        names = self.defended.get(model.label)
        return names is None or bool({UNDEFENDED, *names} & {defense.info.id, defense.label})


@dataclass(frozen=True)
class _Guard:
    """A defense, or early stopping with the training defense (`matched`) at whose accuracy it stops."""

    defense: Component
    matched: Component | None = None

    @property
    def roles(self) -> dict[str, Component]:
        """The role of the matched defense in a task, if there is one."""
        return {} if self.matched is None else {"matched": self.matched}


class MembershipTrack(Track):
    """Membership inference: how much a model reveals about its training set."""

    info = Info(id="harness/membership", version="4", paper="song2021")
    title = "Membership inference"
    question = "Which defense hides who was in the training data?"
    next_command = ("harness membership audit outputs.npz --report report.pdf", "your model")
    measures = "How well an adversary can tell which rows a model was trained on, with and without a defense."
    steps = (
        train,
        stop,
        release,
        references,
        release_references,
        sensitivity,
        by_epoch,
        outsider,
        canary,
        evaluate,
        calibrated,
        unseen,
    )
    chance_level_steps = (unseen.name,)
    own_objects = {"defense": MembershipRelease, "evaluator": MembershipEvaluator}

    splits: int = Field(
        default=3, ge=1, description="Number of repetitions, each with other rows and another initialisation."
    )
    part: int = Field(default=0, ge=0, description="Rows of each of six parts of the data; 0: a sixth of it.")
    settings: Mapping[str, Published] = Field(
        default={}, description="Data set, by id -> how the paper trains on it, instead of the options here."
    )
    further: int = Field(
        default=0,
        ge=0,
        description="Non-members that evaluators guess about in addition to the part of the target's non-members: a "
        "rate at 1 % false positives takes 500 of both together.",
    )
    epochs: int = Field(default=100, ge=1, description="Epochs of undefended training.")
    batch_size: int = Field(default=64, ge=1, description="Rows per training step.")
    learning_rate: float = Field(default=1e-3, gt=0, description="The optimiser's learning rate.")
    optimiser: Literal["adam", "sgd"] = Field(default="adam", description="Optimiser of undefended training.")
    training_precision: Literal["strict", "tf32"] = Field(
        default="strict", description="Precision of training: float32, or factors that a GPU rounds to 10 bits."
    )
    references: int = Field(
        default=16, ge=3, le=1024, description="Number of reference models, for attacks that use them."
    )
    pools: int = Field(
        default=0,
        ge=0,
        description="Number of pools of rows whose splits share reference models; 0: each split has its own.",
    )
    copies: int = Field(
        default=8, ge=1, le=1000, description="Noisy copies per row and size of noise, for the label-only attack."
    )
    matched: bool = Field(default=True, description="Compare training defenses with early stopping at their accuracy.")
    fpr: float = Field(
        default=LOW,
        gt=0,
        lt=1,
        description="False-positive rate at which defenses are ranked by the share of members that is found.",
    )
    canaries: int = Field(
        default=0,
        ge=0,
        description="Mislabelled rows, an eighth of which each split's canary models are trained on; 0: none.",
    )
    sensitivity_rows: int = Field(
        default=0,
        ge=0,
        description="Number of members without which the undefended model is trained again, one at a time.",
    )

    by_epoch: int = Field(
        default=0,
        ge=0,
        description="Number of epochs of training at which the first split's models are attacked; 0: none.",
    )

    def plan(self, planner: Planner, selection: Selection) -> None:
        """Plan target, shadow and reference models per split and defense, and the guesses of every evaluator."""
        check_names(planner, "settings", TableDataset.kind, self.settings)
        for setting in self.settings.values():
            check_names(planner, "settings: models", Model.kind, setting.models)
            check_names(planner, "settings: defended", Model.kind, setting.defended)
            check_names(planner, "settings: defenses", MembershipTraining.kind, setting.defenses)
        evaluators = selection.of(MembershipEvaluator)
        if self.pools and self.matched and any("references" in evaluator.reads for evaluator in evaluators):
            raise UsageError(
                "Splits of a pool share reference models, which stop at no split's epoch: set matched=false."
            )
        defenses: list[Defense] = [*selection.of(MembershipTraining), *selection.of(MembershipRelease)]
        for dataset in selection.of(TableDataset):
            setting = self._published(dataset.label, dataset.info.id)
            adjusted = [setting.adjusted(defense) for defense in defenses]
            guards = list(self._guards(planner, adjusted))
            for model in selection.of(Model):
                if setting.models and model.label not in setting.models:
                    continue
                met = [guard for guard in guards if setting.meets(model, guard.matched or guard.defense)]
                for split in range(self.splits):
                    plan = _Plan(self, planner.within(dataset=dataset, model=model), evaluators, split, setting)
                    for guard in met:
                        plan.attacked(guard)
                        if self.canaries and guard.matched is None:
                            plan.canary(guard)
                    if split == 0:
                        plan.unseen()
                        if self.sensitivity_rows:
                            plan.sensitivity()
                        if self.by_epoch:
                            for guard in met:
                                plan.by_epoch(guard)

    def _published(self, *names: str) -> Published:
        """Return the settings under the first of these names that has settings."""
        return next((self.settings[name] for name in names if name in self.settings), Published(part=self.part))

    def workload(self, spec: TaskSpec, units: int) -> Workload | None:
        """Return the rows and operations of a task on a table of `units` rows."""
        return workload_of(
            spec, units, self._published(spec.components["dataset"].label, spec.components["dataset"].id).part
        )

    def _guards(self, planner: Planner, defenses: list[Defense]) -> Iterator[_Guard]:
        """Yield every defense, and early stopping at the accuracy of each training defense."""
        for defense in defenses:
            yield _Guard(defense)
            trains = isinstance(defense, MembershipTraining) and defense.info.id not in (UNDEFENDED, STOPPED)
            if self.matched and trains:
                yield _Guard(planner.component("defense", STOPPED), defense)

    def report(self, query: Query) -> TrackReport:
        """Return the ranking and the tables of the paper that the finished tasks allow."""
        return report(query, self.utility_loss, self.fpr)


class _Plan:
    """Plans the tasks of one model on one split of one data set; `planner` knows the model and the data set."""

    def __init__(
        self,
        track: MembershipTrack,
        planner: Planner,
        evaluators: list[MembershipEvaluator],
        split: int,
        published: Published,
    ) -> None:
        self.track, self.planner, self.evaluators = track, planner, evaluators
        self.baseline = _Guard(planner.component("defense", UNDEFENDED))
        self.rows: dict[str, OptionValue] = {"split": split, "part": published.part}
        if track.pools:
            self.rows["pool"] = split % track.pools
        if track.further:
            self.rows["further"] = track.further
        if published.shadow_part:
            self.rows["shadow_part"] = published.shadow_part
        self.asked = published.asked
        self.training: dict[str, OptionValue] = {**self.rows, **published.of(track)}
        if track.training_precision != "strict":
            self.training["precision"] = track.training_precision
        reads = {name for evaluator in evaluators for name in evaluator.reads}
        self.compares = "references" in reads
        self.evidence: dict[str, OptionValue] = {
            "copies": track.copies if "robustness" in reads else 0,
            "gradients": "gradients" in reads,
            **({"layers": True} if "layers" in reads else {}),
        }

    def _model(self, guard: _Guard, role: str) -> Planned:
        """Plan the network behind a defense, for a release the undefended one, for early stopping one of its epochs."""
        options = {"role": role, **self.evidence, **self.training}
        if guard.matched is not None:
            needs = {"plain": self._model(self.baseline, role), "matched": self._model(_Guard(guard.matched), role)}
            return self.planner.task(stop, {"defense": guard.defense, **guard.roles}, options=options, needs=needs)
        trained = self.baseline if isinstance(guard.defense, MembershipRelease) else guard
        return self.planner.task(train, {"defense": trained.defense}, options=options)

    def _released(self, guard: _Guard, role: str) -> Planned:
        """Plan the outputs that adversaries see: those of the network behind a defense, or those that are released."""
        model = self._model(guard, role)
        if not isinstance(guard.defense, MembershipRelease):
            return model
        options = {"role": role, **self.rows, **self.asked}
        return self.planner.task(release, {"defense": guard.defense}, options=options, needs={"plain": model})

    def _references(self, guard: _Guard) -> Planned:
        """Plan the reference models of an adversary who defends them with a defense.

        For early stopping they are undefended ones; evaluators take their answers at the epoch where the shadow stops.
        """
        if isinstance(guard.defense, MembershipRelease):
            options = {"models": self.track.references, **self._shared(self.rows), **self.asked}
            needs = {"references": self._references(self.baseline)}
            return self.planner.task(release_references, {"defense": guard.defense}, options=options, needs=needs)
        if guard.matched is not None:
            return self._references(self.baseline)
        stops = guard == self.baseline and not self.track.pools
        needs = {"shadow": self._model(guard, "shadow")} if stops else {}
        options = {"models": self.track.references, **self._shared(self.training)}
        return self.planner.task(references, {"defense": guard.defense}, options=options, needs=needs)

    def _shared(self, options: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
        """Return the options of reference models, which are those of the pool where there is one."""
        return {name: value for name, value in options.items() if name != "split" or not self.track.pools}

    def attacked(self, guard: _Guard) -> None:
        """Plan the guesses of every evaluator, with undefended and with defended shadow models, and `calibrated`."""
        for adaptive in (False, True):
            shadow_guard = guard if adaptive else self.baseline
            released, model = self._released(guard, "target"), self._model(guard, "target")
            self._guesses(evaluate, guard, shadow_guard, released, model, {"adaptive": adaptive})
        if self.compares and enough(self.track.references, int(self.rows["part"]), self.track.further):
            needs = {role: self._released(guard, role) for role in ROLES} | {"references": self._references(guard)}
            roles = {"defense": guard.defense, **guard.roles}
            self.planner.task(calibrated, roles, options={"split": self.training["split"]}, needs=needs)

    def unseen(self) -> None:
        """Plan the guesses of every evaluator about a model that saw none of the rows."""
        options = {"role": "target", **self.evidence, **self.training}
        model = self.planner.task(outsider, {"defense": self.baseline.defense}, options=options)
        self._guesses(unseen, self.baseline, self.baseline, model, model, {})

    def _guesses(
        self,
        step: Step,
        guard: _Guard,
        shadow_guard: _Guard,
        released: Planned,
        model: Planned,
        options: dict[str, OptionValue],
    ) -> None:
        """Plan a step for every evaluator.

        `released`: the outputs of the target network `model` that evaluators see. `shadow_guard`: the defense with
        which the adversary trains shadow and reference models.
        """
        outputs = {"target": released, "shadow": self._released(shadow_guard, "shadow")}
        models = {"target_model": model, "shadow_model": self._model(shadow_guard, "shadow")}
        references = {"references": self._references(shadow_guard)} if self.compares else {}
        for evaluator in self.evaluators:
            needs = outputs | (references if "references" in evaluator.reads else {})
            if evaluator.reads & {"robustness", "gradients", "layers"}:
                needs |= models
            self.planner.task(
                step,
                {"defense": guard.defense, **guard.roles, "evaluator": evaluator},
                options={**options, "split": self.training["split"]},
                needs=needs,
            )

    def canary(self, guard: _Guard) -> None:
        """Plan a defended model that is trained on some of the canaries, and its answers to all of them."""
        released = isinstance(guard.defense, MembershipRelease)
        roles = {"defense": guard.defense, **({"trained": self.baseline.defense} if released else {})}
        self.planner.task(canary, roles, options={"canaries": self.track.canaries, **self.training})

    def by_epoch(self, guard: _Guard) -> None:
        """Plan attacks on a trained model at some epochs; releases and early stopping have no epochs of their own."""
        if isinstance(guard.defense, MembershipTraining) and guard.defense.info.id != STOPPED:
            options = {"points": self.track.by_epoch, **self.training}
            self.planner.task(by_epoch, {"defense": guard.defense}, options=options)

    def sensitivity(self) -> None:
        """Plan the training of the undefended model without some of its members."""
        options = {"rows": self.track.sensitivity_rows, **self.training}
        needs = {"plain": self._model(self.baseline, "target")}
        self.planner.task(sensitivity, {"defense": self.baseline.defense}, options=options, needs=needs)


@hookimpl
def components() -> list[Track]:
    return [MembershipTrack()]
