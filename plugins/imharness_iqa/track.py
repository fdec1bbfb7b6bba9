"""Track 1: defenses against attacks on no-reference image-quality metrics."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from imharness.data import ImageDataset, TrainableMetric, TrainingDefense
from imharness.images import (
    BaseAttack,
    Certification,
    Component,
    FittedAttack,
    Info,
    NoReferenceMetric,
    Purification,
    hookimpl,
)
from imharness.tracks import Planned, Planner, Query, Selection, Track, TrackReport
from imharness_iqa.calibration import at, published, read_presets
from imharness_iqa.steps import (
    CLOSENESS,
    SHOWN,
    TUNED,
    attack,
    certify,
    clean,
    defended,
    evaluate,
    fit,
    gallery,
    purify,
    smooth,
    transfer,
)
from imharness_iqa.tables import BASELINE, report

DISTANCES = {
    "psnr": "harness/psnr",
    "ssim": "harness/ssim-uniform7",
    "mse": "harness/mse",
    "mae": "harness/mae",
    "linf": "harness/linf",
}


class IqaTrack(Track):
    """Image-quality metrics under attack: which defense keeps the score where it was."""

    info = Info(
        id="harness/iqa",
        version="1",
        paper="gushchin2025",
    )
    title = "Image-quality metrics under attack"
    measures = "How well a defense keeps an image-quality score where it was when an attack tries to raise it."
    steps = (clean, purify, defended, fit, attack, evaluate, transfer, smooth, certify, gallery)

    strengths: tuple[str, ...] = Field(default=("weak", "medium", "strong"), description="Of each attack.")
    adaptive: tuple[str, ...] = Field(
        default=("*",), description="Attacks that also go through each differentiable defense; * all, !id not this one."
    )
    adaptive_defenses: tuple[str, ...] = Field(
        default=("*",),
        description="Defenses that adaptive attacks go through; * all differentiable ones, !id not this.",
    )
    trained: tuple[str, ...] = Field(
        default=("*",), description="Metrics that training defenses are tried on; * all trainable ones, !id not this."
    )
    transfer: tuple[str, ...] = Field(
        default=(), description="Attacks whose adaptive images are also shown to every other defense; * means all."
    )
    precision: Literal["strict", "fast", "search"] = Field(
        default="strict", description="Of attacks: float32, bfloat16 gradients, or bfloat16 black-box scores too."
    )
    presets: str = Field(default="", description="File of `harness iqa calibrate`; it goes before the published ones.")
    black_box_per_cluster: int = Field(
        default=0, ge=0, description="Black-box attacks get a clustered subset with so many images each; 0: all images."
    )
    certified_images: int = Field(default=10, ge=1, description="First images that certified defenses see.")
    certified: tuple[str, ...] = Field(
        default=("*",), description="Attacks that are shown to certified defenses; * all, !id not this one."
    )
    samples: int = Field(default=10, ge=1, le=1000, description="Defended copies averaged when a defense is random.")
    shown: tuple[str, ...] = Field(
        default=("harness/ifgsm",), description="Attacks whose images the gallery shows, of the first metric; * all."
    )
    shown_images: int = Field(default=2, ge=1, le=50, description="Images of the gallery.")
    fit_dataset: str = Field(
        default="harness/severity-ladder[per_photograph=12,split=train]", description="Universal attacks train on it."
    )
    fit_images: int = Field(default=400, ge=1, description="How many of its images they train on.")

    def plan(self, planner: Planner, selection: Selection) -> None:
        """Attack each metric once for all defenses, and once more through each differentiable one."""
        distances = {CLOSENESS + name: planner.component("metric", label) for name, label in DISTANCES.items()}
        defenses = selection.of(Purification)
        for dataset, attacks in self._by_dataset(selection):
            for defense in defenses:
                planner.task("purify", {"dataset": dataset, "defense": defense, **distances})
            metrics = selection.of(NoReferenceMetric)
            first = metrics[0] if metrics else None
            for metric in metrics:
                plan = _Plan(self, planner, {"dataset": dataset, "metric": metric}, distances)
                plan.scores(defenses)
                trainings = plan.trained(selection.of(TrainingDefense))
                plan.certified(None, "", selection.of(Certification), None)
                for attacker in attacks:
                    for strength in self.strengths:
                        shared = plan.attacked(attacker, strength, defenses)
                        if metric is first and strength == self.strengths[-1] and _named(attacker, self.shown):
                            plan.shown(attacker, strength, shared, defenses)
                        plan.attacked_weights(attacker, strength, trainings, shared)
                        if _named(attacker, self.certified):
                            plan.certified(attacker, strength, selection.of(Certification), shared)

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

    def report(self, query: Query) -> TrackReport:
        """Return the tables of the paper that the finished cells allow, and what is drawn of them."""
        return report(query)


class _Plan:
    """The tasks of one metric on one data set."""

    def __init__(
        self, track: IqaTrack, planner: Planner, roles: Mapping[str, Component], distances: Mapping[str, Component]
    ) -> None:
        self.track, self.planner, self.roles, self.distances = track, planner, roles, distances
        own = {(p.attack, p.metric): p for p in read_presets(Path(track.presets))} if track.presets else {}
        self.presets = {**published(), **own}

    def scores(self, defenses: Sequence[Purification]) -> None:
        """Plan f(x) and f(D(x))."""
        self.planner.task("clean", self.roles)
        for defense in defenses:
            self.planner.task("defended", {**self.roles, "defense": defense})

    def trained(self, trainings: Sequence[TrainingDefense]) -> list[TrainingDefense]:
        """Plan the scores of the metric with the weights of each training; return those whose weights are here."""
        metric = self.roles["metric"]
        if not isinstance(metric, TrainableMetric) or not _named(metric, self.track.trained):
            return []
        return [t for t in trainings if self.planner.task("defended", {**self.roles, **self._tuned(t)}).available]

    def _tuned(self, training: TrainingDefense) -> dict[str, Component]:
        metric = self.roles["metric"]
        assert isinstance(metric, TrainableMetric)
        return {"defense": training, TUNED: metric.trained_by(training.label)}

    def attacked_weights(
        self, attack: BaseAttack, strength: str, trainings: Sequence[TrainingDefense], shared: Planned
    ) -> None:
        """Plan what fixed attacks do to each trained metric, and those that attack its own weights."""
        for training in trainings:
            tuned = self._tuned(training)
            self._evaluate(attack, strength, tuned, shared, adaptive=False)
            if _named(attack, self.track.adaptive):
                own = self._attack(attack, strength, tuned, samples=1)
                self._evaluate(attack, strength, tuned, own, adaptive=True)

    def certified(
        self,
        attack: BaseAttack | None,
        strength: str,
        certifications: Sequence[Certification],
        attacked: Planned | None,
    ) -> None:
        """Plan certificates of clean images (no attack) or of attacked ones; those that share a noisy pass share it."""
        options: dict[str, str | int | bool] = {"attacked": attack is not None, "images": self.track.certified_images}
        roles = dict(self.roles)
        if attack is not None:
            roles["attack"] = self._at(attack, strength)
            options |= _names(attack, strength)
        needs = {"attacked": attacked} if attacked is not None else {}
        for certification in certifications:
            source = {**roles, "defense": certification.noisy()}
            noisy = self.planner.task("smooth", source, options=options, needs=needs)
            self.planner.task("certify", {**roles, "defense": certification}, options=options, needs={"noisy": noisy})

    def attacked(self, attack: BaseAttack, strength: str, defenses: Sequence[Purification]) -> Planned:
        """Plan the images attacked once for all defenses, which are returned, and through each differentiable one."""
        shared = self._attack(attack, strength, {}, samples=1)
        through = {}
        for defense in defenses:
            self._evaluate(attack, strength, {"defense": defense}, shared, adaptive=False)
            adaptive = _named(attack, self.track.adaptive) and _named(defense, self.track.adaptive_defenses)
            if adaptive and defense.info.differentiable and defense.info.id != BASELINE:
                samples = self.track.samples if defense.info.random else 1
                through[defense.label] = self._attack(attack, strength, {"defense": defense}, samples=samples)
                self._evaluate(attack, strength, {"defense": defense}, through[defense.label], adaptive=True)
        if _named(attack, self.track.transfer):
            self._transfer(attack, strength, defenses, through)
        return shared

    def shown(self, attack: BaseAttack, strength: str, attacked: Planned, defenses: Sequence[Purification]) -> None:
        """Plan the images of the gallery."""
        options = {"images": self.track.shown_images, **_names(attack, strength)}
        for defense in defenses:
            roles = {**self.roles, "attack": self._at(attack, strength), "defense": defense}
            self.planner.task("gallery", roles, options=options, needs={"attacked": attacked})

    def _transfer(
        self,
        attack: BaseAttack,
        strength: str,
        defenses: Sequence[Purification],
        through: Mapping[str, Planned],
    ) -> None:
        """Plan one task per source: it shows the images to every defense that is on this machine."""
        present = [d for d in defenses if self.planner.task("defended", {**self.roles, "defense": d}).available]
        shown = {f"{SHOWN}{i}": defense for i, defense in enumerate(present)}
        for source in present:
            if source.label in through:
                roles = {**self.roles, "attack": self._at(attack, strength), "source": source, **shown}
                needs = {"attacked": through[source.label]}
                self.planner.task("transfer", roles, options=_names(attack, strength), needs=needs)

    def _at(self, attack: BaseAttack, strength: str) -> BaseAttack:
        return at(attack, self.roles["metric"].info.id, strength, self.presets)

    def _attack(self, attack: BaseAttack, strength: str, through: Mapping[str, Component], *, samples: int) -> Planned:
        """Plan an attack on the metric, or through the defense that `through` holds."""
        options: dict[str, str | int | bool] = {"adaptive": bool(through), "samples": samples}
        if self.track.precision != "strict":
            options["precision"] = self.track.precision
        needs = {}
        if isinstance(attack, FittedAttack):
            dataset = self.planner.component("dataset", self.track.fit_dataset)
            roles = {**self.roles, "dataset": dataset, "attack": attack.unscaled(), **through}
            needs["fitted"] = self.planner.task("fit", roles, options={**options, "fit_images": self.track.fit_images})
        roles = {**self.roles, "attack": self._at(attack, strength), **through, **self.distances}
        return self.planner.task("attack", roles, options={**options, **_names(attack, strength)}, needs=needs)

    def _evaluate(
        self,
        attack: BaseAttack,
        strength: str,
        defense: Mapping[str, Component],
        attacked: Planned,
        *,
        adaptive: bool,
    ) -> None:
        roles = {**self.roles, "attack": self._at(attack, strength), **defense, **self.distances}
        options = {"adaptive": adaptive, **_names(attack, strength)}
        self.planner.task("evaluate", roles, options=options, needs={"attacked": attacked})


def _named(component: Component, names: Sequence[str]) -> bool:
    own = {component.info.id, component.label}
    return bool(({"*"} | own) & set(names)) and not {f"!{name}" for name in own} & set(names)


def _names(attack: BaseAttack, strength: str) -> dict[str, str]:
    return {"method": attack.label, "strength": strength}


@hookimpl
def components() -> list[Track]:
    return [IqaTrack()]
