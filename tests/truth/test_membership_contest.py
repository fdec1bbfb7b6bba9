"""Which defense wins: known for one that one evaluator breaks, one independent of its members, and equal ones."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.recomputed import of_report
from tests.truth.studies import STUDIES, most
from tests.truth.test_membership import PLAIN, Simulated, study

from imharness.leaderboard import Column, Value
from imharness.membership import (
    DefenderOutputs,
    InferMembership,
    Info,
    MembershipDefenseInfo,
    MembershipEvaluator,
    MembershipQuery,
    MembershipRelease,
    MembershipTraining,
    Progress,
    ReleaseOutputs,
    Scores,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
)
from imharness.results.query import ResultQuery
from imharness.tracks import TrackReport
from imharness_membership.defenses.plain_training import PlainTraining
from imharness_membership.tables import report
from imharness_membership.tables.calibrated import Calibrated
from imharness_membership.tables.choice import Parts, figures_of_parts, parted
from imharness_membership.tables.contest import ranked_defenses
from imharness_membership.tables.figures import scores_of
from imharness_membership.tables.rates import Figures, figures_at
from imharness_membership.thresholds import margins

ELSEWHERE, CODED = "acme/elsewhere", "acme/coded"
STEP = 1e-3


class Elsewhere(MembershipTraining):
    """Trains on other rows than its members, so that members and non-members are alike to the network."""

    info = MembershipDefenseInfo(id=ELSEWHERE, version="1")

    def build(self, device: torch.device) -> TrainPrivately:
        plain = PlainTraining().build(device)

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            others = TrainingData(*([data.reference_features, data.reference_labels] * 2))
            return plain(network, others, plan, rng, progress)

        return train


class Code(torch.nn.Module):
    """Answers as a network, but with the largest probability an even multiple of `STEP` for members, odd for others."""

    def __init__(self, network: torch.nn.Module, members: torch.Tensor) -> None:
        super().__init__()
        self.network, self.members = network, members.flatten(1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        member = torch.cdist(features.flatten(1), self.members).amin(dim=1) < 1e-3
        outputs = self.network(features).softmax(dim=1).double()
        top = outputs.max(dim=1)
        code = (top.values.clamp(0.3, 0.99) / (2 * STEP)).floor() * 2 + (~member).double()
        rest = outputs.scatter(1, top.indices[:, None], 0)
        probabilities = (1 - code * STEP)[:, None] * rest / rest.sum(dim=1, keepdim=True).clamp(min=1e-9)
        return probabilities.scatter(1, top.indices[:, None], code[:, None] * STEP).clamp(min=1e-12).log().float()


class Coded(Elsewhere):
    """Trains as `Elsewhere` does, and writes membership into the last digits of the answers."""

    info = MembershipDefenseInfo(id=CODED, version="1")

    def build(self, device: torch.device) -> TrainPrivately:
        elsewhere = super().build(device)

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            return Code(elsewhere(network, data, plan, rng, progress), data.features).eval()

        return train


class Decoder(MembershipEvaluator):
    """Learns from shadow models whether even or odd multiples of `STEP` mean membership."""

    info = Info(id="acme/decoder", version="1")

    def build(self, device: torch.device) -> InferMembership:
        def odd(outputs: torch.Tensor) -> torch.Tensor:
            return ((outputs.amax(dim=1) / STEP).round() % 2).double()

        def infer(query: MembershipQuery) -> Scores:
            inside = query.shadow_member.double() - query.shadow_member.double().mean()
            return ((odd(query.target_outputs) - 0.5) * (odd(query.shadow_outputs) * inside).sum().sign()).float()

        return infer


class Squeezed(MembershipRelease):
    """Releases nearly equal probabilities ("even"), those at temperature 8 ("hot"), or permuted ones ("turned")."""

    info = MembershipDefenseInfo(id="acme/squeezed", version="1")
    how: str = "even"

    def build(self, device: torch.device) -> ReleaseOutputs:
        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            if self.how == "even":
                return 0.01 * outputs + 0.99 / outputs.shape[1]
            if self.how == "hot":
                return (outputs.clamp(min=1e-30).log() / 8).softmax(dim=1)
            return outputs.roll(1, dims=1)

        return release


@pytest.fixture(scope="module")
def squeezed(tmp_path_factory: pytest.TempPathFactory) -> TrackReport:
    """The report on six splits of `Squeezed`, whose releases reveal as much as the outputs in another form."""
    names = ["confidence[per_class=False]", "modified-entropy[per_class=False]", "entropy[per_class=False]"]
    defenses = [PLAIN, "acme/squeezed", "acme/squeezed[how=hot]", "acme/squeezed[how=turned]"]
    options = {"splits": 6, "part": 150, "epochs": 40}
    return report(study(tmp_path_factory.mktemp("squeezed"), defenses, names, [Squeezed()], options))


def test_outputs_that_are_rescaled_give_as_much_away(squeezed: TrackReport) -> None:
    """Shadow models are defended as the target is, so that thresholds move with the outputs."""
    ranking, rows = squeezed.rankings[0], {row.label: row.values for row in squeezed.tables[0].rows}
    for label in ("acme/squeezed", "acme/squeezed[how=hot]"):
        verdicts = squeezed.comparisons[0].differences
        i, j = (squeezed.comparisons[0].entries.index(name) for name in (label, PLAIN))
        assert not verdicts.better[i, j], label
        assert rows[label]["worst"].low > 0.5
        assert ranking.places[label].gate != "fails"
    assert ranking.winner == ""


def test_outputs_that_are_permuted_cost_all_accuracy(squeezed: TrackReport) -> None:
    assert squeezed.rankings[0].places["acme/squeezed[how=turned]"].gate == "fails"


def test_the_order_of_margins_is_that_of_the_values_whatever_their_scale() -> None:
    """So an increasing map of the values changes neither AUC nor the rates at few false positives."""
    rng = torch.Generator().manual_seed(0)
    shadow, target = (torch.rand(200, generator=rng) for _ in range(2))
    query = MembershipQuery(
        shadow_outputs=torch.rand(200, 3, generator=rng),
        shadow_labels=torch.zeros(200, dtype=torch.int64),
        shadow_member=torch.rand(200, generator=rng) < shadow,
        target_outputs=torch.rand(200, 3, generator=rng),
        target_labels=torch.zeros(200, dtype=torch.int64),
    )
    plain = margins(query, shadow, target, per_class=False)
    mapped = margins(query, *(0.5 + 0.01 * outputs.sqrt() for outputs in (shadow, target)), per_class=False)
    assert torch.equal(plain >= 0, mapped >= 0)
    assert torch.equal(plain.argsort(), mapped.argsort())


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> ResultQuery:
    """Eight splits of three defenses, with too few non-members for a rate at 1 %."""
    one, each = ("confidence[per_class=False]", "modified-entropy[per_class=False]"), ("confidence", "modified-entropy")
    names = [*one, *each, "correctness", "privacy-risk", "acme/decoder"]
    options = {"splits": 8, "part": 120, "epochs": 40}
    folder = tmp_path_factory.mktemp("contest")
    return study(folder, [PLAIN, ELSEWHERE, CODED], names, [Elsewhere(), Coded(), Decoder()], options)


@pytest.fixture(scope="module")
def ranked_report(query: ResultQuery) -> TrackReport:
    return report(query)


def test_one_evaluator_that_breaks_a_defense_decides(query: ResultQuery, ranked_report: TrackReport) -> None:
    """In the mean over all attacks, "coded" is better than no defense; the decoder reads all its members."""
    ranking, rows = ranked_report.rankings[0], {row.label: row.values for row in ranked_report.tables[0].rows}
    guessed = query("SELECT defense, avg(CAST((score >= 0) = member AS INT)) AS mean FROM evaluate GROUP BY defense")
    means = dict(zip(guessed["defense"], guessed["mean"], strict=True))
    assert means[CODED] < means[PLAIN]
    assert rows[CODED]["worst"].value == pytest.approx(1)
    assert rows[CODED]["unaware"].value == pytest.approx(0.5, abs=0.1)
    assert rows[CODED]["aware"].value == pytest.approx(1)
    assert ranking.places[CODED].broken_by == {"acme/decoder": 1.0}
    assert [row.label for row in ranked_report.tables[0].rows if not ranking.places[row.label].control][-1] == CODED
    assert ranking.winner == ELSEWHERE
    assert rows[ELSEWHERE]["worst"].value == pytest.approx(0.5, abs=0.05)


def test_the_headline_is_what_the_rows_say(query: ResultQuery, ranked_report: TrackReport) -> None:
    """The test computes it from rows of all tasks; the attack of a split is the best one on the next three splits."""
    rows = query('SELECT defense, evaluator, adaptive, split, dataset, "row", member, score FROM evaluate')
    right = (rows["score"] >= 0) == rows["member"]

    def accuracies(defense: str, attack: tuple[str, bool]) -> list[float]:
        selected = (rows["defense"] == defense) & (rows["evaluator"] == attack[0]) & (rows["adaptive"] == attack[1])
        values = []
        for split in range(8):
            sides = [right[selected & (rows["split"] == split) & (rows["member"] == side)] for side in (True, False)]
            values.append(float(np.mean([side.mean() for side in sides])))
        return values

    attacks = sorted(
        set(zip(rows["evaluator"].tolist(), rows["adaptive"].tolist(), strict=True)), key=lambda a: (a[0], -a[1])
    )
    worst = {}
    for defense in (PLAIN, ELSEWHERE):
        of = {attack: accuracies(defense, attack) for attack in attacks}
        best = [
            max(attacks, key=lambda a: round(sum(of[a][(split + k) % 8] for k in (1, 2, 3)), 9)) for split in range(8)
        ]
        worst[defense] = [of[attack][split] for split, attack in enumerate(best)]
    leak, plain = (f"{100 * np.mean(worst[defense]):.1f} %" for defense in (ELSEWHERE, PLAIN))
    assert (
        ranked_report.rankings[0].claim
        == f"{ELSEWHERE} leaks least: {leak} of guesses right, {plain} without a defense."
    )
    comparison, numbers = ranked_report.comparisons[0].stored()
    assert ranked_report.rankings[0].comparison == comparison.id
    for defense, values in worst.items():
        assert numbers[comparison.entries.index(defense)] == pytest.approx(values, abs=1e-6)


def test_the_headline_says_how_many_are_accused_where_the_rate_ranks() -> None:
    query = Simulated(2, 0, splits=8, spread=0.1, evaluators=4, gap=(1.0, 0.0))
    result = contest_of(query, 0.25)
    worst = {row.label: row.values["worst"].value for row in result.tables[0].rows}
    assert result.rankings[0].winner == "x/01"
    leak, plain = (f"{100 * worst[label]:.1f} %" for label in ("x/01", PLAIN))
    assert (
        result.rankings[0].claim == f"x/01 leaks least: {leak} of members named at 25% FPR, {plain} without a defense."
    )


def test_evaluators_that_guess_tell_nothing(tmp_path: Path) -> None:
    names = [f"acme/noise[number={number}]" for number in range(4)]
    options = {"splits": 6, "epochs": 1}
    result = report(study(tmp_path, [PLAIN, "acme/nothing", ELSEWHERE], names, [Elsewhere()], options))
    for row in result.tables[0].rows:
        assert row.values["worst"].value == pytest.approx(0.5, abs=0.08)
    assert not result.rankings[0].winner
    assert result.rankings[0].outcome == "bound"
    assert {position.against.verdict for position in result.rankings[0].places.values() if position.against} == {
        "undecided"
    }


SAME = Column("test", "Test accuracy", "", "higher", value=lambda _: Value(value=0.9))


def contest_of(query: Simulated, fpr: float = 0.01) -> TrackReport:
    """Return the ranking of a study of defenses with equal test accuracy; see `contests_of`."""
    (result,) = contests_of(query, fpr)
    return result


def contests_of(query: Simulated, *rates: float) -> list[TrackReport]:
    """Return rankings of a study by rates at some FPRs, or by accuracy where non-members are too few for a rate."""
    kinds = [figures_at(fpr) for fpr in rates]
    figures = figures_of_parts(parted(scores_of(query)), {key: value for some in kinds for key, value in some.items()})
    return [_contest(query, figures, kind) for kind in kinds]


def _contest(query: Simulated, figures: Parts, kinds: Figures) -> TrackReport:
    tested = {label: {str(split): 0.89 + 0.001 * split for split in range(8)} for label in figures.reported.entries}
    return ranked_defenses(query, figures, kinds, SAME, tested, 0.05, Calibrated({}, "no task"))


def test_of_equal_defenses_any_is_told_apart_in_at_most_5_percent_of_studies() -> None:
    """Four defenses leak equally on average against 4 evaluators; leakage varies from split to split.

    By balanced accuracy, and by the rate at 25 % false positives, which ranks with 60 non-members in each split.
    """
    wrong, crowned = (dict.fromkeys(("accuracy", "tpr25"), 0) for _ in range(2))
    for seed in range(STUDIES):
        query = Simulated(4, seed, splits=8, spread=0.3, evaluators=4)
        for first, result in zip(wrong, contests_of(query, 0.01, 0.25), strict=True):
            assert result.comparisons[0].id == f"defense-wins-{first}"
            wrong[first] += bool(result.comparisons[0].differences.better.any())
            crowned[first] += bool(result.rankings[0].winner)
    assert max(wrong.values()) <= most(), wrong
    assert max(crowned.values()) <= most(), crowned


def test_a_defense_that_finds_fewer_members_is_told() -> None:
    """Members score one standard deviation above non-members without a defense, and equally behind x/01.

    By balanced accuracy at least 0.9 of studies tell, and by the rate at 25 % false positives 0.8. Of 40 studies that
    tell in half of the cases, so many do with a probability below 0.001.
    """
    detected, studies = np.zeros(2, np.int64), 40
    for seed in range(studies):
        query = Simulated(2, seed, splits=8, spread=0.1, evaluators=4, gap=(1.0, 0.0))
        detected += [bool(result.comparisons[0].differences.better[1, 0]) for result in contests_of(query, 0.01, 0.25)]
    assert (detected >= np.array([0.9, 0.8]) * studies).all(), detected


def test_an_evaluator_that_one_defense_escaped_leaves_it_without_a_rank() -> None:
    """One of the 14 evaluators has no scores of x/03, so that x/03 is incomplete."""
    query = Simulated(4, 0, splits=8)
    query.remove("defense = 'x/03' AND evaluator = 'x/05'")
    result = contest_of(query)
    last, control = result.tables[0].rows[-2:]
    assert (last.label, control.label) == ("x/03", PLAIN)
    assert last.values["rank"].value is None
    assert last.values["coverage"].value == pytest.approx(100 * 13 / 14)
    assert not result.rankings[0].places["x/03"].complete


def test_a_split_that_one_defense_alone_was_measured_on_takes_nobody_s_place() -> None:
    query = Simulated(4, 0, splits=8, spread=0.1, evaluators=4, gap=(1.0, 0.1, 0.5, 0.6))
    query.remove("split = 7 AND defense <> 'x/03'")
    further = contest_of(query)
    query.remove("split = 7")
    without = contest_of(query)
    assert {row.values["coverage"].value for row in further.tables[0].rows} == {100}
    assert further.rankings[0].claim == without.rankings[0].claim
    assert further.rankings[0].may_be_best[0] == "x/01"


def test_every_sentence_follows_from_the_scores_on_the_leaderboard(ranked_report: TrackReport) -> None:
    assert of_report(ranked_report)
