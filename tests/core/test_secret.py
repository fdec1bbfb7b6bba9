"""The secret split: it changes every image by its seed, keeps labels, hides the seed, and exposes tuned entries."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from imharness.data import ImageSet
from imharness.errors import UsageError
from imharness.planning.profile import Profile
from imharness.planning.profiles import load_profile
from imharness.planning.secret import OPTION, digest_of, read_seed
from imharness.running.context import TaskContext
from imharness.running.secret_split import BLOCK, FADED, changed, hidden, seeds_of_task
from imharness.statistics.splits import loses_advantage
from imharness.testing.samples import images as samples

# Two secret seeds of 64 hexadecimal digits.
SEED, OTHER = "5eed" * 16, "0dd5eed0" * 8


def pictures(n: int = 6, side: int = 64) -> torch.Tensor:
    return samples(n, side, side, 1).mul(255).round() / 255


def names(n: int) -> list[str]:
    return [f"image {i}" for i in range(n)]


def test_images_keep_their_size_and_steps_and_everyone_is_changed() -> None:
    for side in (8, 32, 64):
        before = pictures(6, side)
        after = changed(before, SEED, names(6))
        assert after.shape == before.shape
        assert torch.equal(after.mul(255).round() / 255, after)
        assert 0 <= after.min() <= after.max() <= 1
        assert ((after - before).abs().flatten(1).amax(dim=1) > 0.02).all()


def test_changes_follow_from_the_seed_and_the_source_alone() -> None:
    before = pictures()
    whole = changed(before, SEED, names(6))
    order = [4, 1, 5]
    assert torch.equal(changed(before[order], SEED, [names(6)[i] for i in order]), whole[order])
    assert not torch.equal(changed(before, OTHER, names(6)), whole)
    same = changed(before[:1].expand(6, -1, -1, -1), SEED, names(6))
    assert len({image.numpy().tobytes() for image in same}) == 6


def test_an_image_is_moved_mirrored_and_faded_a_little() -> None:
    """Of images that rise from left to right by 4 / 255 a pixel, slope and ends show mirroring, contrast and shift."""
    ramp = (torch.arange(64) * 4 / 255).expand(40, 3, 64, 64)
    images = changed(ramp, SEED, names(40))
    mirrored = images[:, 0, 32, 40] < images[:, 0, 32, 20]
    assert 10 < int(mirrored.sum()) < 30
    straight = torch.where(mirrored[:, None, None, None], images.flip(3), images)
    middle = straight[..., 8:56]
    contrast = (middle[..., -1] - middle[..., 0]) / (ramp[..., 55] - ramp[..., 8])
    low, high = 1 - 2 * FADED[1], 1 - 2 * FADED[0]
    assert ((contrast > low - 0.01) & (contrast < high + 0.01)).all()
    ways = (middle[:, 0, 0, 24] - ramp[0, 0, 0, 32]).mul(255 / 4).round().abs()
    assert ((ways - ways.div(BLOCK).round() * BLOCK).abs() <= 2).all(), "blocks of 8 px stay where they were"
    assert BLOCK - 2 <= ways.max() <= BLOCK + 2


def test_versions_of_one_image_are_changed_alike_and_labels_stay() -> None:
    clean = pictures(3)
    noisy = (clean + 8 / 255).clamp(0, 1)
    stack = torch.stack([clean, noisy], dim=1).flatten(0, 1)
    columns = {"reference": np.repeat(names(3), 2), "mos": np.arange(6.0)}
    original = ImageSet(tuple(names(6)), ((64, 64),) * 6, lambda indices: stack[list(indices)], columns, "a proxy")
    changed_images = hidden(original, SEED)
    assert (changed_images.names, changed_images.shapes, changed_images.proxy, changed_images.columns) == (
        original.names,
        original.shapes,
        "a proxy",
        columns,
    )
    after = changed_images.load(range(6))
    before = (stack[1::2] - stack[::2]).flatten(1).norm(dim=1)
    distances = (after[1::2] - after[::2]).flatten(1).norm(dim=1)
    assert torch.allclose(distances, before, rtol=0.1)
    assert torch.equal(changed_images.at([5, 2]).load([1, 0]), after[[2, 5]])
    assert hidden(original, "") is original


def test_streams_of_one_task_follow_from_the_seed_of_its_split_too() -> None:
    """The streams of other tasks follow from their keys, which everybody can compute."""

    def drawn(secret: str, shared: bool) -> int:
        options = {OPTION: digest_of(secret)} if secret else {}
        cache: Any = SimpleNamespace(device=torch.device("cpu"), secret=secret)
        spec: Any = SimpleNamespace(options=options, seed=0, components={})
        shards: Any = SimpleNamespace(task="0" * 64)
        return TaskContext(cache, shards, spec, lambda done, total: None).generator("a", shared=shared).initial_seed()

    for shared in (False, True):
        assert len({drawn(secret, shared) for secret in ("", SEED, OTHER)}) == 3
        assert drawn(SEED, shared) == drawn(SEED, shared)


def test_a_task_of_a_split_needs_its_seed_and_has_streams_of_its_own() -> None:
    assert seeds_of_task("", 3, {}) == seeds_of_task(SEED, 3, {}) == ("", 3)
    options = {OPTION: digest_of(SEED)}
    assert seeds_of_task(SEED, 3, options) == seeds_of_task(SEED, 3, options)
    assert len({seeds_of_task(SEED, seed, options)[1] for seed in (3, 4)} | {3, 4}) == 4
    for wrong in ("", OTHER):
        with pytest.raises(UsageError, match=digest_of(SEED)):
            seeds_of_task(wrong, 3, options)


@pytest.mark.parametrize("content", ["", "my own seed", "5EED" * 16, SEED + "\n" + SEED, "z" * 64, SEED * 3])
def test_seeds_that_could_be_guessed_or_misread_are_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    (tmp_path / "seed").write_text(content)
    (tmp_path / "own.toml").write_text(f'name = "own"\ndescription = ""\nsecret = """{content}"""\n')
    with pytest.raises(UsageError) as refused:
        read_seed(tmp_path / "seed")
    messages = [str(refused.value)]
    if content:
        with pytest.raises(UsageError) as refused:
            load_profile(str(tmp_path / "own.toml"))
        messages.append(str(refused.value))
    assert not any("\n" in text or (content and content in text) for text in messages)


def test_a_profile_holds_the_seed_and_does_not_show_it(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(f'name = "own"\ndescription = ""\nsecret = "{SEED}"\n')
    profile = load_profile(str(tmp_path / "own.toml"))
    (tmp_path / "seed").write_text(f"{SEED}\n")
    assert profile.secret == read_seed(tmp_path / "seed") == SEED
    assert SEED not in repr(profile)
    assert digest_of(SEED) != digest_of(OTHER)
    assert digest_of(Profile(name="own", description="").secret) == ""


def test_honest_entries_are_seldom_flagged_and_those_that_lose_their_advantage_are() -> None:
    """Twelve honest entries and one that loses its advantage, 60 times: 5 % of the times or fewer err in either way."""
    # 40 images of 20 photographs; `wrong` counts honest entries that are flagged.
    rng, clusters, wrong, flagged = np.random.default_rng(0), np.repeat(np.arange(20), 2), 0, 0
    for _ in range(60):
        size = rng.uniform(0, 2, (13, 1))
        public, secret = (size + rng.normal(0, 0.5, (13, 40)) for _ in range(2))
        secret[0] -= size[0] + 0.5
        p = loses_advantage(public, secret, clusters)
        wrong += bool((p[1:] < 0.05).any())
        flagged += bool(p[0] < 0.05)
    assert wrong <= 3
    assert flagged >= 57


def test_an_advantage_without_noise_is_lost_beyond_the_margin_only() -> None:
    public = np.full((3, 8), 2.0) + np.linspace(0, 0.1, 8)
    secret = public * np.array([[0.95], [0.85], [1.5]])
    p = loses_advantage(public, secret)
    assert p[1] == pytest.approx(3 / 2**8)
    assert (p[[0, 2]] == 1).all()
    few = loses_advantage(public[:, :4], public[:, :4] * 0.5, np.arange(4))
    assert np.isnan(few).all()
