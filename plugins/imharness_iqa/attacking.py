"""The tasks of attacks on metrics: once for all defenses, and once more through each of them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from imharness.data import ImageDataset
from imharness.images import BaseAttack, FittedAttack, FullReferenceMetric, NoReferenceMetric, Purification
from imharness.tracks import Component, Planned, Planner
from imharness_iqa.attacks.recorded import Recorded
from imharness_iqa.calibrating import calibrate
from imharness_iqa.calibration import Preset, at
from imharness_iqa.datasets.attacked_originals import AttackedOriginals
from imharness_iqa.disjoint import training_split
from imharness_iqa.steps import (
    CALIBRATED,
    STAND_IN,
    attack,
    attack_compared,
    evaluate,
    evaluate_compared,
    fit,
    gallery,
    transfer,
    transfer_metrics,
)
from imharness_iqa.tables import BASELINE

ALONE, AGAINST = (attack, evaluate), (attack_compared, evaluate_compared)
"""The steps of attacked images: on metrics of single images, and on metrics that compare with a reference."""


class AttackOptions(Protocol):
    """The options of the track that the planning of attacks reads; see `IqaTrack`."""

    adaptive: tuple[str, ...]
    adaptive_defenses: tuple[str, ...]
    transfer: tuple[str, ...]
    calibration_dataset: str
    fit_dataset: str
    fit_images: int
    shown_images: int
    precision: str

    def draws(self, defense: Purification) -> int: ...


class PlannedAttack:
    """The tasks of one attack at one strength, on one metric.

    Args:
        track: the track's options on attacks.
        condition: plans tasks with the roles dataset and metric.
        attack: the attack.
        metric: the metric that it attacks.
        strength: the name of its strength.
        presets: calibrated strengths, by the ids of an attack and a metric.
        distances: the measures of the change of an image, by name.
        tested: the data sets of the run; images that an attack is trained on must not share photographs with them.
        cleaned: label of a defense -> the task of the step `purify`.
    """

    def __init__(
        self,
        track: AttackOptions,
        condition: Planner,
        attack: BaseAttack,
        metric: NoReferenceMetric | FullReferenceMetric,
        strength: str,
        presets: Mapping[tuple[str, str], Preset],
        distances: Mapping[str, Component],
        tested: Sequence[ImageDataset],
        cleaned: Mapping[str, Planned],
    ) -> None:
        self.track, self.attack, self.measures, self.tested = track, attack, {"distance": distances}, tested
        self.cleaned, compares = cleaned, isinstance(metric, FullReferenceMetric)
        self.steps = AGAINST if compares else ALONE
        preset = presets.get((attack.info.id, metric.info.id))
        self.strength_known = (
            isinstance(attack, Recorded)
            or not track.calibration_dataset
            or (preset is not None and strength in preset.strengths)
        )
        on_metric = attack.with_parameters(metric=metric.label) if isinstance(attack, Recorded) else attack
        tuned_attack = at(on_metric, metric.info.id, strength, presets) if self.strength_known else attack
        self.condition = condition.within(attack=tuned_attack)
        self.names = {"method": attack.label, "strength": strength}

    def plan(self, defenses: Sequence[Purification], present: Sequence[Purification]) -> Planned:
        """Plan the attacks; return the task of the images that are attacked without a defense, once for all defenses.

        These images are scored behind each of `defenses`. An adaptive attack is made again through each defense.
        `present`: the defenses that are on this machine; the step `transfer` scores images that were attacked through
        one of them behind all of them.
        """
        shared, through = self._images(), {}
        for defense in defenses:
            self._score(shared, adaptive=False, defense=defense)
            if self._goes_through(defense):
                samples = self.track.draws(defense) if self.attack.info.access == "white_box" else 1
                through[defense.label] = self._images(samples, defense=defense, **self._stand_in(defense))
                self._score(through[defense.label], adaptive=True, defense=defense)
        if named(self.attack, self.track.transfer):
            numbered_defenses = {str(i): defense for i, defense in enumerate(present)}
            for source in present:
                if source.label in through:
                    needs = {"attacked": through[source.label]}
                    measures = {"shown": numbered_defenses}
                    self.condition.task(
                        transfer, {"source": source}, options=self.names, measures=measures, needs=needs
                    )
        return shared

    def plan_around(self, around: Sequence[Mapping[str, Component]], shared: Planned) -> None:
        """Plan the scores by defended metrics: those that a training defense trained, or whose scores a control maps.

        Images are attacked without knowledge of the defense (`shared`), and with it. `around`: the roles of each such
        defense, which leaves images as they are.
        """
        for roles in around:
            self._score(shared, adaptive=False, **roles)
            if _may_know(self.attack, self.track.adaptive):
                self._score(self._images(**roles), adaptive=True, **roles)

    def show_to(self, metrics: Sequence[NoReferenceMetric], attacked: Planned) -> None:
        """Plan the scores of images that were attacked for all defenses, by other metrics."""
        if metrics and named(self.attack, self.track.transfer):
            judges = {"judges": {str(i): metric for i, metric in enumerate(metrics)}}
            self.condition.task(transfer_metrics, options=self.names, measures=judges, needs={"attacked": attacked})

    def show(self, attacked: Planned, defenses: Sequence[Purification]) -> None:
        """Plan the images of the gallery."""
        options = {"images": self.track.shown_images, **self.names}
        for defense in defenses:
            self.condition.task(gallery, {"defense": defense}, options=options, needs={"attacked": attacked})

    def _goes_through(self, defense: Purification) -> bool:
        wanted = _may_know(self.attack, self.track.adaptive) and named(defense, self.track.adaptive_defenses)
        return wanted and defense.info.id != BASELINE

    def _stand_in(self, defense: Purification) -> dict[str, Component]:
        return stand_in(self.condition, defense) if self.attack.info.access == "white_box" else {}

    def _images(self, samples: int = 1, **through: Component) -> Planned:
        """Plan the attack on the metric; `through`: the roles of a defense that it knows, if any."""
        options = self._options(samples, through)
        needs = self._fitted(options, through)
        if not self.strength_known:
            needs[CALIBRATED] = self._calibrated()
            options[CALIBRATED] = True
        options |= self.names
        return self.condition.task(self.steps[0], through, options=options, measures=self.measures, needs=needs)

    def _fitted(self, options: Mapping[str, str | int | bool], through: Mapping[str, Component]) -> dict[str, Planned]:
        """Plan the training of an attack that has to be trained."""
        if not isinstance(self.attack, FittedAttack):
            return {}
        roles = {"dataset": self.condition.component("dataset", self.track.fit_dataset)}
        fitting, measures = {**options, "fit_images": self.track.fit_images}, {"tested": self._tested(roles["dataset"])}
        roles |= {"attack": self.attack.unscaled(), **through}
        return {"fitted": self.condition.task(fit, roles, options=fitting, measures=measures)}

    def _calibrated(self) -> Planned:
        """Plan the calibration: one task finds all strengths of the attack on the metric, for all data sets."""
        options = self._options(1, {})
        training_set = training_split(self.condition.component("dataset", self.track.calibration_dataset))
        measured = {name: self.measures["distance"][name] for name in ("linf", self.attack.info.distortion)}
        needs, measures = self._fitted(options, {}), {"distance": measured, "tested": self._tested(training_set)}
        return self.condition.task(
            calibrate, {"dataset": training_set}, options=options, measures=measures, needs=needs
        )

    def _tested(self, training_set: Component) -> dict[str, Component]:
        """Return the tested data sets of the kind of a training set, by role: they may share photographs with it."""
        alike = [dataset for dataset in self.tested if dataset.info.id == training_set.info.id]
        return {str(number): dataset for number, dataset in enumerate(alike)}

    def _options(self, samples: int, through: Mapping[str, Component]) -> dict[str, str | int | bool]:
        options: dict[str, str | int | bool] = {"adaptive": bool(through), "samples": samples}
        return options if self.track.precision == "strict" else {**options, "precision": self.track.precision}

    def _score(self, attacked: Planned, *, adaptive: bool, defense: Component, **trained: Component) -> None:
        options, needs = {"adaptive": adaptive, **self.names}, {"attacked": attacked}
        if defense.label in self.cleaned:
            needs["purified"] = self.cleaned[defense.label]
        roles = {"defense": defense, **trained}
        self.condition.task(self.steps[1], roles, options=options, measures=self.measures, needs=needs)


def stand_in(planner: Planner, defense: Purification) -> dict[str, Component]:
    """Return the purification whose gradient white-box attacks use in place of the defense's, by role, if any.

    It gets the values of the fields that it shares with the defense, such as the quality of JPEG.
    """
    if defense.info.differentiable or not defense.info.stand_in:
        return {}
    component = planner.component("defense", defense.info.stand_in)
    shared = {name: value for name, value in defense.model_dump().items() if name in type(component).model_fields}
    return {STAND_IN: component.with_parameters(**shared)}


def strengths_of(
    attack: BaseAttack, dataset: ImageDataset, metric: NoReferenceMetric | FullReferenceMetric, strengths: Sequence[str]
) -> Sequence[str]:
    """Return the strengths to plan: `strengths`, or those of images that exist already for the data set and metric."""
    if not isinstance(attack, Recorded):
        return strengths
    if not isinstance(dataset, AttackedOriginals) or dataset.path != attack.path or not attack.is_here():
        return ()
    return attack.listed().strengths(metric.label, attack.method, dataset.part)


def _may_know(attack: BaseAttack, adaptive: Sequence[str]) -> bool:
    """Return whether an attack is also made with knowledge of defenses; images that exist already are not."""
    return named(attack, adaptive) and not isinstance(attack, Recorded)


def named(component: Component, names: Sequence[str]) -> bool:
    """Return whether `names` select a component by id or label; ``*`` selects all, ``!name`` excludes one."""
    identifiers = {component.info.id, component.label}
    return bool(({"*"} | identifiers) & set(names)) and not {f"!{name}" for name in identifiers} & set(names)
