"""The clean images on which it is tested whether a defense keeps their order: every severity of each photograph.

One image of each of 36 photographs says little about a correlation: a defense that equals no defense was shown to keep
it in 2 % of studies. Clean images cost no attack, so a data set that has more of each photograph shows them all here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from imharness.data import ImageDataset
from imharness.images import NoReferenceMetric, Purification
from imharness.tracks import Component, Planned, Planner, StepContext, StepResult, step
from imharness_iqa.disjoint import photographs_of
from imharness_iqa.steps import defended, purify

FIELD = "graded"
"""The field of data sets that have more severities of each photograph."""


@step(version="1", shared=True, doing="scoring every severity of clean photographs behind {defense}[ with {metric}]")
def graded(context: StepContext) -> StepResult:
    """Score the defended clean images of every severity, f(D(x))."""
    images = context.images()
    facts = {
        "mos": images.columns["mos"],
        "photograph": photographs_of(images),
        "sign": np.full(len(images), context.component("metric").closeness),
    }
    return StepResult(rows={**defended(context).rows, **facts})


@dataclass(frozen=True)
class Grading:
    """The plan of these scores for one attacked data set; `dataset` is None where it has no further severities."""

    planner: Planner
    attacked: str
    dataset: ImageDataset | None
    purified: Mapping[str, tuple[Component, Planned]]

    @classmethod
    def of(cls, planner: Planner, dataset: ImageDataset, defenses: Sequence[Purification]) -> "Grading":
        """Plan the defended images of every severity."""
        if FIELD not in type(dataset).model_fields:
            return cls(planner, dataset.label, None, {})
        images = dataset.with_parameters(graded=True)
        purified = {d.label: (d, planner.task(purify, {"dataset": images, "defense": d})) for d in defenses}
        return cls(planner, dataset.label, images, purified)

    def plan(self, metric: NoReferenceMetric, around: Sequence[Mapping[str, Component]]) -> None:
        """Plan the scores of a metric. `around`: the roles of each defense that leaves images as they are."""
        if self.dataset is None:
            return
        condition = self.planner.within({"attacked": self.attacked}, dataset=self.dataset, metric=metric)
        for defense, images in self.purified.values():
            condition.task(graded, {"defense": defense}, needs={"purified": images})
        for roles in around:
            condition.task(graded, roles)
