"""Judged sets made by hand, with scores computed by hand; published layouts; attacks on distances."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.leaderboard import Blocks, Value
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile
from imharness.running.target import MetricTarget, storable
from imharness_perceptual.ranked import _human_agreement, _note_above_one
from imharness_perceptual.steps import spread
from imharness_perceptual.tables import report
from imharness_perceptual.verdicts import another_person, average_precision, ceiling, credit, majority

CPU = torch.device("cpu")


def test_credit_is_the_share_of_people_agreed_with() -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0])
    np.testing.assert_allclose(credit(first, second, np.array([0.2, 0.2, 0.2])), [0.8, 0.2, 0.5])
    np.testing.assert_allclose(credit(first * np.nan, second, first), np.full(3, np.nan))
    np.testing.assert_allclose(ceiling(np.array([0.0, 0.5, 0.8])), [1.0, 0.5, 0.68])
    np.testing.assert_allclose(majority(np.array([0.0, 0.5, 0.8])), [1.0, 0.5, 0.8])


def test_another_person_is_the_share_of_judges_that_agree_two_by_two() -> None:
    votes = np.array([[0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 0, 1, 0]])
    pairs = [np.mean([a == b for a, b in itertools.combinations(answers, 2)]) for answers in votes]
    np.testing.assert_allclose(another_person(votes.mean(axis=1), np.full(3, 5)), pairs)
    assert np.isnan(another_person(np.array([1.0, 1.0]), np.array([1, 0]))).all()


def test_average_precision_by_hand() -> None:
    assert average_precision(np.array([1.0, 2, 3, 4]), np.array([1.0, 1, 0, 0])) == 1
    assert average_precision(np.array([4.0, 3, 2, 1]), np.array([1.0, 1, 0, 0])) == pytest.approx(0.5)
    assert average_precision(np.array([1.0, 2, 3]), np.array([1.0, 0, 1])) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert np.isnan(average_precision(np.array([1.0, 2]), np.zeros(2)))


def test_average_precision_of_a_constant_distance_is_the_base_rate_whatever_the_order() -> None:
    for same in ([1.0, 1, 0, 0], [0.0, 0, 1, 1]):
        assert average_precision(np.zeros(4), np.array(same)) == pytest.approx(0.5)


def test_average_precision_of_some_pairs_is_that_of_these_pairs_alone() -> None:
    rng = np.random.default_rng(0)
    distance, same, counted = rng.integers(0, 9, (3, 40)).astype(float), rng.random((3, 40)), rng.random((3, 40)) < 0.5
    precisions = average_precision(distance, same, counted)
    alone = [average_precision(d[c], s[c]) for d, s, c in zip(distance, same, counted, strict=True)]
    np.testing.assert_allclose(precisions, alone)


def patch(file: Path, shade: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), (shade, shade, shade)).save(file)


def verdict(file: Path, share: float) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, np.array([share], dtype=np.float32))


def bapps(root: Path) -> Path:
    """Write two families with two forced choices and three JND pairs each, and return the folder.

    By MSE, alternative 0 is nearer in the first choice of a family and alternative 1 in the second.
    """
    for family, shares in (("blur", (0.2, 1.0)), ("noise", (0.4, 0.0))):
        folder = root / "2afc" / "val" / family
        for number, share in enumerate(shares):
            patch(folder / "ref" / f"{number}.png", 100)
            patch(folder / "p0" / f"{number}.png", 110 if number == 0 else 150)
            patch(folder / "p1" / f"{number}.png", 150 if number == 0 else 110)
            verdict(folder / "judge" / f"{number}.npy", share)
        folder = root / "jnd" / "val" / family
        for number, (shade, share) in enumerate(((101, 1.0), (120, 0.0), (105, 1.0))):
            patch(folder / "p0" / f"{number}.png", 100)
            patch(folder / "p1" / f"{number}.png", shade)
            verdict(folder / "same" / f"{number}.npy", share)
    return root


def test_a_judged_set_in_the_published_layout_gives_the_score_computed_by_hand(tmp_path: Path, no_site: None) -> None:
    folder, store = bapps(tmp_path / "bapps"), tmp_path / "store"
    words = [
        "run",
        "--track",
        "perceptual",
        "--metric",
        "mse",
        "--metric",
        "l2",
        "--metric",
        "mae",
        "--attack",
        "ifgsm",
    ]
    sets = ["--dataset", f"bapps[path={folder},size=16]", "--dataset", f"bapps[path={folder},size=16,test=jnd]"]
    result = CliRunner().invoke(
        cli, [*words, *sets, "--workers", "0", "--store", str(store), "--site", str(tmp_path / "site")]
    )
    assert "none failed" in result.output, result.output
    tables = {t["id"]: t for t in json.loads(next((store / "leaderboards").glob("*.json")).read_text())["tables"]}
    rows = {row["label"]: row["values"] for row in tables["agreement"]["rows"]}
    assert rows["harness/mse"]["all"]["value"] == pytest.approx((0.8 + 1.0 + 0.6 + 0.0) / 4)
    assert rows["harness/mse"]["blur"]["value"] == pytest.approx(0.9)
    assert rows["people"]["all"]["value"] == pytest.approx((0.2**2 + 0.8**2 + 1 + 0.4**2 + 0.6**2 + 1) / 4)
    assert rows["another person"]["all"]["value"] == pytest.approx((0.6 + 1 + 0.4 + 1) / 4)
    assert rows["majority of people"]["all"]["value"] == pytest.approx((0.8 + 1 + 0.6 + 1) / 4)
    noticeable = {row["label"]: row["values"] for row in tables["jnd"]["rows"]}
    assert noticeable["harness/mse"]["map"]["value"] == pytest.approx(1)
    assert [row["label"] for row in tables["agreement"]["rows"][-3:]] == [
        "people",
        "another person",
        "majority of people",
    ]


def test_a_patch_without_a_verdict_is_named(tmp_path: Path) -> None:
    folder = bapps(tmp_path)
    (folder / "2afc" / "val" / "blur" / "judge" / "1.npy").write_bytes(b"no array")
    with pytest.raises(HarnessError, match=r"judge/1\.npy contains no share"):
        installed().one("dataset", f"bapps[path={folder}]").build(CPU)
    with pytest.raises(Unavailable, match="data set bapps is not on this machine"):
        installed().one("dataset", "harness/bapps").require()


def tid2013(root: Path) -> Path:
    """Write two references with five noisy versions each in the published layout, and return the folder."""
    rng, lines = np.random.default_rng(0), []
    for source in (1, 2):
        clean = rng.integers(60, 200, (48, 64, 3), dtype=np.uint8)
        for folder in ("reference_images", "distorted_images"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(clean).save(root / "reference_images" / f"I0{source}.BMP")
        for level in range(1, 6):
            noisy = np.clip(clean + rng.normal(0, 8 * level, clean.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(root / "distorted_images" / f"i0{source}_01_{level}.bmp")
            lines.append(f"{7 - level}.5 I0{source}_01_{level}.bmp")
    (root / "mos_with_names.txt").write_text("\n".join(lines) + "\n")
    return root


def test_opinions_are_read_and_correlated_at_several_sizes(tmp_path: Path, no_site: None) -> None:
    folder = tid2013(tmp_path / "tid")
    data = installed().one("dataset", f"tid2013[path={folder},size=32]").build(CPU)
    assert len(data) == 12
    assert data.shapes[0] == (32, 43)
    assert data.columns["mos"][2] == 6.5
    assert [d.size for d in installed().one("dataset", f"tid2013[path={folder}]").variants()] == [
        128,
        192,
        256,
        384,
        512,
    ]
    words = ["run", "--track", "perceptual", "--metric", "mse", "--metric", "linf", "--attack", "square"]
    store = tmp_path / "store"
    sets = ["--dataset", f"tid2013[path={folder}]", "--dataset", f"tid2013[path={folder},size=32]"]
    run = [*words, *sets, "--workers", "0", "--store", str(store), "--site", str(tmp_path / "s")]
    result = CliRunner().invoke(cli, run)
    assert "none failed" in result.output, result.output
    tables = {t["id"]: t for t in json.loads(next((store / "leaderboards").glob("*.json")).read_text())["tables"]}
    best = tables["opinions"]["rows"][0]["values"]
    assert len(best) == 2
    assert all(value["value"] > 0.9 for value in best.values())
    assert "agreement" not in tables


def test_a_target_with_a_reference_scores_and_differentiates_pair_by_pair() -> None:
    images, reference = storable(torch.rand(5, 3, 8, 8)), torch.rand(5, 3, 8, 8)

    def mse(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x - y).square().flatten(1).mean(dim=1)

    target = MetricTarget(mse, (0, 1), images=5, differentiable=True, reference=reference, micro_batch=2)
    leaf = images.clone().requires_grad_(True)
    scores = target(leaf)
    torch.testing.assert_close(scores.detach(), mse(images, reference))
    (gradient,) = torch.autograd.grad(scores.sum(), leaf)
    torch.testing.assert_close(gradient, 2 * (images - reference) / images[0].numel())
    twice = target(images.repeat_interleave(2, dim=0))
    torch.testing.assert_close(twice, mse(images, reference).repeat_interleave(2))


def test_no_results_give_no_tables() -> None:
    class Empty:
        steps = frozenset[str]()

    assert not report(Empty()).tables


def test_a_choice_that_a_limit_cuts_in_two_is_left_out(tmp_path: Path, no_site: None) -> None:
    store = tmp_path / "store"
    one = ["--dataset", "distorted-pairs[size=32,per_photograph=2]", "--metric", "mse", "--attack", "square"]
    run = ["run", "--track", "perceptual", *one, "--limit", "5", "--workers", "0", "--store", str(store)]
    result = CliRunner().invoke(cli, [*run, "--site", str(tmp_path / "site")])
    assert result.exit_code == 0, result.output
    table = json.loads(next((store / "leaderboards").glob("*.json")).read_text())["tables"][1]
    assert table["rows"][0]["values"]["all"]["n"] == 1


def test_attacked_images_are_spread_over_photographs_in_whole_groups() -> None:
    ladder = installed().one("dataset", "harness/severity-ladder[size=32,per_photograph=2]").build(CPU)
    drawn = spread(ladder, 21)
    assert len(drawn) == 20
    assert len({str(ladder.columns["photograph"][p]) for p in drawn}) == 4
    groups = [(str(ladder.columns["reference"][p]), str(ladder.columns["family"][p])) for p in drawn]
    assert all(groups.count(group) == 5 for group in groups)
    assert len(spread(ladder, 0)) == 9 * 2 * 20
    assert len(spread(ladder, 1)) == 5
    pairs = installed().one("dataset", "harness/distorted-pairs[size=32,per_photograph=3]").build(CPU)
    chosen = spread(pairs, 8)
    drawn_from = [str(pairs.columns["photograph"][p]) for p in chosen]
    assert len(set(drawn_from)) == len(chosen) == 8
    assert all(pairs.columns["choice"][p] == 0 for p in chosen)
    assert len(spread(pairs, 0)) == 9 * 3


def test_attacks_by_gradient_meet_each_ball_and_those_by_queries_or_of_a_substitute_the_largest() -> None:
    settings = {
        "select": {"dataset": ["severity-ladder[size=64]"], "metric": ["mse"], "attack": ["*"]},
        "options": {"radii": [1, 4], "substitutes": ["harness/l2"]},
    }
    track = "harness/perceptual"
    graph = plan_track(track, Profile(name="test", description="", tracks={track: settings}), installed())
    specs = [task.spec for task in graph.tasks.values() if task.spec.step == "attack"]
    attacks = {(spec.components["attack"].id.partition("/")[2], spec.options["radius"]) for spec in specs}
    white, black = {"ifgsm", "apgd"}, {"square", "nes"}
    assert attacks == {(name, radius) for name in white for radius in (1, 4)} | {(name, 4) for name in black}
    lent = [spec for spec in specs if "substitute" in spec.components]
    assert {(s.components["attack"].id.partition("/")[2], s.options["radius"]) for s in lent} == {
        (name, 4) for name in white
    }
    assert len(specs) == len(attacks) + len(lent)
    sizes = {
        s.components["attack"].parameters.get("radius", s.components["attack"].parameters.get("eps")) for s in specs
    }
    assert sizes == {1 / 255, 4 / 255}


def judged_patches(root: Path, share: float = 0.2) -> Path:
    """Write patches of ten photographs in three families with one share of votes; return the folder of the families."""
    for family in ("blur", "noise", "warp"):
        folder = root / "2afc" / "val" / family
        for number in range(10):
            pixels = np.random.default_rng(number).integers(0, 200, (16, 16, 3), dtype=np.uint8)
            for kind, more in (("ref", 0), ("p0", 10), ("p1", 30)):
                (folder / kind).mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels + np.uint8(more)).save(folder / kind / f"{number}.png")
            verdict(folder / "judge" / f"{number}.npy", share)
    return root / "2afc" / "val"


def read_patches(root: Path):
    return installed().one("dataset", f"bapps[path={root},size=16]").build(CPU)


def test_patches_of_one_photograph_count_as_one(tmp_path: Path) -> None:
    judged_patches(tmp_path)
    with pytest.warns(UserWarning, match="30 images look like 10 photographs.* say so in patches.csv"):
        patches = read_patches(tmp_path)
    assert len(patches) == 90
    assert len(set(patches.columns["photograph"])) == 10
    photographs = dict(zip(patches.names, patches.columns["photograph"], strict=True))
    assert photographs["noise/3/p1"] == photographs["warp/3/ref"] == "blur/3"
    assert set(patches.columns["judges"][np.isnan(patches.columns["judge"])]) == {0}


def test_a_table_says_what_patches_were_cut_from_and_how_many_were_asked(tmp_path: Path) -> None:
    folder = judged_patches(tmp_path, share=0.25)
    rows = [f"{family}/{n}.png,p{n // 5},4" for family in ("blur", "noise", "warp") for n in range(10)]
    (folder / "patches.csv").write_text("\n".join(["patch,photograph,judges", *rows, ""]))
    patches = read_patches(tmp_path)
    assert set(patches.columns["photograph"]) == {"p0", "p1"}
    assert set(patches.columns["judges"]) == {0, 4}
    apart = [f"{row.partition(',')[0]},{i},4" for i, row in enumerate(rows)]
    (folder / "patches.csv").write_text("\n".join(["patch,photograph,judges", *apart, ""]))
    with pytest.warns(UserWarning, match="20 of 30 images look like copies .* such as noise/0 of blur/0"):
        read_patches(tmp_path)
    for wrong, message in (
        (["patch,photograph", *rows], "has no column judges"),
        (["patch,photograph,judges", *rows[1:]], r"no line for 1 patches, such as blur/0"),
        (["patch,photograph,judges", *[row[:-1] + "5" for row in rows]], "0.25 is no share of the 5 people"),
        (["patch,photograph,judges", *[row[:-1] + "0" for row in rows]], "line 2: judges must be a number of people"),
        (["patch;photograph;judges", *rows], "columns are separated by semicolons"),
        (["patch,photograph,judges", *rows, rows[3]], "line 32: blur/3 has a line already, 5"),
        (["patch,photograph,judges", *rows[1:], "blur/0,,4"], "line 31: photograph is empty"),
    ):
        (folder / "patches.csv").write_text("\n".join([*wrong, ""]))
        with pytest.raises(HarnessError, match=message):
            read_patches(tmp_path)


def test_shares_of_another_number_of_people_are_said(tmp_path: Path) -> None:
    judged_patches(tmp_path, share=0.35)
    with (
        pytest.warns(UserWarning, match="look like 10"),
        pytest.warns(UserWarning, match="30 verdicts, as of blur/0, are no share of 5 people"),
    ):
        patches = read_patches(tmp_path)
    assert np.isnan(patches.columns["judges"][~np.isnan(patches.columns["judge"])]).all()


@pytest.mark.parametrize("share", [1.1, -0.01, float("nan"), float("inf"), [0.2, 0.4]])
def test_what_is_no_share_is_refused(tmp_path: Path, share: object) -> None:
    folder = judged_patches(tmp_path)
    np.save(folder / "noise" / "judge" / "3.npy", np.atleast_1d(np.array(share, np.float32)))
    with pytest.raises(HarnessError, match=r"noise/judge/3\.npy does not hold a share of people"):
        read_patches(tmp_path)


def test_no_agreement_is_a_share_of_what_two_coins_reach() -> None:
    def reach(judge: list[float], judges: int) -> dict[str, float]:
        n = len(judge)
        about = {"judge": np.array(judge), "judges": np.full(n, judges), "family": np.full(n, "f", object)}
        choices = Blocks(
            ("m",),
            ({"distortion": "f"},),
            (np.arange(n),),
            {"all": (np.zeros((1, n)),)},
            {name: (values,) for name, values in about.items()},
        )
        return _human_agreement(choices)

    assert reach([0.2, 0.8], 5) == {"f": pytest.approx(0.6)}
    assert reach([0.0, 1.0], 0) == {"f": 1}
    for judge, judges in (([0.4, 0.6], 5), ([0.5, 0.5], 2), ([0.5, 0.5], 1)):
        with pytest.raises(UsageError, match=r"two people agree on .* of the choices of f, no more often than"):
            reach(judge, judges)


def test_more_agreement_than_people_reach_is_said() -> None:
    assert _note_above_one({"a": Value(value=1.0), "b": Value(value=0.2)}) == ""
    sentence = _note_above_one({"a": Value(value=1.1), "b": Value(value=0.2)})
    assert sentence.startswith("Above 1, which is no error: a. A metric that chooses as most people do")


def noisy_triplets(root: Path, count: int = 5) -> Path:
    """Write forced choices between two noises on one image to `root`; votes follow the noises."""
    rng, folder = np.random.default_rng(0), root / "2afc" / "val" / "noise"
    for number in range(count):
        clean = rng.integers(60, 200, (16, 16, 3))
        spreads = rng.permutation([6.0, 14.0])
        images = [clean, *(clean + rng.normal(0, spread, clean.shape) for spread in spreads)]
        for name, pixels in zip(("ref", "p0", "p1"), images, strict=True):
            file = folder / name / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(file)
        verdict(folder / "judge" / f"{number}.npy", 0.8 if spreads[1] < spreads[0] else 0.2)
    return root


def test_a_patch_of_another_size_than_its_reference_is_named(tmp_path: Path) -> None:
    folder = noisy_triplets(tmp_path)
    Image.new("RGB", (64, 48)).save(folder / "2afc" / "val" / "noise" / "p1" / "3.png")
    with pytest.warns(UserWarning, match=r"1 patches have .* such as noise/3/p1 of 64 x 48 px beside 16 x 16 px"):
        read_patches(folder)


def test_patches_that_are_all_of_a_larger_size_are_resized_without_a_word(tmp_path: Path, recwarn) -> None:
    installed().one("dataset", f"bapps[path={noisy_triplets(tmp_path)},size=32]").build(CPU)
    assert not [warning for warning in recwarn.list if "another size" in str(warning.message)]
