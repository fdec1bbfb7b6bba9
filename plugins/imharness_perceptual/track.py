"""Track 3: which image distance agrees best with what people see.

Zhang et al., CVPR 2018. Forced choices (section 2.2): of two distorted images, which is nearer to the reference? Where
people judged (BAPPS), agreement is the share of them that made the metric's choice; on the ladder of distortions, whose
order is known, neighbouring severities are compared. Just noticeable differences and opinion scores (TID2013) are
further tests. Attacks of the quality track show how far each distance can be moved.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from imharness.data import ImageDataset
from imharness.images import Attack, FullReferenceMetric, Info, hookimpl
from imharness.tracks import Planner, Query, Selection, TaskSpec, Track, TrackReport, Workload, check_names
from imharness_perceptual.evidence import evidence
from imharness_perceptual.steps import SUBSTITUTE, attack, distance
from imharness_perceptual.tables import report

PASS = {
    "alex": 0.08e9,
    "vgg": 2.3e9,
    "squeeze": 0.03e9,
    "harness/dists": 2.3e9,
    "harness/r-lpips": 0.08e9,
    "harness/lipsim": 53.2e9,
    "harness/dreamsim": 17.6e9,
}
"""Backbone or metric -> the operations of one pass over one patch of 64 px, for estimates of time on a GPU that does
20e12 operations a second. Those of VGG-16, LipSim and DreamSim are the time that an H100 took (0.116, 2.66 and 0.88 ms)
times 20e12; the others are as `FlopCounterMode` counts them."""
GRADIENT = 2.2
"""The cost of a gradient, as a multiple of a forward pass; measured for VGG-16, LipSim and DreamSim: 1.9 to 2.3."""
PER_ROW = 37
"""Bytes of a row, measured on the demo leaderboard."""
STEPS = 4
"""The radius of an attack's ball divided by its step size."""


class PerceptualTrack(Track):
    """Perceptual distances: which one orders distortions as people do."""

    info = Info(
        id="harness/perceptual",
        version="3",
        paper="zhang2018",
    )
    title = "Perceptual distances"
    question = "Which distance between images still holds under attack?"
    measures = "Whether a distance between images grows with the severity of a distortion (severity order, not human)."
    steps = (distance, attack, evidence)
    evidence_steps = (attack.name, evidence.name)
    ranks = ("metric",)
    own_objects = {"metric": FullReferenceMetric}
    folder_dataset = "harness/folder-ladder"
    season_datasets = {"ladder": "harness/folder-ladder"}

    radii: tuple[int, ...] = Field(
        default=(1, 2, 4), description="Radii of the L-infinity balls of attacks on distances, in units of 1/255."
    )

    attacked_images: int = Field(
        default=0, ge=0, description="Number of images of a set to attack, spread over its photographs; 0: all."
    )

    substitutes: tuple[str, ...] = Field(
        default=("harness/l2", "harness/ssim-uniform7"),
        description="Distances whose gradients attacks follow in place of a metric's own, in the largest ball.",
    )

    def plan(self, planner: Planner, selection: Selection) -> None:
        """Plan the distances of every metric on every data set, and the attacks on them that have an L-infinity ball.

        An attack along a metric's own gradient runs at every radius, on metrics that have a gradient. Attacks along the
        gradient of a substitute, and attacks by queries alone, run at the largest radius, on all metrics.
        """
        check_names(planner, "substitutes", "metric", self.substitutes)
        methods = [method for method in selection.of(Attack) if _with_radius(method, 1) is not None]
        substitute_roles = [{SUBSTITUTE: planner.component("metric", label)} for label in self.substitutes]
        largest = max(self.radii, default=0)
        for dataset in selection.of(ImageDataset):
            for metric in selection.of(FullReferenceMetric):
                scoped_planner = planner.within(dataset=dataset, metric=metric)
                scoped_planner.task(distance)
                for method, radius in itertools.product(methods, self.radii):
                    roles = {"attack": _with_radius(method, radius)}
                    options = {"radius": radius, "images": self.attacked_images}
                    follows_gradient = method.info.access == "white_box"
                    suits = metric.info.differentiable if follows_gradient else radius == largest
                    if suits:
                        scoped_planner.task(attack, roles, options=options)
                    if follows_gradient and radius == largest:
                        for substitute in substitute_roles:
                            scoped_planner.task(attack, {**roles, **substitute}, options=options)

    def workload(self, spec: TaskSpec, units: int) -> Workload | None:
        """Return the rows and operations of a task on `units` images; a gradient counts as `GRADIENT` passes."""
        if not units:
            return None
        image_count = min(self.attacked_images or units, units) if spec.step == attack.name else units
        method = spec.components.get("attack")
        passes = 2 if method is None or SUBSTITUTE in spec.components else _passes(method.parameters)
        return Workload(image_count, float(image_count * passes * _pass(spec)), float(image_count * PER_ROW))

    def report(self, query: Query) -> TrackReport:
        """Return the ranking under attack, agreement by metric and family, further tests, and moved distances."""
        return report(query, self.utility_loss)


def _with_radius(method: Attack, radius: int) -> Attack | None:
    """Return an attack inside the L-infinity ball of `radius` / 255; None if it has no field for such a radius."""
    fields, size = type(method).model_fields, radius / 255
    name = next((name for name in ("radius", "eps") if name in fields), None)
    if name is None or method.info.norm != "linf":
        return None
    step_size = {"alpha": size / STEPS} if "alpha" in fields else {}
    return method.with_parameters(**{name: size}, **step_size)


def _passes(parameters: Mapping[str, Any]) -> float:
    """Return the cost of an attack with these parameters, in forward passes of the metric."""
    steps = next((int(parameters[name]) for name in ("iterations", "steps", "queries") if name in parameters), 1)
    return steps if "queries" in parameters else GRADIENT * steps


def _pass(spec: TaskSpec) -> float:
    """Return the operations of a metric's network for one patch of 64 px; other distances have none."""
    metric = spec.components["metric"]
    return PASS.get(str(metric.parameters.get("net", metric.id)), 0.0)


@hookimpl
def components() -> list[Track]:
    return [PerceptualTrack()]
