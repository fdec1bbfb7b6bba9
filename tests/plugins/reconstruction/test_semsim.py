"""SemSim: annotated folders, the losses, training, the metric, and its studies."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from matplotlib.figure import Figure
from PIL import Image

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.profiles import load_profile
from imharness_reconstruction.semsim import Annotations, SemSimPlan, SemSimTraining, Triplets
from imharness_reconstruction.semsim_studies import STUDIES, Corpus, Outcome, Setting, outcomes, plot, rival
from imharness_reconstruction.trainings.semsim import read_annotations, selected_annotations, separation

CPU = torch.device("cpu")
TRACK = "harness/reconstruction"


def annotated(root: Path, datasets: tuple[str, ...] = ("one", "two")) -> Path:
    """Write six originals with four reconstructions each, and return their folder.

    The 15 noisy ones are recognised, the 9 mirrored ones are not.
    """
    data = installed().one("dataset", "thumbnails[size=16,per_photograph=1]").build(CPU)
    rng, lines = np.random.default_rng(0), ["file,dataset,attack,model,defense"]
    for number in range(6):
        clean = data.load([number])[0].mul(255).numpy().transpose(1, 2, 0)
        name = f"image-{number}"
        for model in range(4):
            recognised = model < 2 or (model == 2 and number % 2)
            folder = root / (name if recognised else f"-{name}")
            folder.mkdir(parents=True, exist_ok=True)
            base, spread = (clean, 50) if recognised else (clean[:, ::-1], 5)
            noisy = np.clip(base + rng.normal(0, spread, clean.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(folder / f"{model}_rec.png")
            file = f"{folder.name}/{model}_rec.png"
            lines.append(f"{file},{datasets[number % len(datasets)]},attack-{number % 3},m{model},g")
        Image.fromarray(clean.astype(np.uint8)).save(root / name / f"{name}_ori.png")
    (root / "index.csv").write_text("\n".join(lines) + "\n")
    return root


def test_the_published_layout_is_read(tmp_path: Path) -> None:
    images = installed().one("dataset", f"harness/annotated[path={annotated(tmp_path)},size=16]").build(CPU)
    data = read_annotations(images)
    assert len(data.originals) == 6
    assert len(data.reconstructions) == 24
    assert int(data.recognised.sum()) == 15
    assert set(images.columns["dataset"][images.columns["recognised"] >= 0]) == {"one", "two"}


def test_the_index_is_read_with_capitals_and_one_of_another_name_is_named(tmp_path: Path) -> None:
    index = annotated(tmp_path) / "index.csv"
    text = index.read_text()
    index.write_text(text.replace("file,dataset", "File,Dataset", 1))
    data = installed().one("dataset", f"annotated:{tmp_path}")
    assert set(data.build(CPU).columns["dataset"]) == {"", "one", "two"}
    index.rename(tmp_path / "Index.csv")
    with pytest.warns(UserWarning, match=r"has Index\.csv; it is not read; save it as index\.csv"):
        assert "dataset" not in data.build(CPU).columns


def test_lines_of_the_index_that_belong_to_no_image_are_no_silent_loss(tmp_path: Path) -> None:
    """A name in other capitals loses its photograph and attack, which is said; two lines that differ are refused."""
    index = annotated(tmp_path) / "index.csv"
    text = index.read_text()
    data = installed().one("dataset", f"annotated:{tmp_path}")
    index.write_text(text.replace("image-3/0_rec.png", "Image-3/0_rec.png"))
    with (
        pytest.warns(UserWarning, match=r"lines for 1 images that are not there, such as Image-3/0_rec\.png"),
        pytest.warns(UserWarning, match=r"no line for 1 reconstructions, such as image-3/0_rec\.png: they count as"),
    ):
        data.build(CPU)
    index.write_text(f"{text}image-3/0_rec.png,two,attack-9,m0,g\n")
    with pytest.raises(HarnessError, match=r"has two lines of image-3/0_rec\.png that differ"):
        data.build(CPU)


def test_a_folder_without_an_original_is_named(tmp_path: Path) -> None:
    annotated(tmp_path)
    (tmp_path / "image-3" / "image-3_ori.png").unlink()
    with pytest.raises(HarnessError, match="image-3: there is no original"):
        installed().one("dataset", f"harness/annotated[path={tmp_path},size=16]").build(CPU)


def test_files_that_say_two_things_or_are_lost_are_named(tmp_path: Path) -> None:
    """Without the checks an original in a folder of unrecognised images was a reconstruction; losses were silent."""
    index = annotated(tmp_path) / "index.csv"
    text = index.read_text()
    index.unlink()
    data = installed().one("dataset", f"harness/annotated[path={tmp_path},size=16]")
    twice = tmp_path / "-image-0" / "again_rec.png"
    twice.write_bytes((tmp_path / "image-0" / "0_rec.png").read_bytes())
    with pytest.warns(UserWarning, match=r"0_rec\.png: 1 reconstructions stand among those that were recognised and"):
        data.build(CPU)
    twice.unlink()
    original = tmp_path / "image-0" / "image-0_ori.png"
    astray = tmp_path / "-image-0" / original.name
    astray.write_bytes(original.read_bytes())
    with pytest.warns(UserWarning, match="1 originals stand among reconstructions that were not recognised, and are"):
        assert (np.asarray(data.build(CPU).columns["recognised"]) == 0).sum() == 9
    astray.rename(original.with_name("other_ori.png"))
    with pytest.raises(HarnessError, match="image-0: there are 2 originals"):
        data.build(CPU)
    original.with_name("other_ori.png").unlink()
    index.write_text(text)
    for number in (0, 1):
        (tmp_path / "image-2" / f"{number}_rec.png").unlink()
    with pytest.warns(UserWarning, match=r"lines for 2 images that are not there, such as image-2/0_rec\.png"):
        data.build(CPU)


@pytest.mark.filterwarnings("ignore:.*images that are not there")
def test_only_one_kind_of_verdict_teaches_nothing(tmp_path: Path) -> None:
    annotated(tmp_path)
    for folder in tmp_path.glob("-*"):
        for file in folder.iterdir():
            file.unlink()
    images = installed().one("dataset", f"harness/annotated[path={tmp_path},size=16]").build(CPU)
    with pytest.raises(UsageError, match="needs both kinds"):
        read_annotations(images)


@pytest.mark.parametrize("name", ["unseen-attack", "annotations", "loss"])
def test_no_study_trains_on_what_it_tests(tmp_path: Path, name: str) -> None:
    images = installed().one("dataset", f"harness/annotated[path={crossed(tmp_path)},size=16]").build(CPU)
    corpus = Corpus.of(images)
    for setting in STUDIES[name](corpus, SemSimPlan("lenet"), ""):
        one, other = (set(images.source) for images in (setting.train, setting.test))
        assert one
        assert other
        assert not one & other
        assert len(one | other) <= 5
        shared = (setting.train.data.originals[:, None] == setting.test.data.originals[None]).flatten(2).all(dim=2)
        assert not shared.any()


def crossed(root: Path) -> Path:
    """Write ten originals of five photographs, each rebuilt by three attacks from two models; return their folder.

    Reconstructions from the second model are recognised.
    """
    rng, lines = np.random.default_rng(0), ["file,dataset,attack,model,defense,source"]
    for number in range(10):
        name = f"image-{number}"
        for recognised in (True, False):
            (root / (name if recognised else f"-{name}")).mkdir(parents=True)
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(root / name / f"{name}_ori.png")
        for attack in range(3):
            for model in range(2):
                file = f"{name if model else f'-{name}'}/{attack}{model}_rec.png"
                Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(root / file)
                lines.append(f"{file},one,attack-{attack},m{model},g,photograph-{number // 2}")
    (root / "index.csv").write_text("\n".join(lines) + "\n")
    return root


def test_a_study_turns_distances_and_leaves_models_without_a_number_out() -> None:
    count, levels = 24, torch.linspace(0.05, 0.95, 6)
    pixels = torch.rand(4, 3, 8, 8, generator=generator(0))
    reference, model = torch.arange(count) % 4, np.arange(count) // 4
    recognised = torch.arange(count) % 4 < torch.tensor([4, 3, 2, 2, 1, 0])[model]
    data = Annotations(pixels, levels[model][:, None, None, None].expand(-1, 3, 8, 8), reference, recognised)
    names = np.array([f"m{m}" for m in model])
    corpus = Corpus(data, names, names, names, names)

    def level(images: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        return images[:, 0, 0, 0]

    def gaps(images: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        return torch.where(images[:, 0, 0, 0] < 0.1, torch.nan, images[:, 0, 0, 0])

    others = {"distance": (level, -1), "closeness": (level, 1), "gaps": (gaps, -1)}
    setting = Setting("all", corpus, corpus, SemSimPlan("lenet", epochs=1))
    by_metric = {o.metric: o for o in outcomes(setting, others, CPU, 0, lambda done, total: None)}
    assert by_metric["distance"].rho == pytest.approx(-by_metric["closeness"].rho)
    assert by_metric["distance"].rho > 0.98
    assert by_metric["gaps"].rho > 0.97


def test_a_study_is_drawn_with_a_gap_where_nothing_is_defined(tmp_path: Path, figures: list[Figure]) -> None:
    values = [("s1", "m", 0.5, 0.25), ("s1", "n", -0.5, -0.25), ("s2", "m", None, None), ("s3", "n", 1.0, 0.75)]
    plot([Outcome(*each, models=5, originals=5) for each in values], "title", tmp_path / "s.svg")
    gap = np.nan
    expected = {
        "rho": {"m": [0.5, gap, gap], "n": [-0.5, gap, 1]},
        "tau": {"m": [0.25, gap, gap], "n": [-0.25, gap, 0.75]},
    }
    assert [axis.get_title() for axis in figures[0].axes] == [*expected]
    for axis in figures[0].axes:
        lines = {line.get_label(): line for line in axis.lines[:-1]}
        assert {*lines} == {"m", "n"}
        for metric, line in lines.items():
            assert [*line.get_xdata()] == ["s1", "s2", "s3"]
            np.testing.assert_array_equal(np.ma.filled(line.get_ydata(), gap), expected[axis.get_title()][metric])


def test_a_study_counts_psnr_up_to_the_noise_of_8_bits() -> None:
    private = torch.rand(8, 3, 8, 8, generator=generator(0))
    rebuilt = private + 0.1 * torch.tensor([0.0] + [1.0] * 7)[:, None, None, None]
    score, closeness = rival(installed().one("metric", "psnr"), CPU)
    assert closeness == 1
    assert float(score(rebuilt, private).mean()) == pytest.approx((58.92 + 7 * 20) / 8, abs=0.01)
    squared, closeness = rival(installed().one("metric", "mse"), CPU)
    assert closeness == -1
    assert float(squared(100 * rebuilt, 100 * private).max()) == pytest.approx(100)


def test_triplets_are_of_one_original_where_it_has_both_kinds() -> None:
    pixels = torch.arange(8.0).view(8, 1, 1, 1)
    data = Annotations(
        originals=torch.tensor([100.0, 200, 300]).view(3, 1, 1, 1),
        reconstructions=pixels,
        reference=torch.tensor([0, 0, 0, 1, 1, 2, 2, 2]),
        recognised=torch.tensor([1, 0, 0, 1, 1, 0, 0, 0], dtype=torch.bool),
    )
    anchor, near, far = (x.flatten().tolist() for x in Triplets(data)(200, generator(0)))
    assert len(set(anchor)) == 3
    for a, n, f in zip(anchor, near, far, strict=True):
        assert (n, f) in {
            100.0: {(0, 1), (0, 2)},
            200.0: {(p, q) for p in (3, 4) for q in (1, 2, 5, 6, 7)},
            300.0: {(300, q) for q in (5, 6, 7)},
        }[a]


def test_losses_have_their_closed_form() -> None:
    data = Annotations(
        torch.rand(1, 3, 8, 8), torch.rand(2, 3, 8, 8), torch.tensor([0, 0]), torch.tensor([True, False])
    )
    near, far = torch.tensor([1.0, 0.2]), torch.tensor([0.5, 3.0])
    for loss, expected in (("triplet", [1.5, 0.0]), ("contrastive", [1.25, 0.04])):
        training = SemSimTraining(data, SemSimPlan("lenet", loss, epochs=1), generator(0), CPU)
        torch.testing.assert_close(training.loss(near, far), torch.tensor(expected))


@pytest.mark.parametrize("loss", ["triplet", "contrastive"])
def test_training_tells_recognised_from_unrecognised(tmp_path: Path, loss: str) -> None:
    images = installed().one("dataset", f"harness/annotated[path={annotated(tmp_path)},size=16]").build(CPU)
    data = read_annotations(images)
    training = SemSimTraining(data, SemSimPlan("lenet", loss, epochs=30, batch_size=24), generator(0), CPU)
    before = separation(training.network, data)
    for step in range(training.steps):
        training.step(step)
    after = separation(training.network.eval(), data)
    assert before < 0.8
    assert after > 0.9


def test_the_embedded_metric_is_zero_for_equal_images_and_grows_with_noise() -> None:
    score = installed().one("metric", "semsim").build(CPU)
    data = installed().one("dataset", "thumbnails").build(CPU)
    images = data.load(list(range(6)))
    noise = torch.randn(images.shape, generator=generator(0))
    scores = [float(score((images + s * noise).clamp(0, 1), images).mean()) for s in (0, 0.05, 0.3)]
    assert scores[0] < 1e-4
    assert scores[0] < scores[1] < scores[2]


def test_training_metric_and_studies_from_the_command_line(tmp_path: Path) -> None:
    folder, out = annotated(tmp_path / "judged"), tmp_path / "out"
    run = CliRunner().invoke
    train = ["train", "semsim", "--annotations", str(folder), "--backbone", "lenet", "--size", "16", "--epochs", "2"]
    assert run(cli, [*train, "--out", str(out), "--json"]).exit_code == 0
    metric = installed().one("metric", f"semsim[weights={out / 'semsim.safetensors'}]")
    assert metric.build(CPU)(torch.zeros(2, 3, 16, 16), torch.ones(2, 3, 16, 16)).shape == (2,)
    study = ["--annotations", str(folder), "--backbone", "lenet", "--size", "16", "--epochs", "1", "--metric", "mse"]
    for name, settings in (("leave-one-out", 2), ("unseen-attack", 2), ("annotations", 1), ("loss", 2), ("margin", 5)):
        plot, drawn = tmp_path / f"{name}.svg", name in ("annotations", "margin")  # the fewest settings and the most
        result = run(cli, ["reconstruction", "semsim", name, *study, *(["--plot", str(plot)] if drawn else [])])
        assert result.exit_code == 0, result.output
        assert result.output.count("semsim ") >= settings
        assert not drawn or plot.stat().st_size > 1000


def test_what_a_training_leaves_out_is_not_in_it(tmp_path: Path) -> None:
    images = installed().one("dataset", f"harness/annotated[path={annotated(tmp_path)},size=16]").build(CPU)
    subset = selected_annotations(images, "two", "attack-2")
    rebuilt = subset.columns["recognised"] >= 0
    assert set(subset.columns["dataset"][rebuilt]) == {"one"}
    assert set(subset.columns["attack"][rebuilt]) == {"attack-2"}
    assert set(subset.columns["reference"][rebuilt]) == set(subset.columns["reference"][~rebuilt]) == {"image-2"}
    with pytest.raises(UsageError, match="'three'; there are one, two"):
        selected_annotations(images, "three", "")


def test_a_network_measures_only_the_data_set_that_it_has_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leave-one-out of table 1: the metric says how to get its weights, finds them, and is planned on one data set."""
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path / "assets"))
    metric = installed().one("metric", "semsim[backbone=lenet,unseen=harness/digit-images]")
    with pytest.raises(Unavailable) as missing:
        metric.require()
    remedy = str(missing.value.remedy)
    folder = re.search(r"--out (\S+)", remedy).group(1)
    assert "--unseen harness/digit-images --attack harness/invgrad" in remedy
    assert folder.endswith("trained/semsim-lenet-without-harness-digit-images")
    annotated(tmp_path / "judged", ("harness/digit-images[size=16]", "harness/thumbnails"))
    text = (tmp_path / "judged/index.csv").read_text()
    (tmp_path / "judged/index.csv").write_text(re.sub("attack-.", "harness/invgrad", text))
    words = remedy.replace("FOLDER", str(tmp_path / "judged")).replace(
        folder, f"{tmp_path}/assets/trained/{Path(folder).name}"
    )
    done = CliRunner().invoke(cli, [*words.split()[1:], "--epochs", "1", "--size", "16"])
    assert done.exit_code == 0, done.output
    metric.require()
    assert metric.build(CPU)(torch.zeros(2, 3, 16, 16), torch.zeros(2, 3, 16, 16)).shape == (2,)
    select = {
        "dataset": ["thumbnails[size=16]", "digit-images[size=16]"],
        "model": ["untrained"],
        "attack": ["invgrad"],
        "defense": ["plain-gradient"],
        "metric": ["psnr", metric.label],
    }
    profile = Profile(name="small", description="", tracks={TRACK: TrackProfile(select=select)})
    graph = plan_track(TRACK, profile, installed())
    measured = {
        (components["dataset"].id, components["metric"].id)
        for task in graph.tasks.values()
        if task.spec.step == "leakage"
        for components in [task.spec.components]
    }
    assert measured == {
        ("harness/thumbnails", "harness/psnr"),
        ("harness/digit-images", "harness/psnr"),
        ("harness/digit-images", "harness/semsim"),
    }


def test_the_paper_profile_leaves_each_data_set_out_once() -> None:
    settings = load_profile("paper").tracks[TRACK]
    unseen = sorted(str(m).split("unseen=")[1].rstrip("]") for m in settings.select["metric"] if "unseen" in m)
    ids = sorted(installed().one("dataset", d).info.id for d in settings.select["dataset"])
    assert unseen == ids
    assert len(ids) == 5


@pytest.mark.parametrize(("decay", "clip", "rates"), [("cosine", 1.0, False), ("none", 0.0, True)])
def test_the_printed_recipe_has_a_constant_rate_and_no_bound(decay: str, clip: float, rates: bool) -> None:
    data = Annotations(
        torch.rand(1, 3, 8, 8), torch.rand(2, 3, 8, 8), torch.tensor([0, 0]), torch.tensor([True, False])
    )
    plan = SemSimPlan("lenet", epochs=4, margin=1000.0, decay=decay, clip=clip)
    training = SemSimTraining(data, plan, generator(0), CPU)
    before = [p.detach().clone() for p in training.network.parameters()]
    training.step(0)
    moved = torch.cat(
        [(p - b).detach().flatten() for p, b in zip(training.network.parameters(), before, strict=True)]
    ).norm()
    norm = torch.cat([p.grad.flatten() for p in training.network.parameters()]).norm()
    assert float(moved) == pytest.approx(0.1 * float(norm), rel=1e-3)
    assert bool(norm <= 1.0 + 1e-4) or not clip
    for step in (1, 2):
        training.step(step)
    rate = training._decay.get_last_lr()[0]
    assert (rate == pytest.approx(0.1)) is rates
    assert rates or rate == pytest.approx(0.1 * (1 + np.cos(np.pi * 3 / 4)) / 2)


PROFILE = """
name = "small"
description = "For a test."

[tracks."harness/reconstruction"]
select = { dataset = ["thumbnails[size=16,per_photograph=1]"], model = ["untrained"], attack = ["invgrad[steps=8]"], defense = ["gaussian-gradient"], metric = ["mse"] }
options = { epochs = 1, judge = "harness/lenet" }
"""  # noqa: E501


def test_the_outcome_of_a_study_reaches_the_leaderboard(tmp_path: Path, no_site: None) -> None:
    store, site = tmp_path / "store", tmp_path / "site"
    (tmp_path / "small.toml").write_text(PROFILE)
    run = ["run", "--track", "reconstruction", "--profile", str(tmp_path / "small.toml"), "--limit", "2"]
    ran = CliRunner().invoke(cli, [*run, "--workers", "0", "--store", str(store), "--site", str(site)])
    assert ran.exit_code == 0, ran.output
    study = [
        "--annotations",
        str(annotated(tmp_path / "judged")),
        "--backbone",
        "lenet",
        "--size",
        "16",
        "--epochs",
        "1",
    ]
    result = CliRunner().invoke(
        cli, ["reconstruction", "semsim", "loss", *study, "--metric", "mse", "--store", str(store), "--json"]
    )
    assert result.exit_code == 0, result.output
    leaderboard = json.loads(next((store / "leaderboards").glob("*reconstruction*.json")).read_text())
    (table,) = (t for t in leaderboard["tables"] if t["id"] == "semsim-loss")
    values_by_label = {row["label"]: row["values"] for row in table["rows"]}
    assert set(values_by_label) == {
        f"{loss}: {metric}" for loss in ("triplet", "contrastive") for metric in ("semsim", "mse")
    }
    for outcome in json.loads(result.stdout)["settings"]:
        tasks = values_by_label[f"{outcome['setting']}: {outcome['metric']}"]
        assert tasks["originals"]["value"] == outcome["originals"]
        assert tasks["tau"].get("value") == (None if outcome["tau"] is None else pytest.approx(outcome["tau"]))
        assert tasks["|tau|"].get("value") == (None if outcome["tau"] is None else pytest.approx(abs(outcome["tau"])))
    assert any(t["id"] == "models" for t in leaderboard["tables"])
