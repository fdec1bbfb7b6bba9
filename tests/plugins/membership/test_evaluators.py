"""Evaluators beside slow loops that compute the same; the order of rows and earlier queries change no score."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm
from scipy.stats import t as student_t

from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness.errors import HarnessError
from imharness.leaderboard import auc
from imharness.membership import (
    LastLayerGradients,
    LayerGradients,
    MembershipEvaluator,
    MembershipQuery,
    References,
    Robustness,
)
from imharness.planning.plan import named
from imharness_membership.attack_training import LearntEvaluator
from imharness_membership.evaluators.bavaria import Bavaria
from imharness_membership.evaluators.lira import AT_ONCE, MIN_VARIANCE, Lira
from imharness_membership.evaluators.modified_entropy import ModifiedEntropy
from imharness_membership.evaluators.rmia import Rmia
from imharness_membership.likelihood import log_odds
from imharness_membership.queries import known_halves
from imharness_membership.risk import BINS, FLOOR, calibration, calibration_rmse, precision_and_recall, risk_scores

CPU = torch.device("cpu")
EVALUATORS = [e.component for e in installed().entries.values() if isinstance(e.component, MembershipEvaluator)]
CLASSES = 4


def leaking(n: int, seed: int, strength: float = 2.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return outputs, labels and membership of a model that is surer of its members."""
    rng = generator(seed)
    labels = torch.randint(CLASSES, (n,), generator=rng)
    member = torch.rand(n, generator=rng) < 0.5
    logits = torch.randn(n, CLASSES, generator=rng)
    logits[torch.arange(n), labels] += 1 + strength * member
    return logits.softmax(dim=1), labels, member


def query(n: int = 400) -> tuple[MembershipQuery, torch.Tensor]:
    """Return a query with everything that any evaluator reads, and the target's membership; members are leaked."""
    shadow, target = leaking(n, 0), leaking(n, 1)
    rng = generator(2)
    inside = torch.rand(9, n, generator=rng).argsort(dim=0) < 5
    noise = torch.randn(9, n, generator=rng)
    references = References(
        log_odds=noise + 2 * inside,
        member=inside,
        population_log_odds=torch.randn(9, 50, generator=rng),
        target_population_log_odds=torch.randn(50, generator=rng),
    )
    robustness = Robustness(
        *(0.4 + 0.4 * m + 0.2 * torch.rand(n, generator=rng) for m in (shadow[2].float(), target[2].float()))
    )
    factors = []
    for outputs, labels, member in (shadow, target):
        factors += [outputs - torch.nn.functional.one_hot(labels, CLASSES), torch.rand(n, 5, generator=rng)]
        factors[-1][:, 0] += member  # the first feature leaks membership
    layers = LayerGradients(
        torch.tensor([[7, 5], [5, CLASSES]]),
        *(
            column
            for error, features in (factors[:2], factors[2:])
            for column in (
                torch.cat([torch.rand(n, 7, generator=rng), features], dim=1),
                torch.cat([torch.rand(n, 5, generator=rng), error], dim=1),
                torch.rand(n, 3, generator=rng),
            )
        ),
    )
    slopes = LastLayerGradients(*factors)
    return MembershipQuery(*shadow, *target[:2], references, robustness, slopes, layers), target[2]


def shuffled(q: MembershipQuery, order: torch.Tensor) -> MembershipQuery:
    """Return the query with the target's rows in this order, in every array that has them."""
    assert q.references is not None
    assert q.robustness is not None
    assert q.gradients is not None
    assert q.layers is not None
    deep = q.layers
    moved = (q.gradients.target_error[order], q.gradients.target_features[order])
    return MembershipQuery(
        q.shadow_outputs,
        q.shadow_labels,
        q.shadow_member,
        q.target_outputs[order],
        q.target_labels[order],
        References(
            q.references.log_odds[:, order],
            q.references.member[:, order],
            q.references.population_log_odds,
            q.references.target_population_log_odds,
        ),
        Robustness(q.robustness.shadow, q.robustness.target[order]),
        LastLayerGradients(q.gradients.shadow_error, q.gradients.shadow_features, *moved),
        replace(
            deep,
            target_inputs=deep.target_inputs[order],
            target_slopes=deep.target_slopes[order],
            target_norms=deep.target_norms[order],
        ),
    )


def small(evaluator: MembershipEvaluator, epochs: int) -> MembershipEvaluator:
    """Return an evaluator whose network, if it has one, is small and trained for so many epochs."""
    wanted = {"epochs": epochs, "width": 64}
    return evaluator.with_parameters(**{k: n for k, n in wanted.items() if k in type(evaluator).model_fields})


@pytest.mark.parametrize("evaluator", [pytest.param(e, id=e.label) for e in EVALUATORS])
def test_the_order_of_the_rows_says_nothing_and_the_answer_is_the_same_again(evaluator: MembershipEvaluator) -> None:
    request, _ = query()
    order = torch.randperm(400, generator=generator(3))
    infer = small(evaluator, epochs=8).build(CPU)
    scores = infer(request)
    assert scores.shape == (400,)
    assert torch.isfinite(scores).all()
    assert torch.equal(infer(request), scores)
    assert torch.allclose(infer(shuffled(request, order)), scores[order], atol=1e-5)


@pytest.mark.parametrize(
    "name", ["neural[epochs=1,width=8]", "white-box[epochs=1,width=8]", "white-box-layers[epochs=1,width=8]"]
)
def test_a_shadow_is_learnt_from_once_and_another_one_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[int] = []
    plain = LearntEvaluator._learn

    def counted(self, network, inputs, member, rng) -> None:
        learnt.append(len(member))
        plain(self, network, inputs, member, rng)

    monkeypatch.setattr(LearntEvaluator, "_learn", counted)
    evaluator = installed().one("evaluator", name)
    infer, (q, _) = evaluator.build(CPU), query(60)
    first, again = infer(q), infer(q)
    assert learnt == [60]
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    other = replace(q, shadow_member=~q.shadow_member)
    torch.testing.assert_close(infer(other), evaluator.build(CPU)(other), rtol=0, atol=0)
    assert learnt == [60] * 3  # once for each shadow, and once by the new evaluator
    assert (infer(q) == first).all()


@pytest.mark.parametrize(
    "name",
    [
        "confidence",
        "entropy",
        "modified-entropy",
        "neural[width=64]",
        "privacy-risk",
        "label-only",
        "white-box",
        "white-box-layers[width=64]",
    ],
)
def test_a_leak_is_found(name: str) -> None:
    request, member = query()
    guess = installed().one("evaluator", name).build(CPU)(request) >= 0
    assert float((guess == member).float().mean()) > 0.6


def test_probabilities_of_0_and_1_and_classes_without_shadow_rows_are_no_trouble() -> None:
    n = 12
    outputs = torch.nn.functional.one_hot(torch.arange(n) % CLASSES, CLASSES).float()
    labels = torch.zeros(n, dtype=torch.int64)
    request, _ = query(n)
    edge = MembershipQuery(
        outputs,
        labels,
        torch.arange(n) < 6,
        outputs,
        torch.arange(n) % CLASSES,
        request.references,
        request.robustness,
        request.gradients,
        request.layers,
    )
    for evaluator in EVALUATORS:
        assert torch.isfinite(small(evaluator, epochs=30).build(CPU)(edge)).all(), evaluator.label


def test_log_odds_are_exact_near_certainty() -> None:
    outputs = torch.tensor([[1 - 1e-9, 1e-9], [1.0, 0.0], [0.25, 0.75]], dtype=torch.float64)
    odds = log_odds(outputs, torch.zeros(3, dtype=torch.int64))
    assert float(odds[0]) == pytest.approx(np.log((1 - 1e-9) / 1e-9))
    assert float(odds[1]) == pytest.approx(-np.log(1e-30))
    assert float(odds[2]) == pytest.approx(np.log(1 / 3))


@pytest.mark.parametrize("global_variance", [False, True])
def test_lira_equals_a_loop_over_rows(global_variance: bool) -> None:
    request, _ = query(40)
    assert request.references is not None
    member = request.references.member.clone()
    member[:, 3], member[:, 4] = True, False  # rows without references on one side
    references = replace(request.references, member=member)
    observed = torch.linspace(-3, 4, 40)
    odds, inside = references.log_odds.double().numpy(), member.numpy()

    def gaussian(i: int, mask: np.ndarray) -> tuple[float, float]:
        of_rows = [odds[m, j] for j, m in enumerate(mask.T)]
        squares = sum(((answers - answers.mean()) ** 2).sum() for answers in of_rows if len(answers))
        pooled = squares / sum(len(answers) - 1 for answers in of_rows if len(answers))
        if not len(of_rows[i]):
            return odds[mask].mean(), pooled
        return of_rows[i].mean(), max(pooled if global_variance else of_rows[i].var(ddof=1), MIN_VARIANCE)

    slow = {"online": [], "offline-cdf": [], "offline-logpdf": []}
    for i, x in enumerate(observed.numpy()):
        (m1, v1), (m0, v0) = gaussian(i, inside), gaussian(i, ~inside)
        slow["online"].append(norm.logpdf(x, m1, v1**0.5) - norm.logpdf(x, m0, v0**0.5))
        slow["offline-cdf"].append(-np.log(norm.sf(x, m0, v0**0.5)))
        slow["offline-logpdf"].append(-norm.logpdf(x, m0, v0**0.5) - 0.5 * np.log(2 * np.pi))
    for mode, expected in slow.items():
        fast = Lira(mode=mode, global_variance=global_variance).statistic(observed, observed, references, 9)
        np.testing.assert_allclose(fast.numpy(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("density", ["student", "normal"])
def test_bavaria_equals_a_loop_over_rows(density: str, mode: str) -> None:
    request, _ = query(40)
    references = request.references
    assert references is not None
    alone = references.member.clone()
    alone[:, 3], alone[:, 4] = True, False  # rows that have the prior on one side
    observed, odds = torch.linspace(-3, 4, 40), references.log_odds.double().numpy()

    def log_density(x: float, i: int, mask: np.ndarray, is_inside: bool) -> float:
        reference_odds, middle, spread = odds[mask[:, i], i], odds[mask].mean(), odds[mask].var()
        reference_odds = reference_odds[:0] if is_inside and mode == "offline" else reference_odds
        n, mean = len(reference_odds), reference_odds.mean() if len(reference_odds) else middle
        alpha, kappa = (2 if density == "student" else 1) + n / 2, 1 + n
        beta = spread + ((reference_odds - mean) ** 2).sum() / 2 + n * (mean - middle) ** 2 / (2 * kappa)
        if density == "normal":
            return float(norm.logpdf(x, mean, (beta / (alpha - 1) if alpha > 1 else beta) ** 0.5))
        width = (beta * (kappa + 1) / (alpha * kappa)) ** 0.5
        return float(student_t.logpdf(x, 2 * alpha, (middle + n * mean) / kappa, width))

    inside = alone.numpy()
    seen = enumerate(observed.numpy())
    slow = [log_density(x, i, inside, True) - log_density(x, i, ~inside, False) for i, x in seen]
    fast = Bavaria(density=density, mode=mode).statistic(observed, observed, replace(references, member=alone), 9)
    np.testing.assert_allclose(fast.numpy(), slow, rtol=2e-3, atol=2e-3)


def test_bavaria_is_the_density_of_a_further_answer_averaged_over_the_posterior() -> None:
    """Means and variances are drawn from the prior, and weighted by how likely they make the answers of a row."""
    rng = np.random.default_rng(2)
    odds, member = rng.normal(1, 2, (6, 30)), np.arange(6)[:, None] < np.full((1, 30), 3)
    nothing = torch.zeros(6, 1)
    references = References(torch.tensor(odds).float(), torch.tensor(member), nothing, nothing[:, 0])
    observed = torch.full((30,), 2.5)
    density = Bavaria().statistic(observed, observed, references, 6)[0]
    expected = []
    for reference_odds in (odds[:3], odds[3:]):
        variances = reference_odds.var() / rng.gamma(2.0, size=400_000)
        means = reference_odds.mean() + np.sqrt(variances) * rng.normal(size=len(variances))
        weights = norm.logpdf(reference_odds[:, 0, None], means, np.sqrt(variances)).sum(axis=0)
        weights = np.exp(weights - weights.max())
        expected.append(np.log((weights * norm.pdf(2.5, means, np.sqrt(variances))).sum() / weights.sum()))
    assert float(density) == pytest.approx(expected[0] - expected[1], abs=0.02)


def test_lira_tells_answers_apart_that_lie_close_beside_a_wide_gap() -> None:
    rng = np.random.default_rng(5)
    inside = rng.random((10, 300)).argsort(axis=0) < 5
    odds = (20 * inside + 0.01 * rng.normal(size=inside.shape)).astype(np.float32)
    sides = [np.where(mask, odds.astype(np.float64), np.nan) for mask in (inside, ~inside)]
    (m1, v1), (m0, v0) = ((np.nanmean(x, axis=0), np.nanvar(x, axis=0, ddof=1)) for x in sides)
    observed = odds[0] + np.float32(0.005)
    expected = norm.logpdf(observed, m1, v1**0.5) - norm.logpdf(observed, m0, v0**0.5)
    odds[:, 7] = expected[7] = np.nan
    seen, nothing = torch.from_numpy(observed), torch.zeros(10, 1)
    references = References(torch.from_numpy(odds), torch.from_numpy(inside), nothing, nothing[:, 0])
    lira = Lira(global_variance=False)
    scores = lira.statistic(seen, seen, references, 10).numpy()
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-3)
    assert np.flatnonzero(np.isnan(scores)).tolist() == [7]
    lonely = torch.from_numpy(inside.copy())
    lonely[1:, 3] = False  # one row with a single reference has no variance of its own; no other row changes
    other = lira.statistic(seen, seen, replace(references, member=lonely), 10).numpy()
    np.testing.assert_allclose(np.delete(other, [3]), np.delete(scores, [3]), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("mode", ["online", "offline-logpdf"])
def test_lira_is_that_of_double_precision_for_many_rows_and_sides_far_apart(mode: str) -> None:
    rng, count = np.random.default_rng(0), 40
    rows = AT_ONCE // count + 7  # more than are computed at once
    inside = rng.random((count, rows)) < rng.uniform(0.2, 0.8, rows)
    inside[:, :3], inside[:, 3:6], inside[:, 6:9] = False, True, np.arange(count)[:, None] == 5
    spread = np.where(inside, rng.choice([0.1, 5], rows), rng.choice([0.1, 5], rows))
    odds = (10 + 20 * inside + spread * rng.normal(size=(count, rows))).astype(np.float32)
    observed = rng.uniform(5, 35, rows).astype(np.float32)

    def log_density(mask: np.ndarray) -> np.ndarray:
        n, exact = mask.sum(axis=0), odds.astype(np.float64)
        mean = np.where(n > 0, (exact * mask).sum(axis=0) / n.clip(1), exact[mask].mean())
        squares = (((exact - mean) * mask) ** 2).sum(axis=0)
        variance = np.where(n > 1, squares / (n - 1).clip(1), squares.sum() / (n - 1).clip(0).sum())
        return -((observed - mean) ** 2 / variance + np.log(variance)) / 2

    terms = np.array([log_density(inside) if mode == "online" else np.zeros(rows), log_density(~inside)])
    answers, marks = (torch.from_numpy(np.ascontiguousarray(x.T)).T for x in (odds, inside))
    references = References(answers, marks, answers, answers[:, 0])
    scores = Lira(mode=mode, global_variance=False).statistic(torch.from_numpy(observed), answers, references, count)
    assert (np.abs(scores.numpy() - (terms[0] - terms[1])) / (1 + np.abs(terms).sum(axis=0))).max() < 5e-5


def test_few_references_share_one_variance_and_many_have_one_for_each_row() -> None:
    rng = np.random.default_rng(0)
    n, gap = 2000, 0.7
    hard = rng.normal(size=n)
    aucs: dict[tuple[bool | None, int], float] = {}
    for count in (6, 64):
        inside = rng.random((count, n)).argsort(axis=0) < count // 2
        odds = torch.from_numpy(hard + gap * inside + rng.normal(size=(count, n))).float()
        member = rng.random(n) < 0.5
        observed = torch.from_numpy(hard + gap * member + rng.normal(size=n)).float()
        references = References(odds, torch.from_numpy(inside), odds[:, :5], odds[0, :5])
        for variance in (None, False, True):
            scores = Lira(global_variance=variance).statistic(observed, observed, references, count)
            aucs[variance, count] = auc(scores.numpy(), member)
    assert aucs[None, 6] == aucs[True, 6] > aucs[False, 6] + 0.03
    assert aucs[None, 64] == aucs[False, 64]


def test_the_threshold_is_learnt_with_the_variance_that_the_scores_have() -> None:
    request, _ = query(60)
    rng = generator(4)
    inside = torch.rand(64, 60, generator=rng).argsort(dim=0) < 32
    many = References(torch.randn(64, 60, generator=rng) + inside, inside, torch.randn(64, 5), torch.randn(5))
    extended = replace(request, references=many)
    each = Lira(global_variance=False).build(CPU)(extended)
    assert torch.equal(Lira().build(CPU)(extended), each)


def test_of_equally_good_thresholds_the_order_of_rows_chooses_none() -> None:
    odds = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).expand(3, 6)
    inside = torch.tensor([[False, True, False, True, False, True]]).expand(3, 6)
    outputs = torch.full((6, 2), 0.5)

    def scores(order: list[int]) -> torch.Tensor:
        references = References(odds[:, order], inside[:, order], torch.zeros(3, 2), torch.zeros(2))
        labels = torch.zeros(6, dtype=torch.int64)
        return Lira(mode="offline-cdf").build(CPU)(
            MembershipQuery(outputs, labels, torch.arange(6) < 3, outputs, labels, references)
        )

    assert torch.equal(scores([0, 1, 2, 3, 4, 5]), scores([5, 4, 3, 2, 1, 0]).flip(0))


def with_views(references: References, views: int, seed: int) -> References:
    rng, shape = generator(seed), references.log_odds.shape
    return replace(
        references,
        view_log_odds=references.log_odds[:, None] + torch.randn(shape[0], views, shape[1], generator=rng),
        target_view_log_odds=torch.randn(views, shape[1], generator=rng),
    )


@pytest.mark.parametrize("views", [0, 4])
def test_rmia_equals_a_loop_over_pairs_and_a_vote_of_the_views(views: int) -> None:
    request, _ = query(40)
    r = request.references
    assert r is not None
    r = with_views(r, views, 3) if views else r
    observed, population, a = torch.linspace(-3, 4, 40), r.target_population_log_odds, Rmia().offline
    others = population.sigmoid() / ((1 + a) / 2 * r.population_log_odds.sigmoid().mean(dim=0) + (1 - a) / 2)
    beaten = []
    for i in range(40):
        votes = torch.zeros(len(population))
        for k in range(1 + views):
            answers = r.log_odds if k == 0 else r.view_log_odds[:, k - 1]  # type: ignore[index]
            seen = observed if k == 0 else r.target_view_log_odds[k - 1]  # type: ignore[index]
            out = answers[~r.member[:, i], i].sigmoid().mean()
            votes += seen[i].sigmoid() / ((1 + a) / 2 * out + (1 - a) / 2) >= others
        beaten.append(int((votes > (1 + views) / 2).sum()))
    fast = Rmia().statistic(observed, population, r, 9) * len(population)
    assert fast.floor().int().tolist() == beaten


def test_online_rmia_divides_by_the_mean_of_references_with_and_without_the_row() -> None:
    request, _ = query(40)
    r = request.references
    assert r is not None
    member = r.member.clone()
    member[:, 0] = False  # no reference was trained on this row, so its gain is predicted from that of other rows
    r = replace(r, member=member)
    inside = torch.stack([r.log_odds[member[:, i], i].sigmoid().mean() for i in range(40)])
    out = torch.stack([r.log_odds[~member[:, i], i].sigmoid().mean() for i in range(40)])
    a = 1 - float((inside - out)[1:].sum() / (1 - out)[1:].sum())
    inside[0] = a * out[0] + 1 - a
    ratio = torch.linspace(-3, 4, 40).sigmoid() / ((inside + out) / 2)
    scores = Rmia(mode="online").statistic(torch.linspace(-3, 4, 40), r.target_population_log_odds, r, 9)
    assert torch.equal(scores.argsort(), ratio.argsort())
    shares = r.target_population_log_odds.sigmoid() / (
        (1 + a) / 2 * r.population_log_odds.sigmoid().mean(dim=0) + (1 - a) / 2
    )
    assert (scores * 50).floor().int().tolist() == [int((one >= shares).sum()) for one in ratio]


@pytest.mark.parametrize("truth", [0.0, 0.5, 0.8])
def test_the_constant_of_rmia_is_tuned_on_a_reference_and_finds_more_than_another(truth: float) -> None:
    """Models give a row p, and a p + 1 - a if they were trained on it; target and references alike."""
    rng = generator(5)
    rows, count = 3000, 9
    difficulty = torch.rand(rows, generator=rng)
    member = torch.rand(count, rows, generator=rng).argsort(dim=1) < rows // 2

    def odds(inside: torch.Tensor) -> torch.Tensor:
        noisy = (difficulty + 0.05 * torch.randn(inside.shape, generator=rng)).clamp(0.001, 0.999)
        return torch.where(inside, truth * noisy + (1 - truth) * 0.98, noisy).clamp(0.001, 0.999).logit()

    target_member = torch.rand(rows, generator=rng) < 0.5
    outside = torch.zeros(count, rows, dtype=torch.bool)
    r = References(odds(member), member, odds(outside), odds(outside[0]))
    observed = odds(target_member)

    def area(component: Rmia) -> float:
        scores = component.statistic(observed, r.target_population_log_odds, r, count)
        return auc(scores.numpy(), target_member.numpy())

    areas = [area(Rmia(offline=constant / 10)) for constant in range(11)]
    assert area(Rmia(mode="tuned")) == pytest.approx(max(areas), abs=0.01)
    alone = replace(r, member=torch.zeros_like(member))
    untuned = Rmia(mode="tuned").statistic(observed, r.target_population_log_odds, alone, count)
    assert torch.equal(untuned, Rmia().statistic(observed, r.target_population_log_odds, alone, count))


def test_without_references_the_reason_is_given() -> None:
    shadow, target = leaking(20, 0), leaking(20, 1)
    with pytest.raises(HarnessError, match="reference models"):
        Lira().build(CPU)(MembershipQuery(*shadow, *target[:2]))


def test_risk_scores_equal_a_loop_over_classes_and_bins() -> None:
    rng = np.random.default_rng(0)
    shadow, target = rng.lognormal(size=300), rng.lognormal(size=200)
    shadow[:5], member = 0, rng.random(300) < 0.4
    labels, target_labels = rng.integers(0, 3, 300), rng.integers(0, 4, 200)
    prior = 0.3
    scores = risk_scores(shadow, member, labels, target, target_labels, 4, prior)
    for value, label, score in zip(target, target_labels, scores, strict=True):
        rows = labels == label if (labels == label).any() else np.ones(300, bool)
        logs = np.log10(np.maximum(shadow[rows], FLOOR))
        edges = np.linspace(logs.min(), logs.max(), BINS + 1)

        def share(values: np.ndarray, edges: np.ndarray = edges) -> np.ndarray:
            return np.histogram(np.log10(np.maximum(values, FLOOR)), edges)[0] / max(len(values), 1)

        inside, outside = share(shadow[rows & member]), share(shadow[rows & ~member])
        with np.errstate(invalid="ignore"):
            r = prior * inside / (prior * inside + (1 - prior) * outside)
        bin_index = int(np.clip(np.searchsorted(edges, np.log10(max(value, FLOOR)), side="right") - 1, 0, BINS - 1))
        occupied = np.flatnonzero(~np.isnan(r))
        nearest = min(occupied, key=lambda b: (abs(b - bin_index), b))
        assert score == pytest.approx(r[nearest], abs=1e-12)


def test_precision_recall_and_calibration_by_hand() -> None:
    scores, member = np.array([0.9, 0.9, 0.6, 0.2]), np.array([True, False, True, False])
    precision, recall = precision_and_recall(scores, member, np.array([1.0, 0.9, 0.5]))
    assert np.isnan(precision[0])
    assert precision[1:].tolist() == pytest.approx([0.5, 2 / 3])
    assert recall.tolist() == [0, 0.5, 1]
    assert calibration_rmse(scores, member) == pytest.approx(np.sqrt((2 * 0.4**2 + 0.4**2 + 0.2**2) / 4))


def test_a_risk_of_nine_tenths_reaches_nine_tenths_in_every_precision() -> None:
    exact, member = np.array([0.9, 0.9, 0.6, 0.2]), np.array([True, False, True, False])
    for scores in (exact, exact.astype(np.float32), (exact - 0.5).astype(np.float32) + np.float32(0.5), exact - 1e-12):
        precision, recall = precision_and_recall(scores, member, np.array([0.9]))
        assert (precision[0], recall[0]) == (0.5, 0.5)
        assert calibration(scores, member)[2].tolist() == [1, 1, 2]


def test_modified_entropy_of_a_certain_wrong_answer_is_the_floor() -> None:
    assert float(-ModifiedEntropy().value(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))) == pytest.approx(
        -2 * np.log(1e-30), rel=1e-5
    )


def test_the_known_half_of_the_target_never_holds_a_row_that_is_guessed() -> None:
    """Each row is guessed once, by what the other half says; a query tells the membership of the known half alone."""
    q, member = query(41)
    halves = known_halves(q, member)
    taken = torch.zeros(41, dtype=torch.int64)
    for indices, half_query in halves:
        taken[indices] += 1
        rest = torch.ones(41, dtype=torch.bool)
        rest[indices] = False
        torch.testing.assert_close(half_query.target_outputs, q.target_outputs[indices])
        torch.testing.assert_close(half_query.shadow_outputs, q.target_outputs[rest])
        assert torch.equal(half_query.shadow_member, member[rest])
        assert half_query.references is None
        assert half_query.gradients is not None
        assert q.gradients is not None
        torch.testing.assert_close(half_query.gradients.shadow_features, q.gradients.target_features[rest])
        torch.testing.assert_close(half_query.gradients.target_error, q.gradients.target_error[indices])
        assert half_query.layers is not None
        assert q.layers is not None
        torch.testing.assert_close(half_query.layers.shadow_inputs, q.layers.target_inputs[rest])
        torch.testing.assert_close(half_query.layers.target_slopes, q.layers.target_slopes[indices])
        torch.testing.assert_close(half_query.layers.target_norms, q.layers.target_norms[indices])
    assert (taken == 1).all()


def test_an_attack_that_knows_rows_of_the_target_finds_a_leak_that_its_shadow_model_has_not() -> None:
    """The shadow model is surer of its members, the target less sure: what the one teaches is wrong of the other.

    With as many members as others, the best guess by one Gaussian logit, whose means are d = 2 apart, is right with
    probability Phi(d / 2), about .84. Three further logits are noise and lower it somewhat.
    """
    outputs, labels, member = leaking(2000, 5)
    q = MembershipQuery(*leaking(2000, 6), outputs, labels)
    against = ~member
    learnt = installed().one("evaluator", "neural[epochs=10,width=64]").build(CPU)
    informed = installed().one("evaluator", "neural-known[epochs=10,width=64]")
    assert float(((learnt(q) >= 0) == against).float().mean()) < 0.35
    infer, scores = informed.build(CPU), torch.empty(2000)
    for indices, half_query in known_halves(q, against):
        scores[indices] = infer(half_query)
    assert 0.65 < float(((scores >= 0) == against).float().mean()) < 0.84
    for evaluator in (informed, *(installed().one("evaluator", f"white-box{name}-known") for name in ("", "-layers"))):
        assert "known" in evaluator.reads
        assert evaluator.opt_in


def test_a_star_does_not_select_what_only_a_name_selects() -> None:
    names = {evaluator.info.id for evaluator in named(installed(), "evaluator", ["*", "harness/neural-known"])}
    assert "harness/neural-known" in names
    assert "harness/white-box-known" not in names
    assert "harness/white-box" in names


def test_rounding_hides_what_moves_no_decimal_from_the_attack() -> None:
    """Outputs that move by less than 0.05 keep their scores from the attack that rounds them to one decimal.

    The attack that does not round gives them other scores.
    """
    exact, rounded = (
        installed().one("evaluator", f"{name}[epochs=3,width=16]").build(CPU) for name in ("neural", "neural-rounded")
    )
    q, _ = query(60)
    steps = torch.randint(0, 10, q.target_outputs.shape, generator=generator(4)) / 10
    noise = 0.04 * (2 * torch.rand(steps.shape, generator=generator(5)) - 1)
    clean, noisy = replace(q, target_outputs=steps), replace(q, target_outputs=steps + noise)
    torch.testing.assert_close(rounded(noisy), rounded(clean))
    torch.testing.assert_close(rounded(clean), exact(clean), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(exact(noisy), exact(clean), atol=1e-4)


def test_each_class_has_a_network_that_learns_from_its_own_rows_alone() -> None:
    q, member = query()
    evaluator = installed().one("evaluator", "neural-per-class[epochs=20,learning_rate=0.01]")
    scores = evaluator.build(CPU)(q)
    assert float(((scores >= 0) == member).float().mean()) > 0.6
    others = q.shadow_labels != 1
    changed = torch.where(others[:, None], q.shadow_outputs.flip(1), q.shadow_outputs)
    again = evaluator.build(CPU)(replace(q, shadow_outputs=changed))
    same = q.target_labels == 1
    torch.testing.assert_close(again[same], scores[same], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(again[~same], scores[~same], atol=1e-2)


def test_robust_training_loses_less_to_perturbed_outputs_than_plain_training() -> None:
    """Both attacks get the target's probabilities moved towards the wrong answer; with epsilon near 0 both agree."""
    q, member = query(600)
    robust = installed().one("evaluator", "neural-robust[epochs=10,width=32]")
    plain = installed().one("evaluator", "neural[epochs=10,width=32]")
    nothing = robust.with_parameters(epsilon=1e-9)
    torch.testing.assert_close(nothing.build(CPU)(q), plain.build(CPU)(q), rtol=1e-2, atol=1e-3)

    def lost(evaluator: MembershipEvaluator) -> float:
        infer, moved = evaluator.build(CPU), q.target_outputs
        true_probability = moved.gather(1, q.target_labels[:, None])[:, 0]
        toward = torch.where(member, true_probability - 0.1, true_probability + 0.1).clamp(
            0, 1
        )  # members less sure, the others surer
        moved = moved.scatter(1, q.target_labels[:, None], toward[:, None])
        clean, attacked = infer(q), infer(replace(q, target_outputs=moved))
        return float((clean - attacked)[member].mean() - (clean - attacked)[~member].mean())

    assert lost(robust) < 0.8 * lost(plain)
