"""Track 1: defenses against attacks on image-quality metrics, of single images and of images with their reference."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from imharness.data import ImageDataset
from imharness.images import (
    Attack,
    BaseAttack,
    Certification,
    FullReferenceMetric,
    Info,
    NoReferenceMetric,
    Purification,
    hookimpl,
)
from imharness.leaderboard import own_among
from imharness.tracks import (
    Component,
    Planner,
    Query,
    Selection,
    TaskSpec,
    Track,
    TrackReport,
    Workload,
    check_names,
)
from imharness.training import TrainableMetric, TrainingDefense
from imharness_iqa.attacking import PlannedAttack, named, stand_in, strengths_of
from imharness_iqa.audit import IDENTITY, SEARCH, audit, unaware
from imharness_iqa.calibrating import calibrate
from imharness_iqa.calibration import located, published, read_presets
from imharness_iqa.certifying import COMPARED, certify, inside, plan_certificates, plan_inside, smooth
from imharness_iqa.evidence import evidence
from imharness_iqa.grading import Grading, graded
from imharness_iqa.rescaling import Rescaling
from imharness_iqa.steps import (
    TUNED,
    attack,
    attack_compared,
    clean,
    defended,
    evaluate,
    evaluate_compared,
    fit,
    gallery,
    purify,
    transfer,
    transfer_metrics,
)
from imharness_iqa.tables import BASELINE, report
from imharness_iqa.tables.choice import BOTH_HALVES
from imharness_iqa.workload import workload_of

DISTANCES = {
    "psnr": "harness/psnr",
    "ssim": "harness/ssim-uniform7",
    "mse": "harness/mse",
    "mae": "harness/mae",
    "linf": "harness/linf",
}
AUDITING = {"attack": "harness/apgd[radius=0.0314,steps=10]", SEARCH: "harness/square[eps=0.0314,queries=100]"}
"""The attacks that audit gradients, by role; both change a value by at most 8/255."""
NAMING = {
    "adaptive": "attack",
    "adaptive_defenses": "defense",
    "trained": "metric",
    "transfer": "attack",
    "certified": "attack",
    "compared": "attack",
    "samples_of": "defense",
    "shown": "attack",
}
"""Option of the track that names components -> the kind of component."""


class IqaTrack(Track):
    """Image-quality metrics under attack: which defense keeps images in their order of quality."""

    info = Info(id="harness/iqa", version="2", paper="gushchin2025")
    title = "Image-quality metrics under attack"
    question = "Which defense keeps the order of image quality under attack?"
    measures = "How well a defense keeps images in their order of quality when an attack moves the score of one."
    steps = (
        clean,
        purify,
        defended,
        graded,
        fit,
        calibrate,
        attack,
        evaluate,
        transfer,
        transfer_metrics,
        unaware,
        audit,
        smooth,
        certify,
        inside,
        gallery,
        attack_compared,
        evaluate_compared,
        *COMPARED,
        evidence,
    )
    evidence_steps = (evaluate.name, evidence.name)
    own_objects = {"defense": Purification, "metric": NoReferenceMetric, "attack": Attack}
    secondary_measures = {
        "metric": ("harness/embedded-cnn", "harness/embedded-residual", "harness/embedded-transformer"),
    }
    folder_dataset = "harness/folder"
    season_datasets = {"people": "harness/folder", "ladder": "harness/folder-ladder"}
    accepts_unlabelled = True

    fidelity: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Mean SSIM of D(x) to x, geometry undone, that a defense must keep to win; an image counts "
        "up to 1.2 times that.",
    )
    variants_from: int = Field(
        default=BOTH_HALVES,
        ge=BOTH_HALVES,
        description="Photographs from which on the best variant of a defense is chosen on half of them, and all "
        "entries are reported on the other half; with fewer, variants have default values, and all are reported on.",
    )
    strengths: tuple[str, ...] = Field(default=("weak", "medium", "strong"), description="Strengths of each attack.")
    adaptive: tuple[str, ...] = Field(
        default=("*",),
        description="Attacks that are also made with knowledge of each defense; * means all, !id not this one.",
    )
    adaptive_defenses: tuple[str, ...] = Field(
        default=("*",), description="Defenses that attacks are made with knowledge of; * means all, !id not this one."
    )
    trained: tuple[str, ...] = Field(
        default=("*",),
        description="Metrics to which training defenses are applied; * means all trainable ones, !id not this one.",
    )
    transfer: tuple[str, ...] = Field(
        default=(),
        description="Attacks whose images made through one defense are also shown to the other defenses, and those "
        "made on one metric to the other metrics; * means all.",
    )
    precision: Literal["strict", "tf32", "fast", "search"] = Field(
        default="strict",
        description="Precision of attacks: float32, factors that a GPU rounds to 10 bits, bfloat16 gradients, or "
        "bfloat16 black-box scores too. What is reported is float32.",
    )
    presets: str = Field(
        default="",
        description='File of `harness iqa calibrate`, or "embedded"; it takes precedence over the published presets.',
    )
    calibration_dataset: str = Field(
        default="",
        description="Data set on which strengths without a preset are measured before the run: its split "
        '"train", if it has one, without the tested photographs. Empty: attacks have the strengths that they declare.',
    )
    black_box_per_cluster: int = Field(
        default=0,
        ge=0,
        description="Black-box attacks get a subset with this many images of each cluster; 0: all images.",
    )
    certified_images: int = Field(
        default=10, ge=1, description="Number of images that certified defenses see, equally many of each photograph."
    )
    certified: tuple[str, ...] = Field(
        default=("*",), description="Attacks whose images certified defenses see; * means all, !id not this one."
    )
    compared: tuple[str, ...] = Field(
        default=("*",),
        description="Attacks that are made on full-reference metrics; * means all, !id not this one.",
    )
    samples: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Draws of a random defense over which a gradient is averaged; a black-box query is one draw.",
    )
    samples_of: Mapping[str, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default={}, description="Random defense, by id or label -> draws instead of `samples`."
    )
    audited: int = Field(
        default=0, ge=0, description="Number of images on which the gradients of each defense are audited; 0: no audit."
    )
    shown: tuple[str, ...] = Field(
        default=("harness/ifgsm",),
        description="Attacks on the first of the harness's own metrics whose images the gallery shows; * means all.",
    )
    shown_images: int = Field(default=2, ge=1, le=50, description="Number of images in the gallery.")
    fit_dataset: str = Field(
        default="harness/severity-ladder[per_photograph=12,split=train]",
        description="Data set on which universal attacks are trained, without the images on which they are tested.",
    )
    fit_images: int = Field(default=400, ge=1, description="Number of images on which universal attacks are trained.")

    def plan(self, planner: Planner, selection: Selection) -> None:
        """Plan the attacks on each metric: once for all defenses, and once more through each of them."""
        for option, kind in NAMING.items():
            check_names(planner, option, kind, getattr(self, option))
        distances = {name: planner.component("metric", label) for name, label in DISTANCES.items()}
        tested = selection.of(ImageDataset)
        custom = {(p.attack, p.metric): p for p in read_presets(located(self.presets))} if self.presets else {}
        presets = {**published(), **custom}
        defenses, certifications = selection.of(Purification), selection.of(Certification)
        rescalings, first = selection.of(Rescaling), _first_own(selection.of(NoReferenceMetric))
        if self.audited:
            self._audit(planner, selection)
        for dataset, attacks in self._by_dataset(selection):
            # label of a purification -> the task of its clean images
            cleaned = {
                d.label: planner.task(purify, {"dataset": dataset, "defense": d}, measures={"distance": distances})
                for d in defenses
            }
            grading = Grading.of(planner, dataset, defenses)
            metrics = selection.of(NoReferenceMetric)
            available = [m for m in metrics if planner.within(dataset=dataset, metric=m).task(clean).available]
            for metric in metrics:
                condition = planner.within(dataset=dataset, metric=metric)
                present = [
                    d
                    for d in defenses
                    if condition.task(defended, {"defense": d}, needs={"purified": cleaned[d.label]}).available
                ]
                # the roles of each defense that leaves images as they are: training defenses and maps of scores
                around = self._trained(condition, metric, selection.of(TrainingDefense))
                around += [{"defense": r} for r in rescalings if condition.task(defended, {"defense": r}).available]
                grading.plan(metric, around)
                clean_certificates = plan_certificates(condition, certifications, self.certified_images)
                for attacker in attacks:
                    for strength in strengths_of(attacker, dataset, metric, self.strengths):
                        attacked = PlannedAttack(
                            self, condition, attacker, metric, strength, presets, distances, tested, cleaned
                        )
                        shared = attacked.plan(defenses, present)
                        attacked.show_to([m for m in available if m is not metric], shared)
                        if metric in first and strength == self.strengths[-1] and named(attacker, self.shown):
                            attacked.show(shared, defenses)
                        attacked.plan_around(around, shared)
                        if named(attacker, self.certified):
                            images, names = self.certified_images, attacked.names
                            plan_certificates(attacked.condition, certifications, images, shared, names)
                            plan_inside(attacked.condition, clean_certificates, images, shared, names)
            for full_reference in selection.of(FullReferenceMetric):
                condition = planner.within(dataset=dataset, metric=full_reference)
                plan_certificates(condition, certifications, self.certified_images, steps=COMPARED)
                for attacker in (a for a in attacks if named(a, self.compared)):
                    for strength in strengths_of(attacker, dataset, full_reference, self.strengths):
                        attacked = PlannedAttack(
                            self, condition, attacker, full_reference, strength, presets, distances, tested, cleaned
                        )
                        shared = attacked.plan(defenses, ())
                        attacked.plan_around([{"defense": r} for r in rescalings], shared)
                        if named(attacker, self.certified):
                            images, names = self.certified_images, attacked.names
                            plan_certificates(attacked.condition, certifications, images, shared, names, COMPARED)

    def _audit(self, planner: Planner, selection: Selection) -> None:
        """Plan the audits on one metric: of each purification's gradient, and of the metric after each training."""
        attacks = {name: planner.component("attack", label) for name, label in AUDITING.items()}
        options = {"adaptive": True, "images": self.audited}
        for dataset in selection.of(ImageDataset):
            for metric in _first_own(selection.of(NoReferenceMetric)):
                condition = planner.within(options, dataset=dataset, metric=metric, **attacks)
                needs = {"unaware": condition.task(unaware)}
                for defense in selection.of(Purification):
                    samples = {"samples": self.draws(defense)}
                    roles = {"defense": defense, IDENTITY: planner.component("defense", BASELINE)}
                    condition.task(audit, {**roles, **stand_in(condition, defense)}, options=samples, needs=needs)
                scores = planner.within(dataset=dataset, metric=metric)
                for roles in self._trained(scores, metric, selection.of(TrainingDefense)):
                    condition.task(audit, roles, options={"samples": 1}, needs=needs)

    def draws(self, defense: Purification) -> int:
        """Return the number of draws of a defense over which a gradient is averaged."""
        if not defense.info.random:
            return 1
        return self.samples_of.get(defense.label, self.samples_of.get(defense.info.id, self.samples))

    def _by_dataset(self, selection: Selection) -> Iterator[tuple[ImageDataset, list[BaseAttack]]]:
        """Yield each data set with its attacks; the slow black-box ones may get a smaller subset of it."""
        attacks = selection.of(BaseAttack)
        for dataset in selection.of(ImageDataset):
            if not self.black_box_per_cluster or "per_cluster" not in type(dataset).model_fields:
                yield dataset, attacks
                continue
            subset = dataset.with_parameters(per_cluster=self.black_box_per_cluster)
            yield dataset, [a for a in attacks if a.info.access == "white_box"]
            yield subset, [a for a in attacks if a.info.access == "black_box"]

    def _trained(
        self, condition: Planner, metric: NoReferenceMetric, trainings: Sequence[TrainingDefense]
    ) -> list[dict[str, Component]]:
        """Plan the scores of the metric with the weights of each training.

        Returns the roles of the trainings whose weights are on this machine.
        """
        if not isinstance(metric, TrainableMetric) or not named(metric, self.trained):
            return []
        choices: list[dict[str, Component]] = [{"defense": t, TUNED: metric.trained_by(t.label)} for t in trainings]
        return [roles for roles in choices if condition.task(defended, roles).available]

    def workload(self, spec: TaskSpec, units: int) -> Workload | None:
        """Return the rows and operations of a task on `units` images."""
        return workload_of(spec, units)

    def report(self, query: Query) -> TrackReport:
        """Return the tables of the paper that the finished tasks allow, and their charts."""
        return report(query, self.utility_loss, self.fidelity, self.variants_from)


def _first_own(metrics: Sequence[NoReferenceMetric]) -> list[NoReferenceMetric]:
    """Return, in a list, the metric of audits and of the gallery: the first of the harness's own, or else the first."""
    labels = own_among(metric.label for metric in metrics)
    return [metric for metric in metrics if metric.label == labels[0]]


@hookimpl
def components() -> list[Track]:
    return [IqaTrack()]
