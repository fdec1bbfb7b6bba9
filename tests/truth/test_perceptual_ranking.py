"""Which metric wins, in studies where it is known: one knows the label, one guesses, one is changed by attacks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.recomputed import of_report
from tests.truth.test_perceptual import Simulated, choices, preferring

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.data import ImageDataset, ImageSet
from imharness.images import FullReferenceMetric, FullReferenceScore, Images, Info, MetricInfo, Scores
from imharness.leaderboard import Value
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness.tracks import TrackReport
from imharness_perceptual.tables import report

TRACK = "harness/perceptual"
SIZES = {"blur": 60, "noise": 30}
KNOWS, GUESSES, TURNS, TWIN = "harness/knows", "harness/guesses", "harness/turns", "harness/twin"


def study(
    right: Mapping[str, np.ndarray],
    attacked: Mapping[str, np.ndarray],
    controls: Mapping[str, str],
    judges: int = 5,
    lent: Mapping[str, np.ndarray] | None = None,
) -> TrackReport:
    """Return the report on choices of 15 photographs in two families of 60 and 30.

    Args:
        right: metric -> whether it chooses as people do, for each of the 90 choices.
        attacked: the same under an attack along the metric's own gradient.
        controls: metric -> why it is a control.
        judges: the number of people for each choice, of whom four of five find alternative 0 nearer; 0 for a proxy.
        lent: the same as `attacked`, under an attack along the gradient of another distance.
    """
    share = np.full(90, (judges // 5) / judges if judges else 0.0)
    proxy = "" if judges else "the order of strengths"
    distance: list[dict[str, Any]] = []
    hits: list[dict[str, Any]] = []
    start = 0
    for family, n in SIZES.items():
        window = slice(start, start + n)
        start += n
        sources = np.array([f"p{i % 15:02d}" for i in range(n)])
        pairs = {metric: preferring(~correct[window]) for metric, correct in right.items()}
        rows = choices(pairs, share[window], family=family, sources=sources, judges=judges, proxy=proxy)
        distance += rows
        for row in rows:
            for along, answers in (("own", attacked), ("x/other", lent or {})):
                if row["choice"] == 0 and row["metric"] in answers:
                    i = int(row["name"].split("/")[1]) + window.start
                    after = row["distance"] if answers[row["metric"]][i] else 9.0
                    hits.append(_hit(row, after, along))
    marks = [{"kind": "metric", "label": label, "control": why} for label, why in controls.items()]
    marks.append({"kind": "metric", "label": "harness/none", "control": ""})
    steps = {"distance": distance, "components": marks, **({"attack": hits} if hits else {})}
    return report(Simulated(**steps))


def _hit(row: Mapping[str, Any], after: float, along: str = "own") -> dict[str, Any]:
    """Return the row of an attack that changes the distance of `row` to `after`."""
    about = {name: row[name] for name in ("metric", "dataset", "name", "reference", "photograph", "family", "severity")}
    return {
        **about,
        "attack": "x/ball[radius=0.0156863,alpha=0.1,steps=4]",
        "radius": 4,
        "along": along,
        "before": row["distance"],
        "after": after,
    }


def guesses(seed: int, n: int = 90) -> np.ndarray:
    return np.random.default_rng(seed).random(n) < 0.5


def tasks(result: TrackReport) -> dict[str, Mapping[str, Value]]:
    """Return the values of each row of the ranking, by label."""
    return {row.label: row.values for row in result.tables[0].rows}


KNOWN = np.ones(90, dtype=bool)


def test_what_an_attack_turns_does_not_win_and_what_knows_the_label_does() -> None:
    """Without attacks `TURNS` is as good as `KNOWS`; an attack reverses every third of its choices."""
    turned = np.arange(90) % 3 > 0
    right = {KNOWS: KNOWN, TURNS: KNOWN, GUESSES: guesses(1)}
    result = study(right, {KNOWS: KNOWN, TURNS: turned, GUESSES: guesses(1)}, {GUESSES: "a guess"})
    (ranking,), rows = result.rankings, tasks(result)
    assert result.tables[0].id == "ranking"
    assert (ranking.may_be_best[0], ranking.places[GUESSES].control) == (KNOWS, "a guess")
    assert ranking.winner == KNOWS
    people = (0.8**2 + 0.2**2) * 5 / 4 - 1 / 4  # the chance that two different people of five agree
    assert rows[KNOWS]["worst"].value == pytest.approx(0.8 / people)
    assert rows[TURNS]["utility"].value == pytest.approx(0.8 / people)
    assert rows[TURNS]["worst"].value == pytest.approx((0.8 * 2 + 0.2) / 3 / people)
    assert rows[TURNS]["aware"].missing == "no attack was run both ways"
    assert ranking.places[TURNS].broken_by["x/ball[steps=4] within 4/255"] == pytest.approx(1 / 3)
    assert [row.label for row in result.tables[0].rows] == [KNOWS, TURNS, GUESSES]


def test_attackers_know_a_metric_who_follow_its_own_gradient_and_those_along_another_do_not() -> None:
    """An attack along another gradient reverses every sixth choice, one along its own every third."""
    sixth, third = np.arange(90) % 6 > 0, np.arange(90) % 3 > 0
    right = {KNOWS: KNOWN, TURNS: KNOWN, GUESSES: guesses(1)}
    attacked_answers, lent = ({KNOWS: KNOWN, TURNS: turned, GUESSES: guesses(1)} for turned in (third, sixth))
    result = study(right, attacked_answers, {GUESSES: "a guess"}, lent=lent)
    # `people`: the chance that two different people of five agree
    rows, people = tasks(result), (0.8**2 + 0.2**2) * 5 / 4 - 1 / 4
    assert rows[TURNS]["unaware"].value == pytest.approx((0.8 * 5 + 0.2) / 6 / people)
    assert rows[TURNS]["aware"].value == pytest.approx((0.8 * 2 + 0.2) / 3 / people)
    moved = result.rankings[0].places[TURNS].moved
    assert moved is not None
    assert moved.before > moved.after
    assert result.rankings[0].places[KNOWS].moved.change.value == 0
    assert any(finding.kind == "moves" and finding.entry == TURNS for finding in result.rankings[0].findings)


def test_a_stranger_s_metric_does_not_set_the_gate_of_the_others() -> None:
    """A stranger's metric is always right; the gate follows from the harness's best, right on 80 of 90 choices."""
    answers = {KNOWS: np.arange(90) >= 10, GUESSES: guesses(1)}
    plain, ranking = (study(right, {}, {}).rankings[0] for right in (answers, {**answers, "acme/perfect": KNOWN}))
    assert ranking.undefended == plain.undefended == KNOWS
    assert ranking.places[KNOWS].gate == plain.places[KNOWS].gate == "passes"


def test_families_count_the_same() -> None:
    """A metric that is right on all 60 choices of one family and none of the other 30 gets a half, not two thirds."""
    right = {KNOWS: KNOWN, GUESSES: np.arange(90) < 60}
    rows = tasks(study(right, {}, {}, judges=0))
    assert rows[GUESSES]["worst"].value == pytest.approx(0.5)
    assert rows[GUESSES]["utility"].value == pytest.approx(0.5)
    assert rows[KNOWS]["worst"].value == 1


def test_a_control_is_never_crowned_and_who_is_not_better_than_it_neither() -> None:
    right = {TWIN: KNOWN, KNOWS: KNOWN, GUESSES: guesses(2)}
    result = study(right, {}, {TWIN: "random weights"}, judges=0)
    assert not result.rankings[0].winner
    assert result.rankings[0].claim.endswith(f"cannot separate it from {TWIN}.")
    assert result.rankings[0].proxies == ("the order of strengths",)


def test_a_metric_that_met_no_attack_does_not_win_where_others_did() -> None:
    right = {KNOWS: KNOWN, TWIN: KNOWN, GUESSES: guesses(3)}
    result = study(right, {KNOWS: KNOWN, GUESSES: guesses(3)}, {GUESSES: "a guess"})
    assert result.rankings[0].winner == KNOWS
    assert not result.rankings[0].places[TWIN].complete


def test_guesses_win_nothing() -> None:
    """Four metrics guess, one of them a control: in at most 5% of studies one is shown to be better than it."""
    crowned, means = 0, []
    for seed in range(40):
        right = {f"harness/g{i}": guesses(100 * seed + i) for i in range(4)}
        result = study(right, {}, {"harness/g0": "a guess"}, judges=0)
        crowned += bool(result.rankings[0].winner)
        means += [values["worst"].value for values in tasks(result).values()]
    assert np.mean(means) == pytest.approx(0.5, abs=0.02)
    assert crowned / 40 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 40)


def test_the_numbers_of_the_headline_follow_from_the_scores_on_the_leaderboard() -> None:
    result = study(
        {KNOWS: KNOWN, TURNS: np.arange(90) % 10 > 0, GUESSES: guesses(1)},
        {KNOWS: np.arange(90) % 9 > 0, TURNS: np.arange(90) % 3 > 0, GUESSES: guesses(1)},
        {GUESSES: "a guess"},
    )
    (ranking,), paired = result.rankings, result.comparisons[0]
    row = paired.entries.index(ranking.winner)
    worst: dict[tuple[str, str], float] = {}
    untouched: dict[tuple[str, str], float] = {}
    for facets, names, block in zip(paired.conditions, paired.units, paired.values, strict=True):
        for name, number in zip(names, block[row].tolist(), strict=True):
            key = facets["distortion"], name
            worst[key] = min(worst.get(key, np.inf), number)
            if facets["attack"] == "none":
                untouched[key] = number
    numbers = [
        np.mean([np.mean([v for (f, _), v in scores.items() if f == family]) for family in SIZES])
        for scores in (worst, untouched)
    ]
    (printed_number,) = re.findall(r"\d\.\d{2}", ranking.claim)
    assert float(printed_number) == pytest.approx(numbers[0], abs=0.0051)
    utility = next(row.values["utility"].value for row in result.tables[0].rows if row.label == ranking.winner)
    assert utility == pytest.approx(numbers[1], abs=1e-6)


class Pairs(ImageDataset):
    """Forced choices between flat patches; people choose the one whose shade is nearer to that of the reference."""

    info = Info(id="acme/pairs", version="1")

    def build(self, device: torch.device) -> ImageSet:
        shades, columns, names = [], dict[str, list[Any]](), []
        for family in ("near", "far"):
            for i in range(16):
                second = bool((i * 7 + len(family)) % 3)
                offset = (0.05 + 0.01 * i, 0.3)
                for choice, shade in enumerate((0.0, *(offset[::-1] if second else offset))):
                    group, index = f"{family}/{i}", choice - 1
                    names.append(f"{group}/{('ref', 'p0', 'p1')[choice]}")
                    shades.append(0.4 + shade)
                    facts = {
                        "reference": f"{group}/ref",
                        "photograph": f"photograph {i}",
                        "family": family,
                        "group": group if choice else "",
                        "choice": index,
                        "judge": float(second) if choice else np.nan,
                        "judges": 5.0,
                    }
                    for name, fact in facts.items():
                        columns.setdefault(name, []).append(fact)
        values = torch.tensor(shades)

        def load(rows: Sequence[int]) -> Images:
            return values[list(rows), None, None, None].expand(-1, 3, 8, 8).clone()

        facts = {name: np.array(values) for name, values in columns.items()}
        return ImageSet(tuple(names), ((8, 8),) * len(names), load, facts)


class Sees(FullReferenceMetric):
    """The difference of mean shades, which gives the label; `grain` weighs roughness, which attacks raise easily."""

    info = MetricInfo(id="acme/sees", version="1", higher_means="worse_quality", differentiable=True)
    grain: float = 0.0

    def build(self, device: torch.device) -> FullReferenceScore:
        def score(images: Images, reference: Images) -> Scores:
            rough = (images[..., 1:] - images[..., :-1] + 0.001).abs().flatten(1).mean(dim=1)
            return (images - reference).flatten(1).mean(dim=1).abs() + self.grain * rough

        return score


class Mapped(Sees):
    """`Sees` after a map: a hundredth plus 3 ("affine"), a bent one ("bent"), or steps without slope ("steps")."""

    info = MetricInfo(id="acme/mapped", version="1", higher_means="worse_quality", differentiable=True)
    how: str = "affine"

    def build(self, device: torch.device) -> FullReferenceScore:
        plain = super().build(device)

        def score(images: Images, reference: Images) -> Scores:
            distance = plain(images, reference)
            if self.how == "affine":
                return 3 + 0.01 * distance
            return distance / (1 + distance) if self.how == "bent" else (512 * distance).round() / 512

        return score


class Hides(Sees):
    """Has the value of `Sees` with roughness, and the gradient of `Sees` without it, so attacks along it fail."""

    info = MetricInfo(id="acme/hides", version="1", higher_means="worse_quality", differentiable=True)

    def build(self, device: torch.device) -> FullReferenceScore:
        distance, lent = super().build(device), Sees().build(device)

        def score(images: Images, reference: Images) -> Scores:
            near = lent(images, reference)
            return distance(images.detach(), reference) + near - near.detach()

        return score


class Blind(FullReferenceMetric):
    """Gives every image the same distance."""

    info = MetricInfo(id="acme/blind", version="1", higher_means="worse_quality", control="a constant")

    def build(self, device: torch.device) -> FullReferenceScore:
        return lambda images, reference: 0 * (images - reference).flatten(1).sum(dim=1)


def test_plan_run_and_tables_crown_the_metric_that_sees_and_withstands(tmp_path: Any) -> None:
    components = (Pairs(), Sees(), Sees(grain=100.0), Blind())
    result = ran(tmp_path, components, ["acme/sees", "acme/sees[grain=100]", "acme/blind"])
    rows = tasks(result)
    assert result.rankings[0].winner == "acme/sees"
    assert rows["acme/sees"]["worst"].value == rows["acme/sees[grain=100]"]["utility"].value == 1
    assert rows["acme/sees[grain=100]"]["worst"].value == 0
    assert rows["acme/blind"]["worst"].value == 0.5
    assert result.rankings[0].places["acme/blind"].control == "a constant"
    assert next(c.label for c in result.tables[1].columns if c.key == "ms") == "ms per pair"


def test_a_distance_by_another_map_sees_and_withstands_no_more(tmp_path: Any) -> None:
    """Choices only compare distances. A map without slope stops the attack; it is flagged and does not win."""
    components = (Pairs(), Sees(grain=100.0), Mapped(grain=100.0), Blind())
    ways = ["acme/mapped[grain=100]", "acme/mapped[grain=100,how=bent]", "acme/mapped[grain=100,how=steps]"]
    result = ran(tmp_path, components, ["acme/sees[grain=100]", *ways, "acme/blind"])
    rows, (ranking,) = tasks(result), result.rankings
    for label in ("acme/sees[grain=100]", *ways[:2]):
        assert (rows[label]["utility"].value, rows[label]["worst"].value) == (1, 0), label
        assert not ranking.places[label].flags
    assert ranking.places[ways[2]].flags[0] == "no attack by its gradient changed any image"
    assert ranking.winner == ""


@pytest.mark.parametrize("substitutes", [(), ("harness/l2",)])
def test_a_distance_that_hides_its_gradient_is_moved_by_queries_and_flagged(tmp_path: Any, substitutes: Any) -> None:
    """Attacks along its own gradient alone never change its choices, and it is not flagged; 20 queries do."""
    components, metrics = (
        (Pairs(), Sees(), Hides(grain=100.0), Blind()),
        ["acme/sees", "acme/hides[grain=100]", "acme/blind"],
    )
    (tmp_path / "alone").mkdir()
    alone = ran(tmp_path / "alone", components, metrics, substitutes=())
    assert tasks(alone)["acme/hides[grain=100]"]["worst"].value == 1
    assert not alone.rankings[0].winner
    result = ran(tmp_path / "all", components, metrics, ["ifgsm[iterations=4]", "square[queries=20]"], substitutes)
    rows, places = tasks(result), result.rankings[0].places
    assert rows["acme/hides[grain=100]"]["worst"].value < 0.5
    assert "an attack by queries alone moves it further" in " ".join(places["acme/hides[grain=100]"].flags)
    assert rows["acme/sees"]["worst"].value == 1
    assert not places["acme/sees"].flags
    assert result.rankings[0].winner == "acme/sees"


class Stepped(Mapped):
    """The distance in steps, which says that it has no gradient."""

    info = MetricInfo(id="acme/stepped", version="1", higher_means="worse_quality", differentiable=False)
    how: str = "steps"


def test_a_distance_that_says_it_has_no_gradient_meets_queries_and_substitutes_and_has_no_place(tmp_path: Any) -> None:
    """Only queries and gradients of other distances attack it, so that it is incomplete and has no rank."""
    components, attacks = (
        (Pairs(), Sees(), Stepped(grain=100.0), Blind()),
        ["ifgsm[iterations=4]", "square[queries=20]"],
    )
    result = ran(tmp_path, components, ["acme/sees", "acme/stepped[grain=100]", "acme/blind"], attacks)
    rows, places = tasks(result), result.rankings[0].places
    assert rows["acme/stepped[grain=100]"]["worst"].value < 0.5
    assert not places["acme/stepped[grain=100]"].complete
    assert result.rankings[0].winner == "acme/sees"


def ran(
    folder: Any,
    components: Sequence[Any],
    metrics: list[str],
    attacks: Sequence[str] = ("ifgsm[iterations=4]",),
    substitutes: Sequence[str] = ("harness/l2",),
) -> TrackReport:
    """Plan and run the track on pairs, and return its report."""
    registry = installed().joined([Registered(c, "test", Provenance("test", "1")) for c in components])
    select = {"dataset": ["acme/pairs"], "metric": metrics, "attack": list(attacks)}
    settings = TrackProfile(select=select, options={"radii": [4], "substitutes": list(substitutes)})
    graph = plan_track(TRACK, Profile(name="truth", description="", tracks={TRACK: settings}), registry)
    cache = BuildCache(registry, Store(folder), torch.device("cpu"), 16)
    records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    marks = [{"kind": "metric", "label": c.label, "control": c.control} for c in components[1:]]
    return report(ResultQuery(cache.store, records, marks))


def test_every_sentence_follows_from_the_scores_on_the_leaderboard() -> None:
    result = study(
        {KNOWS: KNOWN, TURNS: np.arange(90) % 10 > 0, GUESSES: guesses(1)},
        {KNOWS: np.arange(90) % 9 > 0, TURNS: np.arange(90) % 3 > 0, GUESSES: guesses(1)},
        {GUESSES: "a guess"},
    )
    assert of_report(result)
