"""Image protections, policies, the noise of gradients, and the training of classifiers under a defense."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image, ImageEnhance, ImageOps

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator
from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.gradients import ImagePool, ImageProtection
from imharness.training_runs.engine import by_name
from imharness_reconstruction.classifiers import ClassifierTraining, Schedule, everyday, top1
from imharness_reconstruction.defenses.laplacian_gradient import laplacian
from imharness_reconstruction.defenses.mixup import LARGEST
from imharness_reconstruction.policy_search import accuracy, candidates, privacy, search
from imharness_reconstruction.transformations import TRANSFORMATIONS, operations, parse_policy, transformed

CPU = torch.device("cpu")
PROTECTIONS = [e.component for e in installed().entries.values() if isinstance(e.component, ImageProtection)]


@pytest.fixture(scope="module")
def pool() -> ImagePool:
    data = installed().one("dataset", "thumbnails[split=train,per_photograph=1,size=16]").build(CPU)
    labels = torch.from_numpy(data.columns["label"]).long()
    return ImagePool(data.load(list(range(len(data)))), torch.nn.functional.one_hot(labels).float())


@pytest.mark.parametrize("protection", [pytest.param(r, id=r.label) for r in PROTECTIONS])
def test_a_protection_keeps_shapes_and_range_and_no_image_depends_on_the_batch(
    protection: ImageProtection, pool: ImagePool
) -> None:
    images, targets = pool.images[:6], pool.targets[:6]
    original = images.clone()
    protect = protection.build(CPU)
    protected, labels = protect(images, targets, pool, ImageRng(range(6)))
    assert torch.equal(images, original)
    assert protected.shape == images.shape
    assert labels.shape == targets.shape
    assert 0 <= float(protected.min()) <= float(protected.max()) <= 1
    torch.testing.assert_close(labels.sum(dim=1), torch.ones(6))
    alone, label = protect(images[4:5], targets[4:5], pool, ImageRng([4]))
    torch.testing.assert_close(alone, protected[4:5])
    torch.testing.assert_close(label, labels[4:5])


def test_no_image_weighs_more_than_published_in_a_mixture(pool: ImagePool) -> None:
    count = 300
    protect = installed().one("defense", "mixup[count=2]").build(CPU)
    image_targets = torch.zeros(count, pool.targets.shape[1])
    image_targets[:, 0] = 1
    others = ImagePool(pool.images, torch.nn.functional.one_hot(torch.ones(len(pool.images)).long(), 9).float())
    _, labels = protect(pool.images[:1].expand(count, -1, -1, -1), image_targets, others, ImageRng(range(count)))
    assert float(labels.max()) <= LARGEST + 1e-6
    assert float(labels[:, 0].mean()) == pytest.approx(0.5, abs=0.03)


def test_transformations_do_what_their_names_say(pool: ImagePool) -> None:
    x = pool.images[:2]
    torch.testing.assert_close(operations()["invert"](x, 1.0, 1), 1 - x)
    for published, uncovered, brightness in ((True, 0.0, 0.5), (False, 0.5, 0.1)):
        moved = operations(published)["translateX"](x, 1 / 0.453 / 4, 1)  # by a quarter; strength 1 moves by 150 / 331
        torch.testing.assert_close(moved[..., 4:], x[..., :-4])
        assert float(moved[..., :4].min()) == float(moved[..., :4].max()) == uncovered
        torch.testing.assert_close(operations(published)["brightness"](x, 1.0, -1), brightness * x)
    assert {name for name, _, _ in TRANSFORMATIONS} <= set(operations())


def by_pillow(image: Image.Image, index: int, sign: int) -> Image.Image:
    """Apply one transformation as the published code describes it, with Pillow."""
    name, _, level = TRANSFORMATIONS[index]
    m, affine = level / 9, Image.Transform.AFFINE
    enhance = {"color": "Color", "contrast": "Contrast", "sharpness": "Sharpness", "brightness": "Brightness"}
    if name in enhance:
        return getattr(ImageEnhance, enhance[name])(image).enhance(1 + 0.5 * m * sign)
    if name == "rotate":
        return image.rotate(30 * m, fillcolor=(128, 128, 128))
    if name == "shearY":
        return image.transform(image.size, affine, (1, 0, 0, 0.3 * m * sign, 1, 0), Image.Resampling.BILINEAR)
    if name.startswith("translate"):
        shift = 150 / 331 * m * sign * image.size[0]
        coefficients = (1, 0, shift, 0, 1, 0) if name == "translateX" else (1, 0, 0, 0, 1, shift)
        return image.transform(image.size, affine, coefficients)
    if name == "posterize":
        return ImageOps.posterize(image, round(8 - 4 * m))
    if name == "solarize":
        return ImageOps.solarize(image, 256 * (1 - m))
    return getattr(ImageOps, name)(image)


@pytest.mark.parametrize("policy", [*([i] for i in range(len(TRANSFORMATIONS))), [3, 1, 7], [43, 18, 18]], ids=str)
def test_policies_do_to_every_image_what_the_published_code_does(policy: list[int]) -> None:
    data = installed().one("dataset", "thumbnails[per_photograph=1,size=32]").build(CPU)
    images = data.load(list(range(9)))
    changed = transformed(images, [policy], ImageRng(range(9)))
    for before, after in zip(images, changed, strict=True):
        source = Image.fromarray(before.mul(255).round().byte().permute(1, 2, 0).numpy())
        errors = []
        for signs in itertools.product((-1, 1), repeat=len(policy)):
            picture = source
            for index, sign in zip(policy, signs, strict=True):
                picture = by_pillow(picture, index, sign)
            expected = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1) / 255
            errors.append(float((after - expected).abs().mean()))
        assert min(errors) < 0.01


def test_what_semsim_prints_and_what_the_published_code_does_are_both_held(pool: ImagePool) -> None:
    """Table 3: TranslateX & Invert & TranslateY, and TranslateY & Autocontrast & Autocontrast."""
    names = {p: [TRANSFORMATIONS[i][0] for i in parse_policy(p)[0]] for p in ("3-1-7", "43-18-18", "3-0-7", "43-8-8")}
    assert names == {
        "3-1-7": ["translateX", "contrast", "translateY"],
        "43-18-18": ["translateY", "contrast", "contrast"],
        "3-0-7": ["translateX", "invert", "translateY"],
        "43-8-8": ["translateY", "autocontrast", "autocontrast"],
    }
    inverted = transformed(pool.images[:4], parse_policy("0"), ImageRng([0, 1, 2, 3]))
    torch.testing.assert_close(inverted, 1 - pool.images[:4])
    stretched = transformed(0.25 + 0.5 * pool.images[:4], parse_policy("8"), ImageRng([0, 1, 2, 3]))
    assert (stretched.amin(dim=(2, 3)) == 0).all()
    torch.testing.assert_close(stretched.amax(dim=(2, 3)), torch.ones(4, 3))


def test_a_policy_of_the_paper_acts_as_often_as_it_says() -> None:
    images = torch.full((400, 3, 8, 8), 0.25)
    assert (transformed(images, [[0]], ImageRng(range(400))) == 0.75).all()
    inverted = transformed(images, [[0]], ImageRng(range(400)), published=False)
    assert float((inverted[:, 0, 0, 0] == 0.75).float().mean()) == pytest.approx(TRANSFORMATIONS[0][1], abs=0.05)


@pytest.mark.parametrize("bad", ["", "3-x", "3-50", "3--1"])
def test_a_wrong_policy_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="is not a policy"):
        parse_policy(bad)


@pytest.mark.parametrize("name", [None, "gaussian-gradient", "gradient-pruning", "harness/augmentation"])
def test_a_classifier_learns_under_a_defense_and_twice_the_same(name: str | None, pool: ImagePool) -> None:
    guard = installed().one("defense", name) if name else everyday

    def begun() -> tuple[torch.nn.Module, ClassifierTraining]:
        network = installed().one("model", "convnet8[width=2]").build(CPU)((3, 16, 16), 9, generator(0))
        training = ClassifierTraining(network, pool, Schedule(8, 32, 0.1), generator(1), guard)
        for step in range(2 * training.per_epoch):
            training.step(step)
        return network, training

    (one, training), (two, _) = begun(), begun()
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))
    for step in range(2 * training.per_epoch, training.steps):
        training.step(step)
    assert float((top1(one, pool.images) == pool.targets.argmax(dim=1)).float().mean()) > 0.35


def test_what_the_paper_tells_of_training_is_plain_gradient_descent(pool: ImagePool) -> None:
    """SemSim names SGD at 0.1: without momentum, decay and bound, each step is the gradient times the rate.

    With weight decay the weights shrink besides, and with a bound no step is longer than bound times rate.
    """

    def moved(**settings: float | bool) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
        network = installed().one("model", "lenet").build(CPU)((3, 16, 16), 9, generator(0))
        plan = Schedule(3, len(pool.images), 0.1, momentum=0, cosine=False, **settings)
        training = ClassifierTraining(network, pool, plan, generator(1))
        training.step(0)
        before = [weights.detach().clone() for weights in network.parameters()]
        loss = torch.nn.functional.cross_entropy(network(pool.images), pool.targets)
        slopes = torch.autograd.grad(loss, list(network.parameters()))
        training.step(1)
        return before, list(slopes), [weights.detach() for weights in network.parameters()]

    before, slopes, after = moved(clip=0)
    for x, slope, y in zip(before, slopes, after, strict=True):
        torch.testing.assert_close(y, x - 0.1 * slope, rtol=1e-4, atol=1e-6)
    before, slopes, after = moved(clip=0, weight_decay=0.01)
    for x, slope, y in zip(before, slopes, after, strict=True):
        torch.testing.assert_close(y, x - 0.1 * (slope + 0.01 * x), rtol=1e-4, atol=1e-6)
    before, slopes, after = moved(clip=1e-3)
    length = torch.stack([(y - x).norm() for x, y in zip(before, after, strict=True)]).norm()
    assert float(length) == pytest.approx(1e-4, rel=1e-3)


def test_privacy_of_a_policy_is_one_where_noise_is_the_image(pool: ImagePool) -> None:
    network = installed().one("model", "lenet[activation=relu]").build(CPU)((3, 16, 16), 9, generator(0)).eval()
    network.requires_grad_(False)
    images, labels = pool.images[:3], pool.targets[:3].argmax(dim=1)
    assert privacy(network, images, images, labels) == pytest.approx(1, abs=1e-5)
    assert privacy(network, images, torch.rand(images.shape, generator=generator(0)), labels) < 0.999
    assert accuracy(network, images) > accuracy(network, images[:1].expand(3, -1, -1, -1))


def test_the_search_returns_the_most_private_of_the_better_half(pool: ImagePool) -> None:
    network = installed().one("model", "lenet[activation=relu]").build(CPU)((3, 16, 16), 9, generator(0)).eval()
    network.requires_grad_(False)
    policies = candidates(6, generator(0))
    survivors = search(network, pool.images[:3], pool.targets[:3].argmax(dim=1), policies, 0, lambda done, total: None)
    assert len(survivors) >= 3
    assert [s.privacy for s in survivors] == sorted(s.privacy for s in survivors)


def faces(root: Path) -> Path:
    for person in range(1, 4):
        (root / f"s{person}").mkdir(parents=True)
        for number in (1, 2, 10):
            shade = 60 * person + number
            Image.new("L", (20, 30), shade).save(root / f"s{person}" / f"{number}.pgm")
    return root


def test_a_folder_of_classes_is_read_with_and_without_parts(tmp_path: Path) -> None:
    root = faces(tmp_path / "faces")
    test, train = (
        installed()
        .one("dataset", "harness/class-folder")
        .with_parameters(path=str(root), size=16, split=split)
        .build(CPU)
        for split in ("test", "train")
    )
    assert test.names == ("s1/1.pgm", "s2/1.pgm", "s3/1.pgm", "s1/2.pgm", "s2/2.pgm", "s3/2.pgm")
    assert train.names == ("s1/10.pgm", "s2/10.pgm", "s3/10.pgm")
    assert test.columns["class"].tolist()[:3] == ["s1", "s2", "s3"]
    assert float(test.load([1])[0, 0, 0, 0]) == pytest.approx(121 / 255)
    (tmp_path / "parts").mkdir()
    root.rename(tmp_path / "parts" / "train")
    faces(tmp_path / "parts" / "val")
    dataset = installed().one("dataset", "harness/class-folder").with_parameters(path=str(tmp_path / "parts"), size=16)
    assert len(dataset.build(CPU)) == 9
    with pytest.raises(Unavailable, match="class-folder:PATH"):
        installed().one("dataset", "harness/class-folder").require()


def test_a_broken_image_is_named(tmp_path: Path) -> None:
    root = faces(tmp_path / "faces")
    (root / "s2" / "1.pgm").write_bytes(b"no image")
    data = installed().one("dataset", "harness/class-folder").with_parameters(path=str(root), size=16)
    with pytest.raises(HarnessError, match=r"s2/1\.pgm"):
        data.build(CPU)


def test_a_trained_classifier_is_saved_and_found_again(tmp_path: Path) -> None:
    command = ["train", "classifier", "--dataset", "thumbnails[per_photograph=1,size=16]", "--architecture", "lenet"]
    result = CliRunner().invoke(cli, [*command, "--epochs", "1", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    weights = tmp_path / "classifier.safetensors"
    model = installed().one("model", f"saved-classifier[architecture=lenet,weights={weights}]")
    network = model.build(CPU)((3, 16, 16), 9, generator(0))
    assert network(torch.zeros(2, 3, 16, 16)).shape == (2, 9)
    with pytest.raises(HarnessError, match="does not fit lenet"):
        model.build(CPU)((3, 16, 16), 5, generator(0))


def test_a_classifier_learns_from_a_folder_that_is_named_by_its_address(tmp_path: Path) -> None:
    root = faces(tmp_path / "faces")
    training = by_name(installed(), "classifier", {"dataset": f"class-folder:{root}"})
    train, test = (installed().one("dataset", training.datasets[role]) for role in ("train", "test"))
    assert [(one.path, one.split) for one in (train, test)] == [(str(root), "train"), (str(root), "test")]


def test_what_a_training_cannot_learn_from_is_said_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--annotations: .*nowhere is not a folder; .* export` writes one\.$"):
        by_name(installed(), "semsim", {"annotations": str(tmp_path / "nowhere")})


def test_laplacian_noise_has_its_moments() -> None:
    drawn = laplacian(ImageRng([0]), torch.Size((200_000,)))[0]
    assert float(drawn.mean()) == pytest.approx(0, abs=0.01)
    assert float(drawn.std()) == pytest.approx(1, abs=0.02)
    assert float((drawn.abs() > 2**-0.5 * np.log(2)).float().mean()) == pytest.approx(0.5, abs=0.01)


def test_every_defense_is_trained_on_the_same_batches(pool: ImagePool) -> None:
    def trained(defense: str) -> torch.Tensor:
        network = installed().one("model", "mlp[hidden=[4]]").build(CPU)((3, 16, 16), 9, generator(0))
        guard = installed().one("defense", defense)
        training = ClassifierTraining(network, pool, Schedule(2, 60, 0.05), generator(0), guard)
        for step in range(training.steps):
            training.step(step)
        return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])

    torch.testing.assert_close(trained("gaussian-gradient[sigma=1e-8]"), trained("plain-gradient"), rtol=0, atol=1e-5)
