"""More clean images for the test whether a defense keeps their order of quality: every severity of each photograph.

The test compares correlations with the quality labels. With one image of each of 36 photographs it has hardly any
power: a defense that changes nothing passed it in 2 % of simulated studies. Clean images need no attack and so are
cheap. If a data set has further severities of each photograph, all of them are scored here.
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
    """Plans the scores of every severity for one attacked data set.

    Attributes:
        planner: adds the tasks.
        attacked: label of the data set that is attacked.
        dataset: the same data set with every severity; None where it has no further severities.
        purified: label of a purification -> it, and the task of its images.
    """

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
