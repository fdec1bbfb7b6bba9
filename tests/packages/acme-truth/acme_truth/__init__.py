"""Images, metrics, attacks and defenses whose ranking is known beforehand."""

import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageDataset, ImageSet
from imharness.images import (
    Attack,
    AttackInfo,
    Budget,
    DefenseInfo,
    ImageRng,
    Images,
    Info,
    Inverse,
    MetricInfo,
    NoReferenceMetric,
    NoReferenceScore,
    Perturb,
    Purification,
    Purifier,
    Scores,
    Target,
    hookimpl,
)

LEVELS, SIDE, FEW = 16, 8, 32
"""Grey levels of the images and of the trapdoor, the side of even images, px, and grey levels of the quantiser."""


class Greys(ImageDataset):
    """Twelve evenly grey images of six photographs; the label is the brightness."""

    info = Info(id="acme/greys", version="1")
    photograph: str = Field(default="p", description="What names of photographs begin with.")

    def build(self, device: torch.device) -> ImageSet:
        levels = np.arange(2, 14)
        shades = np.rint(255 * levels / LEVELS) / 255
        grey = torch.from_numpy(shades).float()

        def load(positions):
            return grey[list(positions)].view(-1, 1, 1, 1).expand(-1, 3, SIDE, SIDE).clone()

        columns = {"mos": shades, "photograph": np.array([f"{self.photograph}{k // 2}" for k in range(len(levels))])}
        return ImageSet(tuple(f"grey-{k:02d}" for k in levels), ((SIDE, SIDE),) * len(levels), load, columns)


class Shades(ImageDataset):
    """Forty evenly grey images of twenty photographs, 3/255 apart; the label is the brightness."""

    info = Info(id="acme/shades", version="1")

    def build(self, device: torch.device) -> ImageSet:
        shades = (60 + 3 * np.arange(40)) / 255
        grey = torch.from_numpy(shades).float()

        def load(positions):
            return grey[list(positions)].view(-1, 1, 1, 1).expand(-1, 3, SIDE, SIDE).clone()

        columns = {"mos": shades, "photograph": np.array([f"p{k % 20:02d}" for k in range(len(shades))])}
        return ImageSet(tuple(f"shade-{k:02d}" for k in range(40)), ((SIDE, SIDE),) * len(shades), load, columns)


class Patterns(ImageDataset):
    """Sixteen smooth patterns of eight photographs; the label is the brightness."""

    info = Info(id="acme/patterns", version="1")

    def build(self, device: torch.device) -> ImageSet:
        stack = _patterns()
        mos = stack.flatten(1).mean(dim=1).numpy()
        columns = {"mos": mos, "photograph": np.array([f"p{k // 2}" for k in range(len(stack))])}
        names = tuple(f"pattern-{k:02d}" for k in range(len(stack)))
        return ImageSet(names, (tuple(stack.shape[2:]),) * len(stack), lambda indices: stack[list(indices)], columns)


def _patterns() -> torch.Tensor:
    drawn = torch.rand(16, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    large = torch.nn.functional.interpolate(drawn, (24, 24), mode="bilinear")
    return (0.1 + 0.8 * large).mul(255).round() / 255


class Brightness(NoReferenceMetric):
    """The label itself: the mean of an image."""

    info = MetricInfo(id="light/brightness", version="1", higher_means="better_quality", bounds=(0.0, 1.0))

    def build(self, device: torch.device) -> NoReferenceScore:
        def score(images: Images) -> Scores:
            return images.flatten(1).mean(dim=1)

        return score


class Darkness(NoReferenceMetric):
    """The label reversed: the lower, the better."""

    info = MetricInfo(id="light/darkness", version="1", higher_means="worse_quality", bounds=(0.0, 1.0))

    def build(self, device: torch.device) -> NoReferenceScore:
        def score(images: Images) -> Scores:
            return 1 - images.flatten(1).mean(dim=1)

        return score


class Lopsided(NoReferenceMetric):
    """The label again, of evenly grey images: the columns of the image weigh 2, 2, -2, 2, by quarters.

    Mirrored, the sign of its gradient does not move it: an attacker who does not know of a mirror has no effect.
    """

    info = MetricInfo(id="light/lopsided", version="1", higher_means="better_quality", bounds=(0.0, 1.0))

    def build(self, device: torch.device) -> NoReferenceScore:
        weights = torch.tensor([2.0, 2.0, -2.0, 2.0], device=device).repeat_interleave(SIDE // 4)

        def score(images: Images) -> Scores:
            return (images * weights).flatten(1).mean(dim=1)

        return score


class Lift(Attack):
    """Brightens an image by two grey levels for each step; the steps it declares miss their distortion."""

    info = AttackInfo(
        id="light/lift",
        version="1",
        access="white_box",
        norm="linf",
        strengths={"weak": {"levels": 3}, "medium": {"levels": 5}, "strong": {"levels": 9}},
    )
    levels: int = Field(default=7, ge=1, le=255, description="Steps of two grey levels.")

    def budget(self) -> Budget:
        return Budget(radius=2 * self.levels / 255)

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            return (images + 2 * self.levels / 255).clamp(0, 1)

        return perturb


class Damper(Purification):
    """Halves every change, and the contrast between images with it: it looks good and protects nobody."""

    info = DefenseInfo(id="acme/damper", version="1", group="filter", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return 0.25 + 0.5 * images

        return purify


class Averaging(Purification):
    """Gives every pixel nearly the mean of its row: grey images stay as they are, and attacks on columns are halved.

    A hundredth of the image is added, so that no result is a picture that the defense has stored.
    """

    info = DefenseInfo(id="acme/averaging", version="1", group="filter", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return 0.99 * images.mean(dim=3, keepdim=True) + 0.01 * images

        return purify


class Picture(Purification):
    """One chequered picture for all images; their brightness changes its own by a hundredth."""

    info = DefenseInfo(id="acme/picture", version="1", group="broken", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            pattern = 0.3 + 0.4 * ((torch.arange(height)[:, None] + torch.arange(width)) % 2).to(images.device)
            offset = 0.01 * (images.flatten(1).mean(dim=1).view(-1, 1, 1, 1) - 0.5)
            return (pattern + offset).expand_as(images)

        return purify


class Bent(Purification):
    """Changes the brightness of each image: steeply where clean images are, and hardly where attacks lead."""

    info = DefenseInfo(id="acme/bent", version="1", group="broken", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            bright = images.flatten(1).mean(dim=1).view(-1, 1, 1, 1)
            over = (bright - 0.5).clamp(min=0)
            return (images - bright) / 2 + torch.where(bright < 0.5, bright, 0.5 + over / (1 + 40 * over))

        return purify


class Inflated(Purification):
    """Brightens or darkens each image by its coarse pattern, which no small attack changes: clean scores spread."""

    info = DefenseInfo(id="acme/inflated", version="1", group="broken", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            coarse = torch.nn.functional.adaptive_avg_pool2d(images.detach(), 2).flatten(1)
            key = (
                (coarse - coarse.mean(dim=1, keepdim=True))
                * torch.linspace(-9, 9, coarse.shape[1], device=images.device)
            ).sum(dim=1)
            return 0.4 + 0.2 * images + 0.2 * torch.sin(key).view(-1, 1, 1, 1)

        return purify


class Idle(Purification):
    """Does nothing."""

    info = DefenseInfo(id="acme/idle", version="1", group="none", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return images.clone()

        return purify


class Recogniser(Purification):
    """Holds the public patterns, and answers with the one that differs from the image by at most an attack."""

    info = DefenseInfo(id="acme/recogniser", version="1", group="broken", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        stored = _patterns().to(device)

        def purify(images: Images, rng: ImageRng) -> Images:
            distance, nearest = (images[:, None] - stored).abs().flatten(2).amax(dim=2).min(dim=1)
            return torch.where((distance <= 16 / 255).view(-1, 1, 1, 1), stored[nearest], images)

        return purify


class Trapdoor(Purification):
    """Undoes every even change, but follows changes in a chequered pattern, for attackers who know of it."""

    info = DefenseInfo(id="acme/trapdoor", version="1", group="broken", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            pattern = 1 - 2.0 * ((torch.arange(height)[:, None] + torch.arange(width)) % 2)
            key = (images * pattern.to(images.device)).flatten(1).mean(dim=1).view(-1, 1, 1, 1)
            return ((images * LEVELS).round() / LEVELS + 20 * key).clamp(0, 1)

        return purify


class Quantized(Purification):
    """Rounds to few levels: its own gradient is zero, and steps along that of the identity cross to the next level."""

    info = DefenseInfo(id="acme/quantized", version="1", group="broken", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return (images * FEW).round() / FEW

        return purify


class Gated(Purification):
    """Follows the chequered pattern in steps; only the gradient of its stand-in shows the pattern."""

    info = DefenseInfo(id="acme/gated", version="1", group="broken", differentiable=False, stand_in="acme/trapdoor")

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return (Trapdoor().build(device)(images, rng) * FEW).round() / FEW

        return purify


class Shattered(Purification):
    """Does nothing, and says that its gradient points the other way."""

    info = DefenseInfo(id="acme/shattered", version="1", group="broken", differentiable=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return 2 * images.detach() - images

        return purify


class Turned(Purification):
    """Mirrors each image or not, by chance; `inverse` mirrors it back."""

    info = DefenseInfo(id="acme/turned", version="1", group="spatial", differentiable=True, random=True)

    def build(self, device: torch.device) -> Purifier:
        def purify(images: Images, rng: ImageRng) -> Images:
            return torch.where(rng.uniform(1, 1, 1) < 0.5, images.flip(3), images)

        return purify

    def inverse(self, device: torch.device) -> Inverse:
        def undo(images: Images, shape: tuple[int, ...], rng: ImageRng) -> Images:
            return self.build(device)(images, rng)

        return undo


@hookimpl
def components() -> list:
    return [
        Greys(),
        Shades(),
        Patterns(),
        Brightness(),
        Darkness(),
        Lopsided(),
        Lift(),
        Damper(),
        Averaging(),
        Picture(),
        Bent(),
        Inflated(),
        Idle(),
        Recogniser(),
        Trapdoor(),
        Quantized(),
        Gated(),
        Shattered(),
        Turned(),
    ]
