"""Track 3: which image distance agrees best with what people see.

Zhang et al., CVPR 2018. Forced choices (section 2.2): of two distorted images, which is nearer to the reference? Where
people judged (BAPPS), agreement is the share of them that made the metric's choice; on the ladder of distortions, whose
order is known, neighbouring severities are compared. Just noticeable differences and opinion scores (TID2013) are
further tests. Attacks of the quality track show how far each distance can be moved.
"""

from pydantic import Field

from imharness.data import ImageDataset
from imharness.images import Attack, FullReferenceMetric, Info, hookimpl
from imharness.tracks import Planner, Query, Selection, TaskSpec, Track, TrackReport, Work
from imharness_perceptual.steps import attack, distance
from imharness_perceptual.tables import report

PASS = {"alex": 0.08e9, "vgg": 2.5e9, "squeeze": 0.03e9, "harness/dists": 2.5e9}
"""The operations of one pass over one patch of 64 px, counted by torch's `FlopCounterMode`."""
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
    measures = "Whether a distance between images grows with the severity of a distortion (severity order, not human)."
    steps = (distance, attack)
    ranks = ("metric",)
    own_objects = {"metric": FullReferenceMetric}
    folder_dataset = "harness/folder-ladder"

    radii: tuple[int, ...] = Field(
        default=(1, 2, 4), description="Radii of the L-infinity balls of attacks on distances, in units of 1/255."
    )

    attacked_images: int = Field(
        default=0, ge=0, description="Number of images of a set to attack, spread over its photographs; 0: all."
    )

    def plan(self, planner: Planner, selection: Selection) -> None:
        """Plan a task per data set and metric, and one per ball of each attack that moves inside a ball."""
        balls = [
            (radius, method.with_parameters(radius=radius / 255, alpha=radius / 255 / STEPS))
            for method in selection.of(Attack)
            if {"radius", "alpha"} <= set(type(method).model_fields)
            for radius in self.radii
        ]
        for dataset in selection.of(ImageDataset):
            for metric in selection.of(FullReferenceMetric):
                own = planner.within(dataset=dataset, metric=metric)
                own.task(distance)
                for radius, ball in balls if metric.info.differentiable else ():
                    own.task(attack, {"attack": ball}, options={"radius": radius, "images": self.attacked_images})

    def work(self, spec: TaskSpec, units: int) -> Work | None:
        """Return the rows and operations of a task on `units` images; a gradient counts as three passes."""
        if not units:
            return None
        asked = min(self.attacked_images or units, units) if spec.step == attack.name else units
        changed_by = spec.components.get("attack")
        passes = 2 if changed_by is None else 3 * int(changed_by.parameters["iterations"])
        return Work(asked, float(asked * passes * _pass(spec)))

    def report(self, query: Query) -> TrackReport:
        """Return the ranking under attack, agreement by metric and family, further tests, and moved distances."""
        return report(query, self.utility_loss)


def _pass(spec: TaskSpec) -> float:
    """Return the operations of a metric's network for one patch of 64 px; other distances have none."""
    metric = spec.components["metric"]
    return PASS.get(str(metric.parameters.get("net", metric.id)), 0.0)


@hookimpl
def components() -> list[Track]:
    return [PerceptualTrack()]
