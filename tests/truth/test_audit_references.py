"""Audits with reference models on simulated data of known leakage, and attacks compared with slow loops over rows."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

import imharness as ih
from imharness.errors import UsageError
from imharness.leaderboard import auc
from imharness.membership import MembershipQuery, References
from imharness_membership.evaluators.attack_p import AttackP
from imharness_membership.evaluators.attack_r import AttackR
from imharness_membership.evaluators.confidence import Confidence
from imharness_membership.evaluators.qmia import Qmia
from imharness_membership.likelihood import log_odds

CPU = torch.device("cpu")
CLASSES = 5
REFERENCE_ATTACKS = ("lira", "lira[mode=offline-cdf]", "rmia", "attack-r", "bavaria")
ONLINE = {"lira", "bavaria"}


class World:
    """Models whose log odds of a row are its difficulty, plus a leak if it is a member, plus Gaussian noise."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.labels = self.rng.integers(0, CLASSES, rows)
        self.difficulty = self.rng.normal(1, 2, rows)

    def mask(self, share: float = 0.5) -> np.ndarray:
        """Return which rows are members of a model, (rows,), bool: a random `share` of them."""
        order = self.rng.permutation(len(self.labels))
        return order < round(share * len(order))

    def odds(self, member: np.ndarray, leak: float, shift: float = 0.0) -> np.ndarray:
        """Return a model's log odds of each row, (rows,); `shift` is added to all."""
        return self.difficulty + shift + leak * member + self.rng.normal(size=len(self.labels))

    def probabilities(self, odds: np.ndarray) -> np.ndarray:
        """Return outputs (rows, CLASSES) with these log odds of the true class; the rest is divided at random."""
        rest = self.rng.random((len(odds), CLASSES))
        rest[np.arange(len(odds)), self.labels] = 0
        rest /= rest.sum(axis=1, keepdims=True) * (1 + np.exp(odds))[:, None]
        rest[np.arange(len(odds)), self.labels] = 1 / (1 + np.exp(-odds))
        return rest

    def target(self, leak: float) -> dict[str, np.ndarray]:
        """Return outputs, labels and membership of a model, as `audit` expects them."""
        member = self.mask()
        outputs = self.probabilities(self.odds(member, leak))
        return {"probabilities": outputs, "labels": self.labels, "member": member}

    def references(
        self, count: int, leak: float, *, share: float = 0.5, shift: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log odds and membership of `count` reference models, each (count, rows)."""
        masks = [self.mask(share) for _ in range(count)]
        return np.stack([self.odds(mask, leak, shift) for mask in masks]), np.stack(masks)


def areas(audit: ih.Audit) -> dict[str, float]:
    """Return the area under the ROC curve (AUC) of each evaluator."""
    return {
        name.removeprefix("harness/"): audit.table().column("auc")[i] for i, name in enumerate(audit.table().labels)
    }


def test_with_many_references_the_attacks_find_what_the_difference_of_two_gaussians_allows() -> None:
    """Online LiRA is the likelihood ratio: its AUC is Phi(leak / sqrt 2). The other attacks come near it."""
    world = World(6000, 0)
    areas_found = areas(ih.audit(world.target(1.5), references=world.references(64, 1.5), evaluators=REFERENCE_ATTACKS))
    truth = norm.cdf(1.5 / np.sqrt(2))
    assert areas_found["lira"] == pytest.approx(truth, abs=0.02)
    assert areas_found["bavaria"] == pytest.approx(truth, abs=0.02)
    assert areas_found["lira[mode=offline-cdf]"] == pytest.approx(truth, abs=0.02)
    assert truth - 0.03 < areas_found["attack-r"] < truth + 0.01
    assert 0.65 < areas_found["rmia"] < truth


def test_with_few_references_a_prior_of_variances_finds_more_than_one_variance_or_one_for_each_row() -> None:
    """Rows differ in the spread of answers; about four of eight references were trained on each row."""
    rng = np.random.default_rng(8)
    member = np.stack([rng.random(6000).argsort().argsort() < 3000 for _ in range(9)])
    spread = 1 / np.sqrt(rng.gamma(2.0, size=6000))
    odds = rng.normal(1, 2, 6000) + spread * (1.5 * member + rng.normal(size=member.shape))
    world = World(6000, 0)
    target = {"probabilities": world.probabilities(odds[0]), "labels": world.labels, "member": member[0]}
    names = ["bavaria", "lira[global_variance=True]", "lira[global_variance=False]"]
    rows = ih.audit(target, references=(odds[1:], member[1:]), evaluators=names).rows()
    prior, one, each = rows["auc"]
    assert prior > max(one, each) + 0.01


def test_right_accusations_of_few_non_members_count_those_that_their_threshold_accuses() -> None:
    """The threshold for 1 % of 180 non-members is their largest score.

    Another non-member exceeds it with a probability of 1/181, not 1/100; `accused` must be that share.
    """
    finding = ih.audit(World(720, 8).target(0.0), evaluators=["confidence"]).worst
    assert finding.accuracy.nonmembers == 180
    thresholds = np.random.default_rng(9).normal(size=(4000, 180)).max(axis=1)
    assert finding.accused == pytest.approx(norm.sf(thresholds).mean(), rel=0.05)


def test_the_share_of_right_accusations_is_that_among_records_of_which_few_are_members() -> None:
    """Of the records that the adversary examines, 5 % are members; 1 % of the non-members are accused."""
    world, leak, prior = World(6000, 6), 2.0, 0.05
    audit = ih.audit(
        world.target(leak), references=world.references(64, leak), evaluators=["lira[global_variance=True]"]
    )
    rng = np.random.default_rng(7)
    member = rng.random(400_000) < prior
    accused = leak * member + rng.normal(size=len(member)) > norm.ppf(0.99)
    truth, ppv = member[accused].mean(), audit.ppv(prior)
    assert ppv is not None
    assert ppv.low - 0.02 < truth < ppv.high + 0.02
    assert ppv.high - ppv.low < 0.1
    assert audit.ppv(0.5).value > 0.97  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="prior: expected a share above 0 and below 1"):
        audit.ppv(1.0)


def test_three_views_of_a_row_are_worth_four_answers() -> None:
    """Each view leaks as the row does, with independent noise: the AUC of online LiRA is Phi(leak sqrt 4 / sqrt 2)."""
    world, leak, count, views = World(6000, 5), 0.8, 64, 3
    target, (odds, member) = world.target(leak), world.references(count, leak)
    further = np.stack([[world.odds(mask, leak) for _ in range(views)] for mask in (target["member"], *member)])
    answers = {"log_odds": odds, "member": member, "views": further[1:], "target_views": further[0]}
    names = ["lira[global_variance=True]", "rmia[mode=online]"]
    audit = ih.audit(target, references=answers, evaluators=names)
    alone = areas(ih.audit(target, references=(odds, member), evaluators=names))
    assert alone[names[0]] == pytest.approx(norm.cdf(leak / np.sqrt(2)), abs=0.02)
    assert areas(audit)[names[0]] == pytest.approx(norm.cdf(leak * np.sqrt(1 + views) / np.sqrt(2)), abs=0.02)
    assert areas(audit)["rmia[mode=online]"] > alone["rmia[mode=online]"] + 0.04
    assert "asked about views of each row: 3" in repr(audit)
    rows = audit.rows()
    accuracy = norm.cdf(leak * np.sqrt(1 + views) / 2)
    assert rows["accuracy_where_learned"][list(rows["evaluator"]).index(f"harness/{names[0]}")] == pytest.approx(
        accuracy, abs=0.03
    )


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_without_a_leak_nothing_is_found(share: float) -> None:
    world = World(3000, 1)
    chosen = [name for name in REFERENCE_ATTACKS if share or name not in ONLINE]
    references = world.references(16, 0.0, share=share)
    table = ih.audit(world.target(0.0), references=references, evaluators=chosen).rows()
    assert (table["auc_low"] - 0.02 < 0.5).all()
    assert (table["auc_high"] + 0.02 > 0.5).all()
    assert (np.abs(table["accuracy"] - 0.5) < 0.03).all()


def test_references_of_other_rows_find_as_much_without_an_inside_and_learn_thresholds_from_known_rows() -> None:
    world = World(6000, 2)
    target = world.target(1.5)
    references = world.references(64, 1.5, share=0.0)
    audit = ih.audit(target, references=references, evaluators=[n for n in REFERENCE_ATTACKS if n not in ONLINE])
    table, truth = areas(audit), norm.cdf(1.5 / np.sqrt(2))
    assert table["lira[mode=offline-cdf]"] == pytest.approx(truth, abs=0.02)
    assert "lira" not in table
    left_out = "bavaria, lira, lira[global_variance=False], rmia[mode=online], rmia[mode=tuned]"
    assert f": {left_out}, as no reference model was trained" in repr(audit)
    assert audit.details.members == 1500
    best = audit.worst.accuracy
    assert best.low < norm.cdf(1.5 / 2) < best.high + 0.02


def test_probabilities_give_what_their_log_odds_give_on_all_rows() -> None:
    world = World(1000, 3)
    target, (odds, member) = world.target(1.5), world.references(16, 1.5)
    outputs = np.stack([world.probabilities(values) for values in odds])
    whole = ih.audit(target, references=(outputs, member), evaluators=REFERENCE_ATTACKS)
    shadow = {"probabilities": outputs[0], "labels": world.labels, "member": member[0]}
    by_odds = ih.audit(target, shadow, references={"log_odds": odds, "member": member}, evaluators=REFERENCE_ATTACKS)
    assert areas(whole) == pytest.approx(areas(by_odds), abs=1e-3)
    assert whole.details.members == by_odds.details.members == 500
    assert "the first reference model, which served as the shadow model" in whole.measured


def test_what_is_measured_where_members_are_known_is_the_accuracy_on_the_target() -> None:
    world = World(6000, 4)
    rows = ih.audit(world.target(2.0), references=world.references(32, 2.0), evaluators=REFERENCE_ATTACKS).rows()
    assert rows["accuracy"] == pytest.approx(rows["accuracy_where_learned"], abs=0.04)


def differs(seed: int, **change: float) -> list[str]:
    """Return the differences that an audit reports between its target and references with `change`."""
    world = World(600, seed)
    target = world.target(1.5)
    odds, member = world.references(8, change.pop("leak", 1.5), **change)
    outputs = np.stack([world.probabilities(values) for values in odds])
    audit = ih.audit(target, references=(outputs, member), evaluators=["attack-r"])
    return audit.details.mismatches()


def test_matched_references_are_seldom_said_to_differ_and_others_always() -> None:
    """Of 60 matched sets, at most 3 are said to differ."""
    assert sum(bool(differs(seed)) for seed in range(60)) <= 3
    assert any("mean log odds on members" in line for line in differs(0, leak=4.0))
    assert any("log odds on non-members" in line for line in differs(0, shift=2.0))
    assert any("accuracy on non-members" in line for line in differs(0, shift=2.0))
    assert any("number of members among the rows: 300 (target), 150" in line for line in differs(0, share=0.25))


def test_a_shadow_of_another_accuracy_or_size_is_said_to_differ() -> None:
    world = World(2000, 5)
    target, same = world.target(1.5), world.target(1.5)
    audit = ih.audit(target, same, evaluators=["confidence"])
    assert audit.details.mismatches() == []
    assert {fact.what for fact in audit.details.likeness} >= {"accuracy on members", "number of members"}
    world.difficulty = world.difficulty - 2
    worse = ih.audit(target, world.target(1.5), evaluators=["confidence"])
    assert "accuracy on non-members" in " ".join(worse.details.mismatches())
    assert "may find more: accuracy on members" in repr(worse)
    fewer = {name: values[:1000] for name, values in same.items()}
    assert "number of members" in " ".join(ih.audit(target, fewer, evaluators=["confidence"]).details.mismatches())


def test_references_that_copy_the_target_s_members_are_noticed() -> None:
    world = World(600, 6)
    target, (odds, member) = world.target(1.5), world.references(8, 1.5)
    member[3] = target["member"]
    text = repr(ih.audit(target, references=(odds, member), evaluators=["attack-r"]))
    assert "largest share of rows whose membership is the target's: 1 (target), 1 (reference models)" in text


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("form", ["log odds", "probabilities"])
def test_a_reference_that_is_the_target_is_refused(form: str, outside: bool) -> None:
    world = World(600, 6)
    target, (odds, member) = world.target(1.5), world.references(8, 1.5)
    p = target["probabilities"][np.arange(600), world.labels]
    odds[3] = np.log(p / (1 - p))
    member[3] = target["member"]
    answers = odds if form == "log odds" else np.stack([world.probabilities(row) for row in odds])
    references = answers, np.zeros_like(member) if outside else member
    shadow = {name: values.copy() for name, values in world.target(1.5).items()}
    with pytest.raises(UsageError, match=r"reference 3 gives the target's answers on 100% of the rows; leave the"):
        ih.audit(target, *([shadow] if outside else []), references=references, evaluators=["attack-r"])
    assert ih.audit(target, references=(odds[4:], member[4:]), evaluators=["attack-r"]).details.references == 4


def test_attack_r_is_its_definition_row_by_row() -> None:
    rng = np.random.default_rng(0)
    odds, member = rng.normal(size=(9, 40)), rng.random((9, 40)) < 0.5
    member[:, 3], seen = True, rng.normal(size=40)
    odds[:, 5], seen[5] = 1.0, 1.0  # a reference equal to the target counts as not above it
    statistic = AttackR().statistic(*map(torch.from_numpy, (seen, seen)), references_of(odds, member), 9).numpy()
    for row in range(40):
        # references not trained on the row; for row 3 there are none, so that all count
        out = ~member[:, row] if row != 3 else np.ones(9, dtype=bool)
        gaps = seen[row] - odds[out, row]
        slow = (np.sum(gaps >= 0) + 0.5 / (1 + np.exp(-gaps.mean()))) / out.sum()
        assert statistic[row] == pytest.approx(slow)


def references_of(odds: np.ndarray, member: np.ndarray) -> References:
    """Return reference models without a population."""
    none = torch.zeros(len(odds), 0, dtype=torch.double)
    return References(torch.from_numpy(odds), torch.from_numpy(member), none, none[0])


def asked(world: World, target: dict[str, np.ndarray], shadow: dict[str, np.ndarray]) -> MembershipQuery:
    """Return the query of an attack on the target that knows the shadow model's members."""
    tensors = [torch.from_numpy(shadow[name]) for name in ("probabilities", "labels", "member")]
    seen = [torch.from_numpy(target[name]) for name in ("probabilities", "labels")]
    return MembershipQuery(tensors[0].float(), tensors[1], tensors[2], seen[0].float(), seen[1])


def test_attack_p_accuses_at_most_alpha_of_the_non_members_and_orders_rows_by_their_log_odds() -> None:
    world = World(4000, 7)
    target, shadow = world.target(2.0), world.target(2.0)
    query = asked(world, target, shadow)
    for alpha in (0.01, 0.1, 0.3):
        scores = AttackP(alpha=alpha).build(CPU)(query).numpy()
        assert (scores[~target["member"]] >= 0).mean() == pytest.approx(alpha, abs=4 * np.sqrt(alpha / 2000))
        plain = log_odds(query.target_outputs, query.target_labels).numpy()
        assert auc(scores, target["member"]) == pytest.approx(auc(plain, target["member"]), abs=2e-3)
    population = np.sort(log_odds(query.shadow_outputs, query.shadow_labels).numpy()[~shadow["member"]])
    # a score is alpha (0.3 after the loop) less the p-value of the row among the shadow's non-members
    slow = [(np.sum(population >= value) + 1) / (len(population) + 1) for value in plain[:50]]
    assert 0.3 - scores[:50] == pytest.approx(np.array(slow), abs=1e-3)


def test_qmia_knows_how_sure_a_model_is_of_non_members_of_each_class_and_finds_nothing_where_nothing_is() -> None:
    """Two classes are easy, the others are hard; a threshold for all rows takes easy rows for members."""
    for leak, seed in ((2.0, 8), (0.0, 9)):
        world = World(4000, seed)
        world.difficulty = np.where(world.labels < 2, 4.0, -1.0)
        target, shadow = world.target(leak), world.target(leak)
        query = asked(world, target, shadow)
        area = auc(Qmia().build(CPU)(query).numpy(), target["member"])
        plain = auc(Confidence(per_class=False).build(CPU)(query).numpy(), target["member"])
        truth = norm.cdf(leak / np.sqrt(2))
        assert area == pytest.approx(truth, abs=0.03)
        assert plain < truth - 0.1 or leak == 0
