"""The Frechet distance against closed forms, scipy's matrix root and pytorch-fid, and the networks of its features."""

import numpy as np
import pytest
import scipy.linalg
import torch
from pytorch_fid import inception as published

from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness.errors import Unavailable
from imharness_reconstruction.frechet import frechet_distance
from imharness_reconstruction.metrics import fid

CPU = torch.device("cpu")


def by_root(x: np.ndarray, y: np.ndarray) -> float:
    first, second = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    root = scipy.linalg.sqrtm(first @ second)
    return float(np.square(x.mean(0) - y.mean(0)).sum() + np.trace(first + second) - 2 * np.trace(root).real)


@pytest.mark.parametrize(("rows", "others"), [(500, 400), (300, 60), (64, 65)])
def test_it_equals_the_matrix_root(rows: int, others: int) -> None:
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(40, 40))
    x, y = rng.normal(size=(rows, 40)) @ mix, rng.normal(size=(others, 40)) + 0.3
    assert frechet_distance(x, y) == pytest.approx(by_root(x, y), rel=1e-6)


def test_it_equals_the_distance_of_pytorch_fid(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytorch_fid.fid_score import calculate_frechet_distance

    root = scipy.linalg.sqrtm  # pytorch-fid gives it an argument that SciPy no longer takes
    monkeypatch.setattr(scipy.linalg, "sqrtm", lambda matrix, disp: (root(matrix), 0.0))
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(300, 64)), 0.2 + 1.3 * rng.normal(size=(200, 64))
    moments = [moment for rows in (x, y) for moment in (rows.mean(0), np.cov(rows, rowvar=False))]
    assert frechet_distance(x, y) == pytest.approx(float(calculate_frechet_distance(*moments)), rel=1e-9)


def test_few_rows_equal_many_rows_of_the_same_features() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 20)), rng.normal(size=(25, 20)) * 2
    padded = [np.pad(f, ((0, 0), (0, 80))) for f in (x, y)]
    assert frechet_distance(*padded) == pytest.approx(frechet_distance(x, y), rel=1e-9)


def test_closed_forms() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 8))
    assert frechet_distance(x, x) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(x, x + 3) == pytest.approx(9 * 8)
    assert frechet_distance(x, 2 * x - x.mean(0)) == pytest.approx(np.trace(np.cov(x, rowvar=False)), rel=1e-9)
    with pytest.raises(ValueError, match="n >= 2"):
        frechet_distance(x[:1], x)


@pytest.mark.usefixtures("assets_at_hand")
def test_fid_grows_with_noise_on_real_features() -> None:
    metric = installed().one("metric", "fid[backbone=squeezenet]")
    try:
        metric.require()
    except Unavailable as error:
        pytest.skip(str(error))
    data = installed().one("dataset", "thumbnails").build(CPU)
    images = data.load(list(range(len(data))))
    score = metric.build(CPU)
    noise = torch.randn(images.shape, generator=generator(0))
    scores = [score((images + s * noise).clamp(0, 1), images) for s in (0.0, 0.05, 0.2)]
    assert scores[0] == pytest.approx(0, abs=1e-3)
    assert scores[0] < scores[1] < scores[2]


def random_weights(monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Return random weights in the layout of the published file, which pytorch-fid downloads."""
    torch.manual_seed(0)
    with monkeypatch.context() as undownloaded:
        undownloaded.setattr(published, "load_state_dict_from_url", lambda *a, **k: {})
        undownloaded.setattr(torch.nn.Module, "load_state_dict", lambda self, state: None)
        return published.fid_inception_v3().state_dict()


def test_the_patched_inception_is_that_of_pytorch_fid(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = random_weights(monkeypatch)
    monkeypatch.setattr(published, "load_state_dict_from_url", lambda *a, **k: weights)
    monkeypatch.setattr(fid, "state_dict", lambda asset: weights)
    theirs, ours = published.InceptionV3().eval(), fid.inception(CPU)
    images = torch.rand(2, 3, 64, 64, generator=generator(1))
    with torch.no_grad():
        torch.testing.assert_close(ours(images), theirs(images)[0].flatten(1), rtol=1e-4, atol=1e-5)


def test_any_torchvision_classifier_gives_features(tmp_path) -> None:
    from torchvision.models import resnet18

    torch.manual_seed(0)
    torch.save(resnet18(weights=None).state_dict(), tmp_path / "r.pth")
    metric = installed().one("metric", f"fid[backbone=resnet18,weights={tmp_path / 'r.pth'}]")
    images = torch.rand(6, 3, 64, 64, generator=generator(0))
    score = metric.build(CPU)
    with torch.no_grad():
        assert score(images, images) == pytest.approx(0, abs=1e-4)
        assert score(images, images * 0.5) > 1e-3
    with pytest.raises(Unavailable, match="no weights of resnet18 are named"):
        installed().one("metric", "fid[backbone=resnet18]").require()
