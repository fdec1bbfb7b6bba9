"""Track 2: how much of a private image can be rebuilt from the gradient it gives, and which metric ranks as people do.

A protected model is a classifier with a defense. Its leakage under a metric is the mean, over images, of how close the
reconstruction comes to the private image; SemSim ranks protected models by it (section 3). The ranking by people, the
share of reconstructions they recognise, says which metric can be trusted (section 4). By that metric the main table
ranks what the strongest attack reaches, beside what the model can do.
"""

from collections.abc import Mapping
from itertools import product

from pydantic import Field

from imharness.data import ImageDataset
from imharness.gradients import GradientDefense, ImageProtection, Info, Model, ReconstructionAttack, hookimpl
from imharness.images import DistributionMetric, FullReferenceMetric
from imharness.tracks import Planner, Query, Selection, Track, TrackReport
from imharness_reconstruction.models.untrained import Untrained
from imharness_reconstruction.steps import distribution, gallery, guess, judge, leakage, recognise, reconstruct, train
from imharness_reconstruction.tables import report

Guard = GradientDefense | ImageProtection


class ReconstructionTrack(Track):
    """Gradient leakage: how much of a private image comes back from the gradient that was shared."""

    info = Info(
        id="harness/reconstruction",
        version="3",
        paper="sun2023",
    )
    title = "Reconstruction privacy"
    measures = "How close reconstruction attacks come to private images through the gradients a model shares."
    steps = (train, judge, reconstruct, leakage, guess, distribution, recognise, gallery)

    epochs: int = Field(default=60, ge=1, le=10_000, description="Training of target classifiers and of the judge.")
    batch_size: int = Field(default=128, ge=1, description="Images per training step.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Of stochastic gradient descent.")
    untrained: tuple[str, ...] = Field(
        default=("harness/lenet",), description="Models attacked as initialised: the first round of federated learning."
    )
    narrow: Mapping[str, tuple[str, ...]] = Field(
        default={}, description="Attack, by label or id -> models: such an attack meets these only."
    )
    gradients_only: tuple[str, ...] = Field(
        default=(), description="Attacks that meet gradient defenses only, not protections of images."
    )
    shown_images: int = Field(default=3, ge=1, le=50, description="Images of the gallery.")
    judge: str = Field(default="harness/convnet8", description="Model whose top-1 stands in for people.")

    def plan(self, planner: Planner, selection: Selection) -> None:
        """One reconstruction per (data set, model, defense, attack), scored by every metric and shown to the judge."""
        attacks, models = selection.of(ReconstructionAttack), selection.of(Model)
        for dataset in selection.of(ImageDataset):
            planner.task(gallery, {"dataset": dataset}, options={"images": self.shown_images})
            training = training_part(dataset)
            own = planner.within(dataset=dataset, **({} if training is None else {"training": training}))
            guards: list[Guard] = [*selection.of(GradientDefense)]
            if training is not None:
                guards += selection.of(ImageProtection)
                for metric in selection.of(FullReferenceMetric):
                    own.task(guess, {"metric": metric})
            for model, guard, attack in product(models, guards, attacks):
                if self._meets(attack, model, guard):
                    self._attacked(own, selection, training is not None, model, guard, attack)

    def _meets(self, attack: ReconstructionAttack, model: Model, guard: Guard) -> bool:
        wanted = self.narrow.get(attack.label, self.narrow.get(attack.info.id, (model.label,)))
        guarded = isinstance(guard, GradientDefense) or attack.info.id not in self.gradients_only
        return guarded and model.label in wanted

    def _attacked(
        self,
        own: Planner,
        selection: Selection,
        trainable: bool,
        model: Model,
        guard: Guard,
        attack: ReconstructionAttack,
    ) -> None:
        """Plan one reconstruction and all that is asked of it; networks are trained where there are images for it."""
        schedule = {"epochs": self.epochs, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        cell = own.within(model=model, defense=guard, attack=attack)
        before = {}
        initial = isinstance(model, Untrained) or model.label in self.untrained
        if trainable and not model.trained and not initial:
            before["trained"] = own.task(train, {"model": model, "defense": guard}, options=schedule)
        rebuilt = cell.task(reconstruct, options=dict.fromkeys(before, True), needs=before)
        for metric in selection.of(FullReferenceMetric):
            cell.task(leakage, {"metric": metric}, needs={"rebuilt": rebuilt})
        for whole in selection.of(DistributionMetric):
            cell.task(distribution, {"metric": whole}, needs={"rebuilt": rebuilt})
        asked = own.component("model", self.judge)
        if isinstance(asked, Model) and (asked.trained or trainable):
            before = {} if asked.trained else {"judge": own.task(judge, {"model": asked}, options=schedule)}
            options = dict.fromkeys(before, True)
            cell.task(recognise, {"judge": asked}, options=options, needs={"rebuilt": rebuilt, **before})

    def report(self, query: Query) -> TrackReport:
        """Return who leaks least, SemSim's tables, what defenses cost, and which metric agrees with people."""
        return report(query, self.utility_loss)


def training_part(dataset: ImageDataset) -> ImageDataset | None:
    """Return the part of a data set to train on: the same recipe with ``split="train"``, if it has that field."""
    if getattr(dataset, "split", "train") == "train":
        return None
    return dataset.with_parameters(split="train")


@hookimpl
def components() -> list[Track]:
    return [ReconstructionTrack()]
