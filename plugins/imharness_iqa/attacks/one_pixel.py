"""One-pixel attack: differential evolution over the places and colours of a few pixels.

Su, Vargas & Sakurai, "One Pixel Attack for Fooling Deep Neural Networks" (IEEE TEVC 2019), section 3; the evolution is
best/1 with a mutation factor drawn from [0.5, 1] per generation and full recombination, as scipy runs it for Guardians
of Image Quality. Every image has its own population, and stays as it is where no candidate raises its score.
"""

import torch
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl

GENES = 5
"""The genes of a pixel: row, column, red, green and blue, each in [0, 1)."""
LARGEST_CALL = 1 << 26
"""The largest number of pixel values in one batch of candidates."""


class OnePixel(Attack):
    """Differential evolution of the places and colours of a few pixels; strengths for images of 512x384 px.

    The published presets of 10, 20 and 40 pixels give a PSNR of 50, 48 and 45 dB on such images and miss their targets.
    """

    info = AttackInfo(
        id="harness/one-pixel",
        version="2",
        access="black_box",
        norm="l0",
        distortion="psnr",
        strengths={"weak": {"pixels": 400}, "medium": {"pixels": 1270}, "strong": {"pixels": 4010}},
        paper="su2019",
    )
    pixels: int = Field(default=3, ge=1, le=100_000, description="Pixels that change.")
    population: int = Field(default=300, ge=4, le=10_000, description="Candidates per image and generation.")
    generations: int = Field(default=10, ge=1, le=10_000, description="Generations after the first.")

    def budget(self) -> Budget:
        """Return the number of pixels and the number of scores: one per candidate and one for the clean image."""
        return Budget(radius=self.pixels, queries=self.population * (self.generations + 1) + 1)

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            clean, people = target(images), rng.uniform(self.population, self.pixels, GENES)
            fitness = _scores(images, people, target)
            for _ in range(self.generations):
                trial = _offspring(people, fitness, rng)
                trial_scores = _scores(images, trial, target)
                better = trial_scores > fitness
                people = torch.where(better[:, :, None, None], trial, people)
                fitness = torch.where(better, trial_scores, fitness)
            better = (fitness.amax(dim=1) > clean)[:, None, None, None]
            return torch.where(better, _painted(images, _best(people, fitness)), images)

        return perturb


def _best(people: torch.Tensor, fitness: torch.Tensor) -> torch.Tensor:
    """Return the candidate with the highest fitness of each image, ``(N, 1, pixels, GENES)``."""
    number = torch.arange(len(people), device=people.device)
    return people[number, fitness.argmax(dim=1)][:, None]


def _offspring(people: torch.Tensor, fitness: torch.Tensor, rng: ImageRng) -> torch.Tensor:
    """Return a trial for each candidate: the best one plus a scaled difference of two others, ``first`` and ``second``.

    Genes that leave [0, 1) are drawn anew.
    """
    n, size = people.shape[:2]
    indices = torch.arange(size, device=people.device)
    first = (indices + rng.integers(1, size, size)) % size  # any candidate but the one itself
    second = rng.integers(0, size - 2, size)  # the number among those that are neither the candidate nor the first
    low, high = torch.minimum(indices, first), torch.maximum(indices, first)
    second = second + (second >= low)
    second = second + (second >= high)
    number = torch.arange(n, device=people.device)[:, None]
    factor = (0.5 + 0.5 * rng.uniform(1))[:, :, None, None]
    trial = _best(people, fitness) + factor * (people[number, first] - people[number, second])
    return torch.where((trial >= 0) & (trial < 1), trial, rng.uniform(*people.shape[1:]))


def _scores(images: Images, people: torch.Tensor, target: Target) -> torch.Tensor:
    """Return the scores ``(N, P)`` of all candidates, computed in batches of a bounded size."""
    at_once = max(1, LARGEST_CALL // images.numel())
    score_blocks = [target(_painted(images, block)).view(len(images), -1) for block in people.split(at_once, dim=1)]
    return torch.cat(score_blocks, dim=1)


def _painted(images: Images, people: torch.Tensor) -> Images:
    """Return images with the pixels of the candidates ``(N, P, pixels, GENES)``, ``(N * P, 3, H, W)``.

    The P candidates of one image follow each other; colours are multiples of 1/255.
    """
    n, size, pixels = people.shape[:3]
    height, width = images.shape[2:]
    rows, columns = (people[..., 0] * height).long(), (people[..., 1] * width).long()
    order = torch.arange(pixels, device=images.device).expand(n, size, pixels)
    last = torch.full((n, size, height * width), -1, device=images.device)
    last.scatter_reduce_(2, rows * width + columns, order, "amax")  # a later pixel covers an earlier one
    colours = ((people[..., 2:] * 256).floor() / 255).transpose(2, 3)
    chosen = colours.gather(3, last.clamp(min=0)[:, :, None].expand(-1, -1, 3, -1))
    painted = torch.where(last[:, :, None] < 0, images[:, None].flatten(3), chosen)
    return painted.view(n * size, 3, height, width)


@hookimpl
def components() -> list[Attack]:
    return [OnePixel()]
