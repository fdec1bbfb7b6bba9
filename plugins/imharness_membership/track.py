"""Track 4: membership inference against trained models.

For each split of the data set a target and a shadow model are trained on disjoint rows. An evaluator learns on the
shadow model, whose membership is known, and guesses membership in the target's training set. Adaptive adversaries
defend their shadow and reference models as the target is defended; the others train them plainly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from imharness.data import TableDataset
from imharness.membership import (
    Component,
    Info,
    MembershipEvaluator,
    MembershipRelease,
    MembershipTraining,
    Model,
    hookimpl,
)
from imharness.tracks import Planned, Planner, Query, Selection, Track, TrackReport
from imharness_membership.steps import evaluate, references, sensitivity, train
from imharness_membership.tables import report

BASELINE, STOPPED = "harness/plain-training", "harness/early-stopping"


class MembershipTrack(Track):
    """Membership inference: how much a model gives away about its training set."""

    info = Info(id="harness/membership", version="2", paper="song2021")
    title = "Membership inference"
    measures = "How well an adversary can tell which rows a model was trained on, with and without a defense."
    steps = (train, references, sensitivity, evaluate)

    splits: int = Field(default=3, ge=1, description="Repetitions with other rows and another initialisation.")
    part: int = Field(default=0, ge=0, description="Rows of each of six parts of the data; 0: a sixth of it.")
    epochs: int = Field(default=100, ge=1, description="Of undefended training.")
    batch_size: int = Field(default=64, ge=1, description="Rows per training step.")
    learning_rate: float = Field(default=1e-3, gt=0, description="Of the optimiser.")
    optimiser: Literal["adam", "sgd"] = Field(default="adam", description="Of undefended training.")
    references: int = Field(default=16, ge=3, le=1024, description="Reference models of attacks that use them.")
    copies: int = Field(default=8, ge=1, le=1000, description="Noisy copies per row and size of noise, label-only.")
    matched: bool = Field(default=True, description="Compare training defenses with early stopping at their accuracy.")
    sensitivity_rows: int = Field(
        default=0, ge=0, description="Members that the undefended model is trained again without, one at a time."
    )

    def plan(self, planner: Planner, selection: Selection) -> None:
        """Train target, shadow and references per split and defense, then let every evaluator guess."""
        evaluators = selection.of(MembershipEvaluator)
        defenses = [*selection.of(MembershipTraining), *selection.of(MembershipRelease)]
        for dataset in selection.of(TableDataset):
            for model in selection.of(Model):
                for split in range(self.splits):
                    plan = _Plan(self, planner, dataset, model, evaluators, split)
                    for guard in plan.guards(defenses):
                        plan.attacked(guard)
                    if self.sensitivity_rows and split == 0:
                        plan.sensitivity()

    def report(self, query: Query) -> TrackReport:
        """Return the tables of the paper that the finished cells allow."""
        return report(query)


@dataclass(frozen=True)
class _Guard:
    """A defense, and the training defense whose accuracy it is to have."""

    defense: Component
    matched: Component | None = None


class _Plan:
    """The tasks of one model on one split of one data set."""

    def __init__(
        self,
        track: MembershipTrack,
        planner: Planner,
        dataset: TableDataset,
        model: Model,
        evaluators: list[MembershipEvaluator],
        split: int,
    ) -> None:
        self.track, self.planner, self.evaluators = track, planner, evaluators
        self.roles: dict[str, Component] = {"dataset": dataset, "model": model}
        self.baseline = _Guard(planner.component("defense", BASELINE))
        reads = frozenset[str]().union(*(e.reads for e in evaluators))
        self.reads = reads
        self.options: dict[str, int | float | str] = {
            "split": split,
            "part": track.part,
            "epochs": track.epochs,
            "batch_size": track.batch_size,
            "learning_rate": track.learning_rate,
            "optimiser": track.optimiser,
        }
        self.copies = track.copies if "robustness" in reads else 0
        self.gradients = "gradients" in reads

    def guards(self, defenses: list[MembershipTraining | MembershipRelease]) -> Iterator[_Guard]:
        """Yield every defense, and early stopping at the accuracy of every training defense."""
        for defense in defenses:
            yield _Guard(defense)
            trains = isinstance(defense, MembershipTraining) and defense.info.id not in (BASELINE, STOPPED)
            if self.track.matched and trains:
                yield _Guard(self.planner.component("defense", STOPPED), defense)

    def _guarded(self, guard: _Guard) -> dict[str, Component]:
        roles = {**self.roles, "defense": guard.defense}
        if isinstance(guard.defense, MembershipRelease):
            roles["training"] = self.baseline.defense
        return roles if guard.matched is None else {**roles, "matched": guard.matched}

    def _trained(self, guard: _Guard, role: str) -> Planned:
        needs = {"matched": self._trained(_Guard(guard.matched), role)} if guard.matched is not None else {}
        options = {"role": role, "copies": self.copies, "gradients": self.gradients, **self.options}
        return self.planner.task("train", self._guarded(guard), options=options, needs=needs)

    def _references(self, guard: _Guard) -> Planned:
        needs = {"matched": self._trained(_Guard(guard.matched), "shadow")} if guard.matched is not None else {}
        options = {"models": self.track.references, **self.options}
        return self.planner.task("references", self._guarded(guard), options=options, needs=needs)

    def attacked(self, guard: _Guard) -> None:
        """Plan every evaluator's guess, with undefended shadow models and with defended ones."""
        target = self._trained(guard, "target")
        for adaptive in (False, True):
            own = guard if adaptive else self.baseline
            for evaluator in self.evaluators:
                needs = {"target": target, "shadow": self._trained(own, "shadow")}
                if "references" in evaluator.reads:
                    needs["references"] = self._references(own)
                matched = {"matched": guard.matched} if guard.matched is not None else {}
                self.planner.task(
                    "evaluate",
                    {**self.roles, "defense": guard.defense, **matched, "evaluator": evaluator},
                    options={"adaptive": adaptive, "split": int(self.options["split"])},
                    needs=needs,
                )

    def sensitivity(self) -> None:
        """Plan the training of the undefended model without some of its members."""
        options = {"rows": self.track.sensitivity_rows, **self.options}
        self.planner.task("sensitivity", self._guarded(self.baseline), options=options)


@hookimpl
def components() -> list[Track]:
    return [MembershipTrack()]
