"""Track 2: how much of a private image can be rebuilt from its gradient, and which metric agrees with people.

A protected model is a classifier with a defense. Its leakage under a metric is the mean, over images, of how close the
reconstruction comes to the private image; SemSim ranks protected models by it (section 3). The ranking by people, the
share of reconstructions they recognise, shows which metric can be trusted (section 4). The main table ranks how close
the strongest attack comes by PSNR, with the model's test accuracy as utility; a winner leaks less by recognition and by
SemSim, too.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, product

from pydantic import Field

from imharness.data import ImageDataset
from imharness.gradients import GradientDefense, ImageProtection, Info, Model, ReconstructionAttack, hookimpl
from imharness.images import DistributionMetric, FullReferenceMetric
from imharness.tracks import Planner, Query, Selection, TaskSpec, Track, TrackReport, Workload, check_names
from imharness_reconstruction.classifiers import CLIP, MOMENTUM
from imharness_reconstruction.models.untrained import Untrained
from imharness_reconstruction.steps import distribution, gallery, guess, judge, leakage, recognise, reconstruct, train
from imharness_reconstruction.tables import report
from imharness_reconstruction.workload import workload_of

Guard = GradientDefense | ImageProtection


class ReconstructionTrack(Track):
    """Gradient leakage: how much of a private image can be rebuilt from the gradient that was shared."""

    info = Info(
        id="harness/reconstruction",
        version="4",
        paper="sun2023",
    )
    title = "Reconstruction privacy"
    question = "Which defense keeps shared gradients from giving images away?"
    measures = "How close reconstruction attacks come to private images, given the gradients that a model shares."
    steps = (train, judge, reconstruct, leakage, guess, distribution, recognise, gallery)
    ranks = ("model", "defense")
    own_objects = {"defense": GradientDefense, "metric": FullReferenceMetric, "attack": ReconstructionAttack}
    folder_dataset = "harness/class-folder"

    epochs: int = Field(
        default=60, ge=1, le=10_000, description="Epochs of training of target classifiers and of the judge."
    )
    batch_size: int = Field(default=128, ge=1, description="Images per training step.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Learning rate of stochastic gradient descent.")
    momentum: float = Field(default=MOMENTUM, ge=0, lt=1, description="Momentum of stochastic gradient descent.")
    weight_decay: float = Field(default=0, ge=0, le=1, description="This times a weight is added to its gradient.")
    cosine: bool = Field(default=True, description="Let the learning rate fall to 0 along half a cosine.")
    clip: float = Field(default=CLIP, ge=0, description="Largest norm of a gradient of training; 0: no bound.")
    untrained: tuple[str, ...] = Field(
        default=("harness/lenet",),
        description="Models that are attacked as initialised, as in the first round of federated learning.",
    )
    narrow: Mapping[str, tuple[str, ...]] = Field(
        default={}, description="Attack, by label or id -> the only models that it attacks."
    )
    targets: Mapping[str, tuple[str, ...]] = Field(
        default={},
        description="Data set, by label or id -> models that are attacked on it; a data set without entry: all.",
    )
    attacked: int = Field(
        default=0, ge=0, description="Number of held-out images that are attacked, the first of a data set; 0: all."
    )
    participants: int = Field(
        default=0,
        ge=0,
        description="Number of participants in a round of federated learning, whose images one update mixes and who "
        "count once; 0: as many as there are attacked images for.",
    )
    at_once: int = Field(
        default=0, ge=0, description="Number of images whose gradients are held in memory at once; 0: all."
    )
    gradients_only: tuple[str, ...] = Field(
        default=(), description="Attacks that meet gradient defenses only, not protections of images."
    )
    shown_images: int = Field(default=3, ge=1, le=50, description="Number of images in the gallery.")
    judge: str = Field(default="harness/convnet8", description="Model whose top-1 stands in for people.")

    def plan(self, planner: Planner, selection: Selection) -> None:
        """Plan a reconstruction for each data set, model, defense and attack, with its scores by metrics and judge."""
        self._check_names(planner)
        attacks, models = selection.of(ReconstructionAttack), selection.of(Model)
        for dataset in selection.of(ImageDataset):
            planner.task(gallery, {"dataset": dataset}, options={"images": self.shown_images})
            training = training_part(dataset)
            scoped_planner = planner.within(dataset=dataset, **({} if training is None else {"training": training}))
            guards: list[Guard] = [*selection.of(GradientDefense)]
            if training is not None:
                guards += selection.of(ImageProtection)
                for metric in _measuring(selection, dataset):
                    scoped_planner.task(guess, {"metric": metric}, options=self._few(*attacks))
            for model, guard, attack in product(models, guards, attacks):
                if model.label in _of(self.targets, dataset, model) and self._meets(attack, model, guard):
                    metrics = _measuring(selection, dataset)
                    self._attacked(scoped_planner, selection, metrics, training is not None, model, guard, attack)

    def _check_names(self, planner: Planner) -> None:
        """Raise an error if an option names a component that does not exist."""
        check_names(planner, "untrained", Model.kind, self.untrained)
        check_names(planner, "gradients_only", ReconstructionAttack.kind, self.gradients_only)
        for option, kind in (("narrow", ReconstructionAttack.kind), ("targets", ImageDataset.kind)):
            named = getattr(self, option)
            check_names(planner, option, kind, named)
            check_names(planner, option, Model.kind, chain.from_iterable(named.values()))

    def _meets(self, attack: ReconstructionAttack, model: Model, guard: Guard) -> bool:
        """Return whether an attack is planned on this model with this defense.

        Attacks on rounds of federated learning, and those that `gradients_only` names, meet defenses of gradients only.
        """
        gradients_only = attack.round() is not None or {attack.label, attack.info.id} & {*self.gradients_only}
        fits = isinstance(guard, GradientDefense) or not gradients_only
        return fits and model.label in _of(self.narrow, attack, model)

    def _aware(
        self, selection: Selection, attack: ReconstructionAttack, model: Model, guard: Guard
    ) -> ReconstructionAttack | None:
        """Return the same attack with `surviving`, on surviving coordinates only, if that is planned, too; else None.

        If the defense prunes nothing, both attacks are equal, and the result of one serves for both.
        """
        if getattr(attack, "surviving", True):
            return None
        aware = attack.with_parameters(surviving=True)
        chosen = {component.label for component in selection.of(ReconstructionAttack)}
        return aware if aware.label in chosen and self._meets(aware, model, guard) else None

    def _attacked(
        self,
        scoped_planner: Planner,
        selection: Selection,
        metrics: Iterable[FullReferenceMetric],
        trainable: bool,
        model: Model,
        guard: Guard,
        attack: ReconstructionAttack,
    ) -> None:
        """Plan one reconstruction and its scores; networks are trained where there are images for it."""
        schedule, few = self._schedule, self._few(attack)
        condition = scoped_planner.within(model=model, defense=guard, attack=attack)
        before = {}
        initial = isinstance(model, Untrained) or model.label in self.untrained
        if trainable and not model.trained and not initial:
            before["trained"] = scoped_planner.task(train, {"model": model, "defense": guard}, options=schedule)
        aware = self._aware(selection, attack, model, guard)
        if aware is not None:
            options = self._reconstruct_options(before, few)
            before["aware"] = condition.task(reconstruct, {"attack": aware}, options=options, needs=before)
        rebuilt = condition.task(reconstruct, options=self._reconstruct_options(before, few), needs=before)
        for metric in metrics:
            condition.task(leakage, {"metric": metric}, options=few, needs={"rebuilt": rebuilt})
        for whole in selection.of(DistributionMetric):
            condition.task(distribution, {"metric": whole}, options=few, needs={"rebuilt": rebuilt})
        judge_model = scoped_planner.component("model", self.judge)
        if isinstance(judge_model, Model) and (judge_model.trained or trainable):
            before = (
                {}
                if judge_model.trained
                else {"judge": scoped_planner.task(judge, {"model": judge_model}, options=schedule)}
            )
            options = dict.fromkeys(before, True) | few
            condition.task(recognise, {"judge": judge_model}, options=options, needs={"rebuilt": rebuilt, **before})

    @property
    def _schedule(self) -> dict[str, int | float | bool]:
        """Return the options of a training; four of them only if they are not the default.

        Options are part of a task's identity. A later option at its default must not change the identity of old tasks.
        """
        further = {name: getattr(self, name) for name in ("momentum", "weight_decay", "cosine", "clip")}
        fields = type(self).model_fields
        return {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            **{name: value for name, value in further.items() if value != fields[name].default},
        }

    def _few(self, *attacks: ReconstructionAttack) -> dict[str, int]:
        """Return the option `attacked` of steps on the images that any of these attacks meets; empty for all images."""
        counts = []
        for attack in attacks:
            federated = attack.round()
            if federated and self.participants:
                counts.append(self.participants * federated.images)
            else:
                counts.append(self.attacked)
        return {"attacked": max(counts)} if counts and all(counts) else {}

    def _reconstruct_options(self, before: Iterable[str], few: Mapping[str, int]) -> dict[str, bool | int]:
        """Return the options of a reconstruction.

        `before`: the names of the tasks that it needs; `few`: the option `attacked`, see `_few`.
        """
        chunked: dict[str, bool | int] = {"at_once": self.at_once} if self.at_once else {}
        return dict.fromkeys(before, True) | chunked | few

    def workload(self, spec: TaskSpec, units: int) -> Workload | None:
        """Return the rows and operations of a task on `units` private images."""
        return workload_of(spec, min(units, int(spec.options.get("attacked", units))), self.shown_images)

    def report(self, query: Query) -> TrackReport:
        """Return the ranking, SemSim's tables, the cost of defenses, and the agreement of metrics with people."""
        return report(query, self.utility_loss)


def _of(
    named: Mapping[str, tuple[str, ...]], component: ImageDataset | ReconstructionAttack, model: Model
) -> tuple[str, ...]:
    """Return the labels of the models that an option names for a component, by its label or its id.

    If the option does not name the component, any model will do, and the label of `model` is returned.
    """
    return named.get(component.label, named.get(component.info.id, (model.label,)))


def _measuring(selection: Selection, dataset: ImageDataset) -> list[FullReferenceMetric]:
    """Return the metrics that measure a data set.

    A metric with a field `unseen` was trained on all data sets but that one, and measures no other: in SemSim's table 1
    the network that measures a data set was trained on the other four.
    """
    return [
        metric for metric in selection.of(FullReferenceMetric) if getattr(metric, "unseen", "") in ("", dataset.info.id)
    ]


def training_part(dataset: ImageDataset) -> ImageDataset | None:
    """Return the part of a data set to train on: the same data set with ``split="train"``, if it has that field."""
    if getattr(dataset, "split", "train") == "train":
        return None
    return dataset.with_parameters(split="train")


@hookimpl
def components() -> list[Track]:
    return [ReconstructionTrack()]
