"""Track 2: how much of a private image can be rebuilt from the gradient it gives, and which metric ranks as people do.

A protected model is a classifier with a defense. Its leakage under a metric is the mean, over images, of how close the
reconstruction comes to the private image; protected models are ranked by it (SemSim, section 3). The ranking by people,
the share of reconstructions they recognise, says which metric can be trusted (section 4).
"""

from collections.abc import Mapping

from pydantic import Field

from imharness.data import ImageDataset
from imharness.gradients import GradientDefense, ImageProtection, Info, Model, ReconstructionAttack, hookimpl
from imharness.images import DistributionMetric, FullReferenceMetric
from imharness.tracks import Planned, Planner, Query, Selection, Track, TrackReport
from imharness_reconstruction.steps import distribution, gallery, judge, leakage, recognise, reconstruct, train
from imharness_reconstruction.tables import report

Guard = GradientDefense | ImageProtection


class ReconstructionTrack(Track):
    """Gradient leakage: how much of a private image comes back from the gradient that was shared."""

    info = Info(
        id="harness/reconstruction",
        version="2",
        paper="sun2023",
    )
    title = "Reconstruction privacy"
    measures = "How close reconstruction attacks come to private images through the gradients a model shares."
    steps = (train, judge, reconstruct, leakage, distribution, recognise, gallery)

    epochs: int = Field(default=60, ge=1, le=10_000, description="Training of target classifiers and of the judge.")
    batch_size: int = Field(default=128, ge=1, description="Images per training step.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Of stochastic gradient descent.")
    untrained: tuple[str, ...] = Field(
        default=("harness/lenet",), description="Models attacked as initialised: the first round of federated learning."
    )
    narrow: Mapping[str, tuple[str, ...]] = Field(
        default={}, description="Attack -> models: such an attack meets these only, behind gradient defenses only."
    )
    shown_images: int = Field(default=3, ge=1, le=50, description="Images of the gallery.")
    judge: str = Field(default="harness/convnet8", description="Model whose top-1 stands in for people.")

    def plan(self, planner: Planner, selection: Selection) -> None:
        """One reconstruction per (data set, model, defense, attack), scored by every metric and shown to the judge."""
        guards: list[Guard] = [*selection.of(GradientDefense), *selection.of(ImageProtection)]
        attacks, models = selection.of(ReconstructionAttack), selection.of(Model)
        for dataset in selection.of(ImageDataset):
            plan = _Plan(self, planner, selection, dataset)
            planner.task("gallery", {"dataset": dataset}, options={"images": self.shown_images})
            for model in models:
                for guard in guards:
                    if isinstance(guard, ImageProtection) and plan.training is None:
                        continue
                    for attack in attacks:
                        if self._meets(attack, model, guard):
                            plan.attacked(model, guard, attack)

    def _meets(self, attack: ReconstructionAttack, model: Model, guard: Guard) -> bool:
        wanted = self.narrow.get(attack.info.id)
        return wanted is None or (isinstance(guard, GradientDefense) and model.label in wanted)

    def report(self, query: Query) -> TrackReport:
        """Return the ranking of protected models, what defenses cost, and which metric agrees with people."""
        return report(query)


class _Plan:
    """The cells of one data set."""

    def __init__(self, track: ReconstructionTrack, planner: Planner, selection: Selection, dataset: ImageDataset):
        self.track, self.planner, self.selection, self.dataset = track, planner, selection, dataset
        self.training = training_part(dataset)
        self.roles = {"dataset": dataset} | ({"training": self.training} if self.training is not None else {})
        judge = planner.component("model", track.judge)
        self.judge = judge if isinstance(judge, Model) else None

    def attacked(self, model: Model, guard: Guard, attack: ReconstructionAttack) -> None:
        """Plan one reconstruction and all that is asked of it."""
        roles = {**self.roles, "model": model, "defense": guard, "attack": attack}
        fits = model.trained or model.label in self.track.untrained
        trained = None if fits or self.training is None else self._training("train", model, guard)
        options, needs = ({}, {}) if trained is None else ({"trained": True}, {"trained": trained})
        rebuilt = self.planner.task("reconstruct", roles, options=options, needs=needs)
        for metric in self.selection.of(FullReferenceMetric):
            self.planner.task("leakage", {**roles, "metric": metric}, needs={"rebuilt": rebuilt})
        for metric in self.selection.of(DistributionMetric):
            self.planner.task("distribution", {**roles, "metric": metric}, needs={"rebuilt": rebuilt})
        if self.judge is None or (self.training is None and not self.judge.trained):
            return
        answered = {**roles, "judge": self.judge}
        if self.judge.trained:
            self.planner.task("recognise", answered, needs={"rebuilt": rebuilt})
        else:
            judge = self._training("judge", self.judge, None)
            needs = {"rebuilt": rebuilt, "judge": judge}
            self.planner.task("recognise", answered, options={"judge": True}, needs=needs)

    def _training(self, step: str, model: Model, guard: Guard | None) -> Planned:
        track = self.track
        options = {"epochs": track.epochs, "batch_size": track.batch_size, "learning_rate": track.learning_rate}
        roles = {**self.roles, "model": model} | ({"defense": guard} if guard is not None else {})
        return self.planner.task(step, roles, options=options)


def training_part(dataset: ImageDataset) -> ImageDataset | None:
    """Return the part of a data set to train on: the same recipe with ``split="train"``, if it has that field."""
    if getattr(dataset, "split", "train") == "train":
        return None
    return dataset.with_parameters(split="train")


@hookimpl
def components() -> list[Track]:
    return [ReconstructionTrack()]
