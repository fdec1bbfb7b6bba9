"""Pairs of images whose order is certified, and attacks inside the radius."""

import itertools

import numpy as np
import pytest
import torch
from tests.comparing import compare
from tests.iqa_rows import Finished

from imharness.cli.commands import component, context
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng
from imharness.planning.plan import plan_track
from imharness.planning.profiles import load_profile
from imharness.tracks import Output
from imharness_iqa import certifying
from imharness_iqa.certifications.ms import Ms
from imharness_iqa.tables import certified_order, families
from imharness_iqa.tables.certified_order import kept

NAMES = [f"i{k:02d}" for k in range(8)]


def write(finished: Finished, rows: dict[str, list], inside: dict[str, list] | None = None) -> dict[str, dict]:
    """Store certificates of eight images by one defense, ``x/rs``, and return table -> label -> column -> value.

    `inside` has the rows of attacks inside the radius.
    """
    n = len(NAMES)
    image = {"dataset": ["d"] * n, "metric": ["m"] * n, "name": NAMES}
    same = {**image, "defense": ["x/rs"] * n}
    columns = {"abstained": [False] * n, "attacked": [False] * n, "radius": [0.1] * n, "delta": [np.nan] * n, **rows}
    finished.add("certify", {**same, **columns}, ("dataset", "metric", "defense"))
    clean = {
        "mos": [1.0] * n,
        "lower": [0.0] * n,
        "upper": [10.0] * n,
        "sign": [1] * n,
        "photograph": NAMES,
        "score": [1.0] * n,
    }
    finished.add("clean", {**image, **clean}, ("dataset", "metric"))
    if inside:
        more = {**same, "method": ["a"] * n, "strength": ["weak"] * n, **inside}
        finished.add("inside", more, ("dataset", "metric", "defense"))
    return {
        table.id: {row.label: row.values for row in table.rows}
        for table in certified_order.tables(finished.query(), "")
    }


def test_the_share_of_pairs_is_that_of_counting_them() -> None:
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 10, 40).round(1)
    high = low + rng.exponential(1, 40).round(1)
    low[::7], high[::7] = -np.inf, np.inf
    shares = kept(low, high)
    for i in range(40):
        stays = [low[i] > high[j] or low[j] > high[i] for j in range(40) if j != i]
        assert shares[i] == pytest.approx(np.mean(stays))
    assert np.isnan(kept(np.ones(1), np.ones(1))).all()


def test_certificates_are_ranked_by_the_pairs_that_they_promise_beside_no_defense_which_promises_none(finished) -> None:
    """Each pair counts for both images: the contribution of an image deviates from the mean twice as far as its share.

    The share of an image is that of its pairs that keep their order.
    """
    scores, radii = [1.0, 1, 2, 2, 3, 3, 4, 4], [0.06, 0.3, 0.06, 0.3, 0.15, 0.3, 0.02, 0.0]
    labels = {"low": scores, "high": scores, "entry": ["x/rs"] * 8}
    write(finished, {"score": scores, "reach": radii, **labels})
    report = families.certificates(finished.query(), 0.05)
    (ranking,), rows = report.rankings, {row.label: row.values for row in report.tables[0].rows}
    holds = [reach >= 0.05 for reach in radii]
    shares = [
        100 * np.mean([holds[i] and holds[j] and scores[i] != scores[j] for j in range(8) if j != i]) for i in range(8)
    ]
    assert rows["x/rs"]["worst"].value == pytest.approx(np.mean(shares))
    assert rows["harness/none"]["worst"].value == 0
    assert ranking.table == "ranking-certified"
    assert ranking.undefended == "harness/none"
    _, numbers = report.comparisons[0].stored()
    mine = numbers[report.comparisons[0].entries.index("x/rs")]
    assert sorted(mine) == pytest.approx(sorted(2 * np.array(shares) - np.mean(shares)), rel=1e-5)


def test_no_interval_of_what_is_promised_goes_beyond_all_pairs(finished: Finished) -> None:
    """Of eight images one has no certificate: 75 % of pairs, with a standard error of 21."""
    scores = np.arange(1.0, 9.0).tolist()
    labels = {"low": scores, "high": scores, "entry": ["x/rs"] * 8}
    order = write(finished, {"score": scores, "reach": [0.3] * 7 + [0.01], **labels})["certified-order"]["x/rs"]
    report = families.certificates(finished.query(), 0.05)
    (ranking,), rows = report.rankings, {row.label: row.values for row in report.tables[0].rows}
    comparison, numbers = report.comparisons[0].stored()
    assert compare(comparison.model_copy(update={"limit": None}), numbers, "x/rs", "harness/none").difference.high > 120
    ends = [
        rows["x/rs"]["gain"].high,
        ranking.places["x/rs"].against.high,
        compare(comparison, numbers, "x/rs", "harness/none").difference.high,
        -compare(comparison, numbers, "harness/none", "x/rs").difference.low,
    ]
    assert ends == [100] * 4
    assert (order["r1"].value, rows["x/rs"]["gain"].value) == (pytest.approx(75), pytest.approx(75))
    assert all(0 <= value.low < value.high <= 100 for value in order.values() if value.low is not None)


def test_no_interval_of_pairs_that_are_kept_goes_below_none(finished: Finished) -> None:
    """Two of eight images have certificates: most resamples have neither, and their mean is below 0."""
    scores = np.arange(1.0, 9.0).tolist()
    row = write(finished, {"score": scores, "low": scores, "high": scores, "reach": [0.3] * 2 + [0.0] * 6})
    value = row["certified-order"]["x/rs"]["r1"]
    assert (value.value, value.low) == (pytest.approx(100 / 28), 0)


def test_a_pair_keeps_its_order_in_two_classes_within_both_radii(finished: Finished) -> None:
    scores, radii = [1.0, 1, 2, 2, 3, 3, 4, 4], [0.06, 0.3, 0.06, 0.3, 0.15, 0.3, 0.02, 0.0]
    abstained = [False] * 7 + [True]
    tables = write(finished, {"score": scores, "low": scores, "high": scores, "reach": radii, "abstained": abstained})
    values = tables["certified-order"]["x/rs"]
    for k, radius in enumerate(certified_order.RADII):
        holds = [reach >= radius and not gone for reach, gone in zip(radii, abstained, strict=True)]
        pairs = [holds[i] and holds[j] and scores[i] != scores[j] for i, j in itertools.combinations(range(8), 2)]
        assert values[f"r{k}"].value == pytest.approx(100 * np.mean(pairs))
    assert "certified-inside" not in tables


def test_on_a_linear_metric_those_pairs_are_kept_that_differ_by_more_than_a_change_can_make(finished: Finished) -> None:
    """A change of length 0.05 moves a linear score by at most 0.05 |w|: it can reverse pairs within twice that.

    The scores of the images are `distances` / 4 in units of |w|; a quarter keeps all pixels within [0, 1].
    """
    weights = torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(0))
    length = float(weights.norm())
    distances = torch.tensor([0.0, 0.03, 0.06, 0.2, 0.34, 0.5, 0.55, 0.9])
    images = 0.5 + distances.view(-1, 1, 1, 1) / 4 * weights / length
    smoothing = Ms(samples=20_000, sigma=0.1, epsilon=0.05)
    device = torch.device("cpu")
    raw = smoothing.smooth(device)(lambda x: ((x - 0.5) * weights).sum(dim=(1, 2, 3)), images, ImageRng(range(8)))
    low, high = (bound.tolist() for bound in smoothing.ends(raw))
    value = smoothing.build(device)(raw, (0.0, 1.0)).value.tolist()
    values = write(finished, {"score": value, "low": low, "high": high, "reach": [0.05] * 8})["certified-order"]["x/rs"]
    apart = [abs(a - b) / 4 > 2 * 0.05 for a, b in itertools.combinations(distances.tolist(), 2)]
    assert 0.2 < np.mean(apart) < 0.8
    assert values["r1"].value == pytest.approx(100 * np.mean(apart))
    assert values["r2"].value == 0, "nothing is promised beyond the radius of median smoothing"


def test_a_broken_certificate_is_seen(finished: Finished) -> None:
    """Seven images have an answer. Two move, by 0.4 and by 1 on a range of 10, the second beyond its interval."""
    scores = [1.0, 2, 3, 4, 5, 6, 7, 8]
    inside = {
        "score": [1.0, 2, 3, 4, 5, 6.4, 8, 8],
        "abstained": [False] * 7 + [True],
        "distance": [0.1] * 6 + [0.3, np.nan],
    }
    ends = {"low": [s - 0.5 for s in scores], "high": [s + 0.5 for s in scores], "reach": [0.1] * 6 + [0.3, 0.0]}
    values = write(finished, {"score": scores, **ends}, inside)["certified-inside"]["x/rs"]
    assert values["broken"].value == pytest.approx(100 / 7)
    assert (values["moved"].value, values["moved"].n) == (pytest.approx((4 + 10) / 7), 7)
    assert values["promised"].value == pytest.approx(5)
    assert values["distance"].value == pytest.approx((6 * 0.1 + 0.3) / 7)
    assert values["left_out"].value == pytest.approx(100 / 8)


@pytest.mark.parametrize("name", ["rs", "ms"])
def test_attacked_images_are_pulled_back_into_the_radius_and_break_no_promise(name: str) -> None:
    roles = {
        "dataset": component("dataset", "severity-ladder[severities=[2,4],size=32]"),
        "metric": component("metric", "embedded-cnn"),
        "defense": installed().one("defense", name).with_parameters(selection=20, samples=300),
    }
    images = context(roles, limit=None).images()
    noise = torch.randn(len(images), 3, 32, 32, generator=torch.Generator().manual_seed(0))
    stack = (images.load(list(range(len(images)))) + 0.05 * noise).clamp(0, 1).mul(255).round().byte().numpy()
    options = {"images": 6, "attacked": False}
    passed = certifying.smooth(context(roles, limit=None, options=options))
    promised = certifying.certify(
        context(roles, limit=None, options=options, needs={"noisy": Output({}, passed.arrays)})
    )
    needs = {"attacked": Output({}, {"images-32x32": stack}), "certified": Output(promised.rows, {})}
    pulled = certifying.inside(context(roles, limit=None, options={"images": 6}, needs=needs)).rows
    reach = np.asarray(promised.rows["reach"])
    assert pulled["name"] == promised.rows["name"]
    np.testing.assert_allclose(pulled["distance"], np.where(reach > 0, reach, np.nan), rtol=1e-5)
    certified = (reach > 0) & ~np.asarray(pulled["abstained"])
    assert certified.any()
    low, high, score = (
        np.asarray(values)[certified] for values in (promised.rows["low"], promised.rows["high"], pulled["score"])
    )
    assert ((low <= score) & (score <= high)).all()


def test_one_variant_of_each_certified_defense_meets_attacks_inside_its_radius() -> None:
    tasks = plan_track("harness/iqa", load_profile("embedded"), installed()).tasks
    specs = [task.spec for task in tasks.values() if task.spec.step == "inside"]
    labels = {spec.components["defense"].label for spec in specs}
    named = {f"harness/{name}" for name in ("rs", "ms", "drs", "dms", "ddrs", "dp")}
    assert {label.partition("[")[0] for label in labels} == named
    assert not any("classes=" in label for label in labels)
    for spec in specs:
        needs = {role: tasks[key].spec for role, key in spec.needs.items()}
        assert needs["certified"].components["defense"] == spec.components["defense"]
        assert not needs["certified"].options["attacked"]
        assert not needs["attacked"].options["adaptive"]
