"""A tiny track whose entries state their truth: how far attacks move each and what it costs.

A study is planned, computed task by task, stored, queried and ranked as any other one. A score is the level that its
entry states, plus noise that entries share and noise of its own; seeds are an option of the track.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from pydantic import Field

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.data import ImageDataset, ImageSet
from imharness.documents.leaderboards import Leaderboard
from imharness.images import DefenseInfo, Info, Purification, Purifier
from imharness.leaderboard import Column, Contest, Value, Wins, Words, contest, share_of
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.ranking.entries import StoreEntries
from imharness.ranking.leaderboard import make_leaderboard
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness.running.context import BuildCache, run_task
from imharness.running.merging import merged_sweep
from imharness.tracks import Planner, Query, Selection, StepContext, StepResult, Track, TrackReport, step

TRACK, PLAIN = "acme/levels", "acme/plain"
ATTACKS = (("fgsm", "fixed"), ("pgd", "fixed"), ("pgd", "adaptive"))
TESTED = 200
"""The number of held-out answers of the step `test`."""
WORDS = Words("holds best", lambda x: f"{x:.1f}", "D", "takes more than {bound} off the {plain} {of} {without}")


class Dots(ImageDataset):
    """`images` black images, `each` of them of one photograph."""

    info = Info(id="acme/dots", version="1")
    images: int = Field(default=12, ge=1)
    each: int = Field(default=1, ge=1, description="Images of a photograph.")

    def build(self, device: torch.device) -> ImageSet:
        names = tuple(f"dot-{k:04d}" for k in range(self.images))
        photographs = np.array([f"p{k // self.each:04d}" for k in range(self.images)])
        stack = torch.zeros(self.images, 3, 8, 8)
        return ImageSet(
            names, ((8, 8),) * self.images, lambda indices: stack[list(indices)], {"photograph": photographs}
        )


class Shield(Purification):
    """Attacks move it as far as its fields say, on average; it loses a share of the right answers."""

    info = DefenseInfo(id="acme/shield", version="1", group="filter", differentiable=True)
    unaware: float = Field(default=20, description="Mean D under attacks that do not know it.")
    aware: float = Field(default=20, description="Mean D under the attack that knows it.")
    lost: float = Field(default=0, ge=0, le=1, description="Share of right answers that it loses.")
    name: str = Field(default="", description="Separates entries of equal levels.")
    missing: float = Field(default=0, ge=0, le=1, description="Share of images, the first ones, without a score.")
    grain: float = Field(default=0, ge=0, description="Scores are rounded to multiples of this; 0 for none.")

    def build(self, device: torch.device) -> Purifier:
        return lambda images, rng: images.clone()


class Constant(Shield):
    """A shield that is a control."""

    info = DefenseInfo(id="acme/constant", version="1", group="broken", differentiable=True, control="a constant")


class Plain(Shield):
    """A shield in the role of no defense."""

    info = DefenseInfo(id=PLAIN, version="1", group="none", differentiable=True, control="undefended")


@step(version="1")
def attack(context: StepContext) -> StepResult:
    """Return how far an attack moves the score of each image, D."""
    defense, images, options = context.component("defense"), context.images(), context.options
    n, seed = len(images.names), int(options["seed"])
    shared = np.random.default_rng([seed, 0]).normal(0, 1, n)
    noise = np.random.default_rng([seed, zlib.crc32(f"{defense.label} {options['attack']}".encode())]).normal(0, 1, n)
    level = defense.aware if options["attacker"] == "adaptive" else defense.unaware
    score = level + shared + noise
    score = np.round(score / defense.grain) * defense.grain if defense.grain else score
    score[: round(defense.missing * n)] = np.nan
    facts = {name: [options[name]] * n for name in ("attack", "attacker")}
    return StepResult(
        rows={"name": list(images.names), "photograph": images.columns["photograph"].tolist(), "d": score, **facts}
    )


@step(version="1")
def test(context: StepContext) -> StepResult:
    """Return which of `TESTED` held-out answers are right: nine of ten without a defense, less what it loses."""
    defense, seed = context.component("defense"), int(context.options["seed"])
    undefended = np.random.default_rng([seed, 1]).random(TESTED) < 0.9
    spared = np.random.default_rng([seed, 2, zlib.crc32(defense.label.encode())]).random(TESTED) >= defense.lost
    return StepResult(
        rows={"answer": [f"a{k:03d}" for k in range(TESTED)], "right": (undefended & spared).astype(float)}
    )


class Levels(Track):
    """Rank shields by the worst attack."""

    info = Info(id=TRACK, version="1")
    title = "Levels"
    measures = "How far attacks move a score."
    steps = (attack, test)
    ranks = ("defense",)
    seed: int = 0

    def plan(self, planner: Planner, selection: Selection) -> None:
        for dataset in selection.of(ImageDataset):
            for defense in selection.of(Shield):
                plan = planner.within({"seed": self.seed}, dataset=dataset, defense=defense)
                plan.task(test)
                for name, attacker in ATTACKS:
                    plan.within({"attack": name, "attacker": attacker}).task(attack)

    def report(self, query: Query) -> TrackReport:
        scores = query.blocks(
            "SELECT defense, dataset, attack, attacker, name, photograph, d FROM attack",
            entry="defense",
            by=["dataset", "attack", "attacker"],
            unit="name",
            about=["photograph"],
            measures=["d"],
        )
        answers_by_defense = query('SELECT defense, answer, "right" FROM test ORDER BY defense, answer')
        answers = {
            label: answers_by_defense["right"][answers_by_defense["defense"] == label] for label in scores.entries
        }
        plain = next(label for label in scores.entries if label.startswith(PLAIN))
        facts = query("SELECT label, control FROM components WHERE kind = 'defense'")
        controls = {label: control for label, control in zip(facts["label"], facts["control"], strict=True) if control}
        return contest(
            Contest(
                scores,
                Column(
                    "d",
                    "D",
                    "Change.",
                    "lower",
                    2,
                    wins=Wins("wins", "Who", "lower D"),
                    cluster="photograph",
                ),
                Column("accuracy", "accuracy", "A.", "higher", value=lambda e: Value(value=answers[e].mean())),
                plain,
                WORDS,
                [share_of("accuracy", plain, 0.05, lambda e: (answers[e], answers[plain]), answers=True)],
                controls=controls,
            ),
            id="ranking",
            title="Ranking",
            caption="",
            entry="defense",
        )


def ran(folder: Path, entries: Sequence[Shield], *, seed: int = 0, images: int = 12, each: int = 1) -> TrackReport:
    """Plan and compute a study of entries, and return its report."""
    graph, cache, records = computed(folder, entries, seed=seed, images=images, each=each)
    marks = [{"kind": "defense", "label": c.label, "control": c.control} for c in entries]
    return graph.track.report(ResultQuery(cache.store, list(records.values()), marks))


def boarded(folder: Path, entries: Sequence[Shield], *, seed: int = 0, images: int = 12, each: int = 1) -> Leaderboard:
    """Plan and compute a study of entries, and return its leaderboard, which is also in the store in the folder."""
    graph, cache, records = computed(folder, entries, seed=seed, images=images, each=each)
    facts = {"profile": "truth", "seed": 0, "limit": None, "command": "harness run"}
    sweep = merged_sweep(cache.store, graph, done=records.keys(), failed={}, **facts)
    cache.store.save_sweep(sweep)
    return make_leaderboard(cache.store, graph.track, sweep, StoreEntries(cache.registry))


def computed(
    folder: Path, entries: Sequence[Shield], *, seed: int, images: int, each: int
) -> tuple[Graph, BuildCache, dict[str, TaskRecord]]:
    """Plan a study and compute its tasks one after the other."""
    track, dots = Levels(), Dots(images=images, each=each)
    registry = installed().joined([Registered(c, "test", Provenance("test", "1")) for c in (track, dots, *entries)])
    select = {"dataset": [dots.label], "defense": [entry.label for entry in entries]}
    settings = TrackProfile(select=select, options={"seed": seed})
    graph = plan_track(TRACK, Profile(name="truth", description="", tracks={TRACK: settings}), registry)
    cache = BuildCache(registry, Store(folder), torch.device("cpu"), 64)
    records = {key: run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()}
    assert [record.failure for record in records.values() if record.failure] == []
    return graph, cache, records
