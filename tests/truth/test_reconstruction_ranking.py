"""Which protected model leaks least, for attacks with a closed form and defenses with known effects."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.recomputed import of_report
from tests.truth.test_perceptual import Simulated
from tests.truth.test_reconstruction import (
    COUNT,
    NETWORK,
    PLAIN,
    SIDE,
    SILENT,
    TRACK,
    Eyes,
    Idle,
    Oracle,
    Pictures,
    Silent,
    Spoilt,
    pictures,
)

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.data import ImageSet
from imharness.documents.tables import Table
from imharness.gradients import (
    GradientDefense,
    Gradients,
    ImageRng,
    Images,
    Info,
    Progress,
    ProtectGradients,
    Reconstruct,
    ReconstructionAttack,
)
from imharness.leaderboard import Value
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness.tracks import TrackReport
from imharness_reconstruction.ranked import measure, ranked_models
from imharness_reconstruction.tables import report

DOUBLED, SAME, SPOILT = "acme/doubled", "acme/same", "acme/spoilt[level=6]"
MODEL = "harness/mlp[hidden=(16,)]"


class Album(Pictures):
    """The images of `Pictures`, for training and for attacks alike."""

    info = Info(id="acme/album", version="1")
    split: str = "test"

    def build(self, device: torch.device) -> ImageSet:
        return super().build(device)


def brighter(bias: torch.Tensor) -> torch.Tensor:
    """Return a factor for each image, 2 to 3, from the share of positive values in its bias gradient, (n, 1, 1)."""
    return 2 + (bias > 0).to(bias.dtype).mean(dim=1)[:, None, None]


class Doubled(GradientDefense):
    """Multiplies the gradient of the first weights by 2 or more, so that unaware attacks return too bright images.

    The factor differs from image to image, so that no fixed map of coordinates undoes it.
    """

    info = Info(id=DOUBLED, version="1")

    def build(self, device: torch.device) -> ProtectGradients:
        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            first, bias = list(gradients)[:2]
            return {**gradients, first: brighter(gradients[bias]) * gradients[first]}

        return protect


class Mapped(GradientDefense):
    """Multiplies the gradient of each layer or coordinate by a number of its own, by which anybody can divide."""

    info = Info(id="acme/mapped", version="1")
    how: str = "layers"

    def build(self, device: torch.device) -> ProtectGradients:
        def factor(index: int, values: torch.Tensor) -> torch.Tensor:
            if self.how == "layers":
                return values.new_tensor((3.0, 0.1)[index % 2])
            if self.how == "signs":
                return values.new_tensor((1.0, -1.0)[index % 2])
            return 1 + torch.linspace(-0.9, 3, values[0].numel()).view(values.shape[1:]).abs()

        def protect(gradients: Gradients, rng: ImageRng) -> Gradients:
            return {name: values * factor(i, values) for i, (name, values) in enumerate(gradients.items())}

        return protect


class Same(GradientDefense):
    """Changes nothing."""

    info = Info(id=SAME, version="1")

    def build(self, device: torch.device) -> ProtectGradients:
        return lambda gradients, rng: dict(gradients)


class Halver(ReconstructionAttack):
    """The oracle after division by the factor of `Doubled`, which this attack knows."""

    info = Info(id="acme/halver", version="1")

    def build(self, device: torch.device) -> Reconstruct:
        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            weight, bias = list(gradients.values())[:2]
            rows, unit = torch.arange(len(bias)), bias.abs().argmax(dim=1)
            grown = weight / brighter(bias)
            return (grown[rows, unit] / bias[rows, unit, None]).nan_to_num(0.5).view(-1, *shape).clamp(0, 1)

        return reconstruct


def study(folder: Path, defenses: list[str], attacks: list[str]) -> TrackReport:
    """Train the network under each defense, attack it, and return the report without the step `recognise`.

    Nine images are too few to compare shares of recognised ones; `leaderboard` simulates 30.
    """
    components = (Album(), Doubled(), Mapped(), Same(), Halver(), Oracle(), Idle(), Spoilt(), Silent(), Eyes())
    registry = installed().joined([Registered(c, "test", Provenance("test", "1")) for c in components])
    select = {
        "dataset": ["acme/album"],
        "model": [NETWORK],
        "attack": attacks,
        "defense": defenses,
        "metric": ["psnr", "mse"],
    }
    options = {"judge": "acme/eyes", "epochs": 150, "batch_size": 9, "learning_rate": 0.05}
    settings = TrackProfile(select=select, options=options)
    graph = plan_track(TRACK, Profile(name="truth", description="", tracks={TRACK: settings}), registry)
    cache = BuildCache(registry, Store(folder), torch.device("cpu"), 16)
    records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    return report(ResultQuery(cache.store, [record for record in records if record.spec.step != "recognise"]))


def psnr(images: Images) -> np.ndarray:
    """Return the peak signal-to-noise ratio of each image to its original, dB."""
    return -10 * (images - pictures()).square().flatten(1).mean(dim=1).log10().numpy()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> TrackReport:
    attacks = ["acme/oracle", "acme/halver", "acme/idle"]
    return study(tmp_path_factory.mktemp("ranking"), [PLAIN, DOUBLED, SPOILT, SILENT], attacks)


def tasks(outcomes: TrackReport) -> dict[str, dict[str, Value]]:
    return {row.label.replace(f"{MODEL} + ", ""): dict(row.values) for row in outcomes.tables[0].rows}


def test_a_defense_that_one_attack_breaks_is_ranked_by_it(outcomes: TrackReport) -> None:
    """The oracle converges for no image behind `Doubled`; the attack that knows the factor recovers all."""
    rows, ranking = tasks(outcomes), outcomes.rankings[0]
    assert outcomes.tables[0].id == "ranking"
    # rounding to 8 bits leaves 10 log10(12 * 255^2) = 58.9 dB
    assert rows[PLAIN]["worst"].value == pytest.approx(58.9, abs=0.3)
    assert rows[DOUBLED]["worst"].value == pytest.approx(58.9, abs=0.3)
    assert ranking.places[f"{MODEL} + {DOUBLED}"].broken_by == {"acme/halver": 1.0}
    assert ranking.places[f"{MODEL} + {PLAIN}"].broken_by == {"acme/oracle": 1.0}
    assert rows[SPOILT]["worst"].value < 30
    assert ranking.winner == f"{MODEL} + {SPOILT}"
    assert ranking.places[f"{MODEL} + {PLAIN}"].control == "no defense"
    assert {condition["attack"] for condition in outcomes.comparisons[0].conditions} == {
        "acme/oracle",
        "acme/halver",
        "acme/idle",
    }
    assert rows[SPOILT]["coverage"].value == 100


def test_a_map_of_each_coordinate_that_anybody_can_take_back_protects_nobody(tmp_path: Path) -> None:
    """Attacks that match gradients fail on such ones; an attack that knows the map divides by it first."""
    maps = [f"acme/mapped[how={how}]" for how in ("coordinates", "signs")]
    leaderboard = study(tmp_path, [PLAIN, "acme/mapped", *maps], ["acme/oracle", "acme/idle"])
    rows, ranking = tasks(leaderboard), leaderboard.rankings[0]
    for label in ("acme/mapped", *maps):
        assert rows[label]["worst"].value == pytest.approx(rows[PLAIN]["worst"].value, abs=0.05), label
        assert ranking.places[f"{MODEL} + {label}"].gate != "fails"
    assert ranking.winner == ""


def test_zeros_protect_and_cost_all_utility(outcomes: TrackReport) -> None:
    rows, ranking = tasks(outcomes), outcomes.rankings[0]
    assert rows[PLAIN]["utility"].value == 1
    assert rows[SILENT]["utility"].value < 0.5
    assert ranking.places[f"{MODEL} + {SILENT}"].gate == "fails"
    assert ranking.gate == pytest.approx(0.95)


def test_the_mean_image_is_the_floor_and_is_never_crowned(outcomes: TrackReport) -> None:
    mean = pictures().mean(dim=0).mul(255).round() / 255
    floor = psnr(mean.expand(COUNT, 3, SIDE, SIDE)).mean()
    rows, position = tasks(outcomes), outcomes.rankings[0].places["mean image"]
    assert rows["mean image"]["worst"].value == pytest.approx(floor, abs=1e-3)
    assert (position.control, position.broken_by) == ("no gradient", {})


def test_the_numbers_of_the_headline_follow_from_the_scores_on_the_leaderboard(outcomes: TrackReport) -> None:
    ranking, paired = outcomes.rankings[0], outcomes.comparisons[0]
    numbers = []
    for entry in (ranking.winner, ranking.undefended):
        row, worst = paired.entries.index(entry), {}
        for names, block in zip(paired.units, paired.values, strict=True):
            for name, number in zip(names, block[row].tolist(), strict=True):
                if number == number:
                    worst[name] = max(worst.get(name, -np.inf), number)
        numbers.append(np.mean(list(worst.values())))
    assert [float(text) for text in re.findall(r"(\d+\.\d) dB", ranking.claim)] == pytest.approx(numbers, abs=0.051)
    assert any("psnr for people" in proxy for proxy in ranking.proxies)


def test_a_defense_that_changes_nothing_is_not_told_from_none(tmp_path: Path) -> None:
    result = study(tmp_path, [PLAIN, SAME], ["acme/oracle"])
    assert not result.rankings[0].winner
    assert result.rankings[0].outcome == "bound"


def test_the_closed_form_of_cafe_is_all_that_an_attack_can_reach(tmp_path: Path) -> None:
    """The first layer is linear: least squares gives the pictures back from gradients of batches."""
    result = study(tmp_path, [PLAIN], ["cafe[batch=2]", "acme/oracle"])
    means = [t.rows[0].values["harness/psnr"].value for t in result.tables if t.id.startswith("models")]
    assert means == pytest.approx([58.9, 58.9], abs=0.3)
    assert tasks(result)[PLAIN]["worst"].value == pytest.approx(58.9, abs=0.3)


def test_where_no_attack_converged_nothing_is_known(tmp_path: Path) -> None:
    result = study(tmp_path, [PLAIN, SPOILT], ["acme/idle"])
    rows = tasks(result)
    for defense in (PLAIN, SPOILT):
        assert rows[defense]["worst"].missing == "attacks converged for 0 of 9 images only"
    assert not result.rankings[0].winner


def test_what_ranks_is_fixed_and_nobody_brings_it() -> None:
    assert measure(["evil/fine", "harness/mse", "harness/psnr", "harness/semsim"]) == "harness/psnr"
    assert measure(["evil/fine", "harness/mse"]) == "harness/mse"
    assert measure(["evil/fine"]) == "evil/fine"


def leaderboard(ranked: np.ndarray, recognised: np.ndarray, converged: np.ndarray | None = None) -> TrackReport:
    """Return the tables of two defenses on 30 photographs, one of which may be better by PSNR, recognition, or both.

    `ranked`: PSNR ``(3, 30)`` without a defense, behind "one" and behind "two"; `recognised` and `converged` likewise.
    """
    ended = np.ones(ranked.shape, dtype=bool) if converged is None else converged
    condition = {"dataset": "x/album", "attack": "harness/invgrad", "model": "x/net"}
    defenses = (PLAIN, "harness/one", "harness/two")
    tasks = [{**condition, "defense": d, "name": f"p{i:02d}"} for d in defenses for i in range(30)]
    fields = {"source": "", "state": "trained", "loss": 0.0}
    scores = [
        {**task, "metric": "harness/psnr", "score": float(score), "closeness": 1}
        for task, score in zip(tasks, ranked.ravel(), strict=True)
    ]
    votes = [{**task, "recognised": bool(vote)} for task, vote in zip(tasks, recognised.ravel(), strict=True)]
    facts = [
        {**task, **fields, "source": task["name"], "converged": bool(met)}
        for task, met in zip(tasks, ended.ravel(), strict=True)
    ]
    right = [
        {"dataset": "x/album", "model": "x/net", "defense": d, "name": f"t{i}", "source": f"t{i}", "right": True}
        for d in defenses
        for i in range(300)
    ]
    return ranked_models(Simulated(leakage=scores, recognise=votes, reconstruct=facts, train=right), 0.05)


@pytest.mark.parametrize("agrees", [True, False])
def test_who_is_recognised_more_does_not_win_however_low_its_psnr(agrees: bool) -> None:
    """By PSNR "one" leaks least by far; it wins only if it is recognised less often, too."""
    rng = np.random.default_rng(0)
    psnr = np.array([[24.0], [9.0], [18.0]]) + rng.normal(0, 1, (3, 30))
    votes = rng.random((3, 30)) < np.array([[1.0], [0.0 if agrees else 0.9], [0.9 if agrees else 0.1]])
    (ranking,) = leaderboard(psnr, votes).rankings
    one, two = "x/net + harness/one", "x/net + harness/two"
    assert ranking.winner == (one if agrees else "")
    assert ranking.outcome == ("winner" if agrees else "measures disagree")
    assert agrees or ranking.claim.startswith(f"Measures disagree: {one} leads {two} by ")
    assert "top-1 of a classifier, not people" in ranking.proxies
    assert len(ranking.secondary_measures) == 2


def test_a_place_that_the_numbers_do_not_show_is_said() -> None:
    """On each image "one" leaks 1 dB less, but on the ten that leak most only attacks on "one" converge."""
    psnr = np.where(np.arange(30) < 10, 20.0, 10.0) + np.array([[9.0], [-1.0], [0.0]])
    psnr = psnr + np.random.default_rng(0).normal(0, 0.1, (3, 30))
    ended = np.ones((3, 30), dtype=bool)
    one, two = "x/net + harness/one", "x/net + harness/two"

    def table_of(converged: np.ndarray) -> Table:
        return leaderboard(psnr, np.ones((3, 30), dtype=bool), converged).tables[0]

    assert "reverse order" not in table_of(ended).note
    ended[2, :10] = False
    table = table_of(ended)
    first, second = table.rows[:2]
    assert (first.label, second.label) == (one, two)
    assert first.values["worst"].number_or(0) > second.values["worst"].number_or(0) + 1
    assert f"Places put {one} before {two} by the private images that two entries share; " in table.note


def test_every_sentence_follows_from_the_scores_on_the_leaderboard(outcomes: TrackReport) -> None:
    assert of_report(outcomes)
