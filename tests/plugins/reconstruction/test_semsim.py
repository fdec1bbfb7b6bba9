"""SemSim: annotated folders, the losses, training, the metric, and its studies."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness.errors import HarnessError, UsageError
from imharness_reconstruction.semsim import Annotations, SemSimPlan, SemSimTraining, Triplets
from imharness_reconstruction.semsim_studies import STUDIES, Corpus, Setting, outcomes, rival
from imharness_reconstruction.trainings.semsim import read_annotations, separation

CPU = torch.device("cpu")


def annotated(root: Path, datasets: tuple[str, ...] = ("one", "two")) -> Path:
    """Originals with four reconstructions each: noisy ones are recognised, mirrored ones are not."""
    data = installed().one("dataset", "thumbnails[size=16,per_photograph=1]").build(CPU)
    rng, lines = np.random.default_rng(0), ["file,dataset,attack,model,defense"]
    for number in range(6):
        clean = data.load([number])[0].mul(255).numpy().transpose(1, 2, 0)
        name = f"image-{number}"
        for model in range(4):
            recognised = model < 2 or (model == 2 and number % 2)
            folder = root / (name if recognised else f"-{name}")
            folder.mkdir(parents=True, exist_ok=True)
            shown, spread = (clean, 50) if recognised else (clean[:, ::-1], 5)
            noisy = np.clip(shown + rng.normal(0, spread, clean.shape), 0, 255).astype(np.uint8)
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


def test_a_folder_without_an_original_is_named(tmp_path: Path) -> None:
    annotated(tmp_path)
    (tmp_path / "image-3" / "image-3_ori.png").unlink()
    with pytest.raises(HarnessError, match="image-3: there is no original"):
        installed().one("dataset", f"harness/annotated[path={tmp_path},size=16]").build(CPU)


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
        one, other = (set(part.source) for part in (setting.train, setting.test))
        assert one
        assert other
        assert not one & other
        assert len(one | other) <= 5
        shared = (setting.train.data.originals[:, None] == setting.test.data.originals[None]).flatten(2).all(dim=2)
        assert not shared.any()


def crossed(root: Path) -> Path:
    """Ten originals of five photographs, each rebuilt by three attacks from two models."""
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
    found = {o.metric: o for o in outcomes(setting, others, CPU, 0, lambda done, total: None)}
    assert found["distance"].rho == pytest.approx(-found["closeness"].rho)
    assert found["distance"].rho > 0.98
    assert found["gaps"].rho > 0.97


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
    found = [float(score((images + s * noise).clamp(0, 1), images).mean()) for s in (0, 0.05, 0.3)]
    assert found[0] < 1e-4
    assert found[0] < found[1] < found[2]


def test_training_metric_and_studies_from_the_command_line(tmp_path: Path) -> None:
    folder, out = annotated(tmp_path / "judged"), tmp_path / "out"
    run = CliRunner().invoke
    train = ["train", "semsim", "--annotations", str(folder), "--backbone", "lenet", "--size", "16", "--epochs", "2"]
    assert run(cli, [*train, "--out", str(out), "--json"]).exit_code == 0
    metric = installed().one("metric", f"semsim[weights={out / 'semsim.safetensors'}]")
    assert metric.build(CPU)(torch.zeros(2, 3, 16, 16), torch.ones(2, 3, 16, 16)).shape == (2,)
    study = ["--annotations", str(folder), "--backbone", "lenet", "--size", "16", "--epochs", "1", "--metric", "mse"]
    for name, settings in (("leave-one-out", 2), ("unseen-attack", 2), ("annotations", 1), ("loss", 2), ("margin", 5)):
        plot = tmp_path / f"{name}.svg"
        result = run(cli, ["reconstruction", "semsim", name, *study, "--plot", str(plot)])
        assert result.exit_code == 0, result.output
        assert result.output.count("semsim ") >= settings
        assert plot.stat().st_size > 1000
