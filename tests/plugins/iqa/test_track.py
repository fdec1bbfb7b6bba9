"""The IQA track: what its profiles plan, options that name components, and shipped metrics beside their cards."""

import functools
import re
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from imharness.cli.planning import outlook
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.data import ImageSet
from imharness.errors import UsageError
from imharness.images import BaseAttack, MetricInfo, NoReferenceMetric, NoReferenceScore
from imharness.papers.published import find_table
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profiles import load_profile
from imharness_iqa.attacks.square import Square
from imharness_iqa.networks import ConvQuality, ResidualQuality, TransformerQuality, card, trained
from imharness_iqa.quality_training import TEST, TRAIN, bounds
from imharness_iqa.track import IqaTrack

CPU = torch.device("cpu")


@functools.cache
def embedded(track: str) -> Graph:
    """Return the tasks of a track in the embedded profile."""
    return plan_track(f"harness/{track}", load_profile("embedded"), installed())


@functools.cache
def images_of(dataset: str) -> ImageSet:
    return installed().one("dataset", dataset).build(CPU)


def test_squares_follow_the_published_schedule() -> None:
    attack = Square()
    sides = [attack.side(q, 100, 100) for q in (1, 11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001)]
    assert sides == [max(1, round((0.05 / 2**k * 10_000) ** 0.5)) for k in range(10)]
    assert Square(queries=100).side(1, 100, 100) == Square().side(100, 100, 100)


@pytest.mark.parametrize(
    ("network", "stem"),
    [
        (ConvQuality, "embedded-cnn"),
        (ResidualQuality, "embedded-residual"),
        (TransformerQuality, "embedded-transformer"),
    ],
)
def test_bounds_and_figures_are_those_of_the_card(network, stem: str) -> None:
    facts, metric = card(stem), installed().one("metric", stem)
    model = trained(network(), stem, CPU)
    assert metric.bounds == (facts["lower"], facts["upper"])
    assert bounds(model, images_of(TRAIN), CPU) == pytest.approx(metric.bounds, abs=2e-3)
    ladder = images_of(TEST)
    from scipy.stats import spearmanr

    with torch.no_grad():
        scores = model(ladder.load(list(range(len(ladder)))))
    assert spearmanr(scores, ladder.columns["mos"]).statistic == pytest.approx(facts["test_srocc"], abs=2e-3)
    assert facts["test_srocc"] >= 0.79


@pytest.mark.parametrize("name", ["embedded", "paper"])
def test_a_profile_weighs_each_of_the_fourteen_published_attacks_once(name: str) -> None:
    only = {"metric": ["harness/cnniqa"], "dataset": ["harness/koniq10k"]} if name == "paper" else {}
    graph = plan_track("harness/iqa", load_profile(name), installed(), only=only)
    addresses = [*(task.address for task in graph.tasks.values()), *graph.missing]
    names = {match[1] for a in addresses if (match := re.match(r"(?:attack|fit) .*attack=harness/([a-z-]+)", a))}
    assert names >= {"reversal", "reversal-square"} if name == "embedded" else "reversal" not in names
    names -= {"reversal", "reversal-square"}
    assert len(names) == 14, sorted(names)
    assert sum("zhang" in attack for attack in names) == 1


def test_every_purification_of_the_embedded_profile_meets_the_same_attacks_that_know_it() -> None:
    tasks = embedded("iqa").tasks.values()
    met: dict[str, set[tuple[str, str]]] = {}
    for spec in (t.spec for t in tasks if t.spec.step == "evaluate" and t.spec.options["adaptive"]):
        if "tuned" not in spec.components:
            settings = spec.components["metric"].label, str(spec.options["method"])
            met.setdefault(spec.components["defense"].label, set()).add(settings)
    purified = {t.spec.components["defense"].label for t in tasks if t.spec.step == "purify"} - {"harness/none"}
    assert set(met) == purified | {"harness/squeeze", "harness/crush"}
    assert len(purified) >= 20
    assert all(conditions == met["harness/flip"] for conditions in met.values())
    audited = {t.spec.components["defense"].label for t in tasks if t.spec.step == "audit"}
    assert audited > purified


def test_images_that_were_attacked_on_one_metric_are_shown_to_all_others() -> None:
    specs = [t.spec for t in embedded("iqa").tasks.values() if t.spec.step == "transfer_metrics"]
    assert {spec.options["method"] for spec in specs} == {"harness/ifgsm"}
    judges = {
        spec.components["metric"].id: {ref.id for role, ref in spec.components.items() if role.startswith("judges.")}
        for spec in specs
    }
    metrics = {f"harness/embedded-{name}" for name in ("cnn", "residual", "transformer")}
    assert judges == {metric: metrics - {metric} for metric in metrics}


class First(NoReferenceMetric):
    """A stranger's metric whose name comes before all others."""

    info = MetricInfo(id="aaa/first", version="1", higher_means="better_quality", bounds=(0.0, 1.0))

    def build(self, device: torch.device) -> NoReferenceScore:
        return lambda images: images.flatten(1).mean(dim=1)


def test_defenses_are_audited_and_shown_by_a_metric_of_the_harness_whoever_joins() -> None:
    registry = installed().joined([Registered(First(), "test", Provenance("test", "1"))])
    graph = plan_track("harness/iqa", load_profile("embedded"), registry, further={"metric": ["aaa/first"]})
    used: dict[str, set[str]] = {}
    for spec in (task.spec for task in graph.tasks.values() if "metric" in task.spec.components):
        used.setdefault(spec.step, set()).add(spec.components["metric"].label)
    assert "aaa/first" in used["evaluate"]
    assert used["audit"] == used["gallery"] == {"harness/embedded-cnn"}


def test_a_gradient_averages_draws_of_a_random_defense_and_a_query_is_one_draw() -> None:
    attacks = ["ifgsm", "reversal-square"]
    only = {"attack": attacks, "metric": ["embedded-cnn"], "defense": ["none", "flip", "random-noise"]}
    tasks = plan_track("harness/iqa", load_profile("embedded"), installed(), only=only).tasks.values()
    specs = [t.spec for t in tasks if t.spec.step == "attack" and "defense" in t.spec.components]
    drawn = {
        (s.components["attack"].id, s.components["defense"].id): s.options["samples"]
        for s in specs
        if "tuned" not in s.components
    }
    assert drawn.pop(("harness/ifgsm", "harness/random-noise")) == 2
    assert set(drawn.values()) == {1}
    assert ("harness/reversal-square", "harness/random-noise") in drawn


def test_a_profile_may_draw_one_defense_more_or_less_often_than_the_others() -> None:
    track = IqaTrack(samples=3, samples_of={"harness/random-noise": 5, "harness/random-noise[sigma=0.05]": 7})
    names = ("random-noise", "random-noise[sigma=0.05]", "rotate", "flip")
    assert [track.draws(installed().one("defense", name)) for name in names] == [5, 7, 3, 1]
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        IqaTrack(samples_of={"harness/random-noise": 0})


def test_a_stand_in_has_the_parameters_of_the_defense() -> None:
    tasks = embedded("iqa").tasks.values()
    specs = [t.spec for t in tasks if t.spec.step == "attack" and "stand_in" in t.spec.components]
    pairs = {tuple(s.components[role].parameters["quality"] for role in ("defense", "stand_in")) for s in specs}
    assert pairs == {(q, q) for q in (10, 30, 50, 70, 90)}


def test_adaptive_attacks_of_the_paper_profile_are_the_eight_that_read_gradients() -> None:
    """Shares of the published tables of wins under adaptive attacks are multiples of 1/48: 8 attacks, 3 strengths and
    2 metrics; the others are multiples of 1/351: 13 attacks, 3 strengths, 9 metrics. DiffPure has 5 steps."""
    for name, total in {"10": 13 * 3 * 9, "15": 13 * 3 * 9, "16": 8 * 3 * 2, "17": 8 * 3 * 2}.items():
        table = find_table(f"iqa/{name}")
        assert len(table.over["attack"]) * len(table.over["metric"]) * 3 == total
        shares = [v.value for row in table.rows for v in row.values if v.value is not None]
        assert all(abs(share - 100 * round(share * total / 100) / total) <= 0.0051 for share in shares)
    only = {"metric": ["harness/linearity"], "dataset": ["harness/nips2017"]}
    graph = plan_track("harness/iqa", load_profile("paper"), installed(), only=only, whole=True)
    aware = [t.spec for t in graph.tasks.values() if t.spec.step == "attack" and t.spec.options["adaptive"]]
    assert len({spec.options["method"] for spec in aware}) == 8
    kinds = {
        ref.info.access
        for ref in graph.components.values()
        if isinstance(ref, BaseAttack) and ref.info.id in {spec.components["attack"].id for spec in aware}
    }
    assert kinds == {"white_box"}
    through = {spec.components["defense"].label for spec in aware}
    assert {label for label in through if "diffpure" in label} == {"harness/diffpure"}
    assert not [t for t in graph.tasks.values() if t.spec.step == "transfer"]
    assert outlook(graph).hours < 700  # of nine metrics on six thousand images: the paper took 25,000 for all


@pytest.mark.parametrize(
    ("track", "option", "by_id", "by_label"),
    [
        (
            "reconstruction",
            "targets",
            {"harness/digit-images": ["harness/untrained"]},
            {"harness/digit-images[size=18]": ["harness/untrained"]},
        ),
        (
            "reconstruction",
            "gradients_only",
            ["harness/invgrad"],
            ["harness/invgrad[steps=300]", "harness/invgrad[steps=300,surviving=False]"],
        ),
        ("membership", "settings", {"harness/digits": {"part": 30}}, {"harness/digits": {"part": 30}}),
        (
            "membership",
            "settings",
            {"harness/digits": {"defenses": {"harness/l2": {"weight": 0.5}}}},
            {"harness/digits": {"defenses": {"harness/l2": {"weight": 0.5}}}},
        ),
    ],
)
def test_an_option_takes_an_id_and_a_label(track: str, option: str, by_id: Any, by_label: Any) -> None:
    profile, name = load_profile("embedded"), f"harness/{track}"
    settings, task_sets = profile.tracks[name], [{*embedded(track).tasks}]
    for value in (by_id, by_label) if by_id != by_label else (by_id,):
        tracks = {**profile.tracks, name: settings.model_copy(update={"options": {**settings.options, option: value}})}
        task_sets.append({*plan_track(name, profile.model_copy(update={"tracks": tracks}), installed()).tasks})
    assert task_sets[0] != task_sets[1] == task_sets[-1]


@pytest.mark.parametrize(
    ("track", "options", "line"),
    [
        ("iqa", {"samples_of": {"harness/difpure": 1}}, "option samples_of: no defense is called 'harness/difpure'"),
        ("iqa", {"adaptive": ("*", "!harness/ifgms")}, "option adaptive: no attack is called 'harness/ifgms'"),
        ("iqa", {"shown": ("ifgsm",)}, "option shown: write 'harness/ifgsm' instead of 'ifgsm'"),
        ("reconstruction", {"narrow": {"harness/cafe": ("harness/lanet",)}}, "option narrow: no model is called"),
        ("reconstruction", {"targets": {"cifar": ()}}, "option targets: no dataset is called 'cifar'"),
        ("membership", {"settings": {"harness/location": {}}}, "option settings: no dataset is called"),
    ],
)
def test_a_name_in_an_option_that_nothing_has_is_refused(track: str, options: dict, line: str) -> None:
    profile, name = load_profile("embedded"), f"harness/{track}"
    settings = profile.tracks[name]
    changed = settings.model_copy(update={"options": {**settings.options, **options}})
    with pytest.raises(UsageError, match=re.escape(line)):
        plan_track(name, profile.model_copy(update={"tracks": {**profile.tracks, name: changed}}), installed())


@pytest.mark.parametrize("profile", ["embedded", "quick"])
def test_the_gate_sees_every_severity_behind_every_defense_and_no_attack_does(profile: str) -> None:
    specs = [task.spec for task in plan_track("harness/iqa", load_profile(profile), installed()).tasks.values()]
    graded = [spec for spec in specs if "graded=True" in spec.components["dataset"].label]
    assert {spec.step for spec in graded} == {"purify", "graded"}
    behind: dict[str, set[tuple[str, str]]] = {"defended": set(), "graded": set()}
    for spec in specs:
        if spec.step in behind:
            behind[spec.step].add((spec.components["metric"].label, spec.components["defense"].label))
    assert behind["graded"] == behind["defended"]
    assert {spec.options["attacked"] for spec in graded if spec.step == "graded"} == {"harness/pictures[size=72]"}
