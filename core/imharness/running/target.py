"""The target of an attack: the metric and perhaps a defense, seen only through scores and gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from imharness.contracts.randomness import ImageRng, derive_seed, generator
from imharness.contracts.values import Images, Scores
from imharness.errors import ContractError, QueryBudgetExceeded
from imharness.running.memory import in_chunks
from imharness.running.numerics import multiplies_bfloat16, tensor_cores

NO_GRADIENT = (
    "no gradient reaches the images, although the metric and the defense say that they are differentiable; one of them "
    "detaches its input or leaves torch: mend it, or declare differentiable=False"
)
Purify = Callable[[Images, ImageRng], Images]
Streams = Callable[[int], ImageRng]
"""The random streams of a chunk's rows for one defended copy, by its number."""


def storable(images: Images) -> Images:
    """Return the images that a file of 8 bits would hold: multiples of 1/255 in [0, 1], contiguous, no gradient."""
    return images.detach().clamp(0, 1).mul(255).round().div(255).contiguous()


def as_large(images: Images, like: Images) -> Images:
    """Return images resized to the height and width of `like`, in [0, 1]; unchanged if they have them."""
    if images.shape[2:] == like.shape[2:]:
        return images
    return F.interpolate(images, like.shape[2:], mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)


def beside(images: Images, reference: Images) -> Images:
    """Return images; each that equals its reference is moved by one grey level, up or down at random, in every value.

    A distance is least at its reference, so that its gradient there is zero or undefined and an attack would not move.
    Random starts solve the same problem (Madry et al., "Towards Deep Learning Models Resistant to Adversarial Attacks",
    ICLR 2018, section 3). All images of one size are moved alike, whatever batch they are in.
    """
    same = (images == reference).flatten(1).all(dim=1)
    if not bool(same.any()):
        return images
    draw = torch.rand(images.shape[1:], generator=generator(derive_seed("beside", *map(str, images.shape[1:]))))
    up = torch.where(images <= 0, True, torch.where(images >= 1, False, draw.to(images.device) < 0.5))
    return torch.where(same.view(-1, 1, 1, 1), images + torch.where(up, 1 / 255, -1 / 255), images)


def straight_through(purify: Purify, stand_in: Purify | None = None) -> Purify:
    """Return a purification with the result of `purify` and the gradient of `stand_in`, or else of the identity.

    Both draw the same random numbers. If the result has another size, the gradient passes through a resize. This is
    backward pass differentiable approximation (Athalye, Carlini & Wagner, "Obfuscated gradients", ICML 2018, section
    4.1).
    """

    def through(images: Images, rng: ImageRng) -> Images:
        before = rng.states()
        with torch.no_grad():
            clean = purify(images.detach(), rng)
        if not (torch.is_grad_enabled() and images.requires_grad):
            return clean
        rng.restore(before)
        near = images if stand_in is None else stand_in(images, rng)
        if near.shape != clean.shape:
            near = F.interpolate(near, clean.shape[2:], mode="bilinear", antialias=True, align_corners=False)
        return clean + (near - near.detach())

    return through


def _turned(rows: torch.Tensor, groups: int) -> torch.Tensor:
    """Return rows of which `groups` groups follow each other: first the first row of each group, then the second ones.

    A view where each group has one row, or all rows are one group.
    """
    return rows.reshape(groups, len(rows) // groups, *rows.shape[1:]).transpose(0, 1).flatten(0, 1)


class MetricTarget:
    """The `Target` of an attack: one score per image from the metric, behind the defense if there is one.

    The score of each image depends only on that image. So the gradient of image i is that of its own score, and scores
    and gradients can be computed chunk by chunk: `micro_batch` bounds the memory, and is halved if a chunk does not
    fit. Gradients are of first order. The sign of a metric is turned only here.

    Metric and defense cannot distinguish an image of a search from an attacked image that is stored and scored later:
    in both cases they get images of 8 bits, each image once in a call, and random streams from which nothing was drawn.
    The gradient passes straight through the rounding.

    Args:
        score: images -> ``(n,)``, or (images, reference) -> ``(n,)``; differentiable if `differentiable`.
        bounds: (lower, upper) of the metric itself.
        images: how many images the attack works on; queries are counted for each.
        differentiable: whether the attack may read gradients.
        reference: one reference for each image, for a metric that compares; of a target for training, one for each
            training image, and every call then says in `rows` which of them it asks about.
        sign: +1 if the attack raises the metric's score, -1 if it lowers it.
        purify: the defense that an adaptive attack knows.
        rng: the streams from which those of the defense follow; every query and every copy has new ones.
        training: whether an attack is trained: `images` is then 1, and it asks about any of its training images in
            any number. Otherwise candidates for one image follow each other, and never meet in a call.
        samples: how many defended copies are averaged (expectation over transformation).
        budget: the most scores per image, however many copies each averages; None means no limit.
        micro_batch: how many images are scored at once.
        precision: "strict" computes in float32, "tf32" lets a GPU round factors to 10 bits, "fast" computes gradients
            in bfloat16, and "search" also the scores of a black-box search, where the device has instructions for it.
            Reported scores are computed elsewhere, in float32.
    """

    def __init__(
        self,
        score: Callable[..., Scores],
        bounds: tuple[float, float],
        *,
        images: int,
        differentiable: bool,
        reference: Images | None = None,
        sign: int = 1,
        purify: Purify | None = None,
        rng: ImageRng | None = None,
        samples: int = 1,
        budget: int | None = None,
        micro_batch: int = 64,
        precision: str = "strict",
        training: bool = False,
    ) -> None:
        self.differentiable = differentiable
        self.lower, self.upper = (bounds[0], bounds[1]) if sign > 0 else (-bounds[1], -bounds[0])
        self._score, self._sign, self._reference = score, sign, reference
        self._purify, self._samples, self._calls = purify, samples, 0
        self._device = rng.device if rng is not None else torch.device("cpu")
        self._roots: list[int] | None = rng.integers(0, 2**62).tolist() if rng is not None else None
        self._images, self._budget = images, budget
        self._micro_batch, self._training = micro_batch if training else min(micro_batch, images), training
        self._reduced = precision == "search" or (precision == "fast" and differentiable)
        self._tf32 = precision == "tf32"
        self._queries = torch.zeros(images, dtype=torch.int64)

    @property
    def queries(self) -> torch.Tensor:
        """Evaluations of each image so far, int64 ``(N,)``; each score counts once for each defended copy."""
        return self._queries * (1 if self._purify is None else self._samples)

    def __call__(self, images: Images, rows: torch.Tensor | None = None) -> Scores:
        """Return scores ``(N,)``, or ``(N * k,)`` for k candidates of each image; see `imharness.images.Target`."""
        candidates, rest = divmod(len(images), self._images)
        if rest or not candidates:
            raise ContractError(
                f"the target has {self._images} images; expected that many or a multiple of it, got {len(images)}"
            )
        references = self._references(len(images), rows)
        self._count(candidates)
        if self.differentiable and torch.is_grad_enabled() and images.requires_grad:
            scores = _ScoreWithGradient.apply(images, references, self)
        else:
            with torch.no_grad():
                (scores,) = self._chunks(images, references, lambda *chunk: (self._scores(*chunk),))
        return scores  # type: ignore[no-any-return]

    def _references(self, count: int, rows: torch.Tensor | None) -> Images | None:
        """Return the reference of each of `count` images, the candidates for one image following each other."""
        if self._reference is None:
            return None
        if not self._training:
            if rows is not None:
                raise ContractError("`rows` is for training; elsewhere the images of the batch come in their order")
            return self._reference.repeat_interleave(count // self._images, dim=0)
        if rows is None or rows.shape != (count,) or rows.is_floating_point() or rows.dtype == torch.bool:
            raise ContractError(
                "the metric compares each image with a reference; training asks for scores with `target(images, rows)` "
                f"where rows, whole numbers ({count},), says which training image each one is"
            )
        if bool(((rows < 0) | (rows >= len(self._reference))).any()):
            raise ContractError(f"there are {len(self._reference)} training images; rows names another one")
        return self._reference[rows.to(self._reference.device)]

    def _count(self, candidates: int) -> None:
        if self._budget is not None and int(self._queries.max()) + candidates > self._budget:
            raise QueryBudgetExceeded(
                f"the attack asked for {int(self._queries.max()) + candidates} scores per image; "
                f"its budget is {self._budget}"
            )
        self._queries += candidates

    def _scores(self, chunk: Images, streams: Streams, compared: tuple[Images, ...]) -> Scores:
        reduced = self._reduced and multiplies_bfloat16(chunk.device.type)
        with torch.autocast(chunk.device.type, torch.bfloat16, enabled=reduced):
            return self._mean_over_copies(chunk, streams, compared).float()

    def _mean_over_copies(self, chunk: Images, streams: Streams, compared: tuple[Images, ...]) -> Scores:
        if self._purify is None:
            return self._sign * self._compare(chunk, compared)
        if self._roots is None:
            raise ContractError("a target behind a defense needs random streams for it")
        scores = [self._compare(self._purify(chunk, streams(sample)), compared) for sample in range(self._samples)]
        return self._sign * torch.stack(scores).mean(dim=0)

    def _compare(self, images: Images, compared: tuple[Images, ...]) -> Scores:
        return self._score(as_large(images, compared[0]), *compared) if compared else self._score(images)

    def _chunks(
        self,
        images: Images,
        references: Images | None,
        function: Callable[[Images, Streams, tuple[Images, ...]], tuple[torch.Tensor, ...]],
    ) -> list[torch.Tensor]:
        """Apply a function chunk by chunk, and return its results in the order of the images.

        The function gets the images of a chunk, their random streams, and a tuple of their references, which is empty
        if there are none.

        So that a call sees each image once, the first candidates of all images come first, then the second ones: of two
        images with three candidates each, a0 b0 a1 b1 a2 b2. A chunk that does not fit into memory is halved, and its
        halves draw the same.
        """
        ordered = storable(_turned(images, self._images))
        compared = () if references is None else (_turned(references, self._images),)
        call = self._calls
        self._calls += 1

        def chunk(start: int, stop: int) -> tuple[torch.Tensor, ...]:
            def streams(sample: int) -> ImageRng:
                seeds = list[int]()
                for row in range(start, stop):
                    candidate, image = divmod(row, self._images)
                    root = (self._roots or [])[image]
                    seeds.append(derive_seed(root, call, candidate, sample))
                return ImageRng(seeds, self._device)

            return function(ordered[start:stop], streams, tuple(reference[start:stop] for reference in compared))

        with tensor_cores(self._tf32):
            chunks, self._micro_batch = in_chunks(len(images), self._micro_batch, chunk)
        wholes = [torch.cat(pieces) if len(pieces) > 1 else pieces[0] for pieces in zip(*chunks, strict=True)]
        return [_turned(whole, len(images) // self._images) for whole in wholes]

    def with_gradient(self, images: Images, references: Images | None = None) -> tuple[Scores, Images]:
        """Return scores ``(n,)`` and the gradient of each score with respect to its own image.

        At an image that equals its reference, the gradient is that of an image `beside` it.
        """

        def of_chunk(chunk: Images, streams: Streams, compared: tuple[Images, ...]) -> tuple[Scores, Images]:
            """Return the score of each image, and its gradient."""
            point = beside(chunk, *compared) if compared else chunk
            with torch.enable_grad():
                leaf = point.clone().requires_grad_(True)
                scores = self._scores(leaf, streams, compared)
                gradient = None
                if scores.requires_grad:
                    (gradient,) = torch.autograd.grad(scores.sum(), leaf, allow_unused=True)
            if gradient is None:
                raise ContractError(NO_GRADIENT)
            if point is not chunk:
                with torch.no_grad():
                    scores = self._scores(chunk, streams, compared)
            return scores.detach(), gradient.contiguous()

        scores, gradient = self._chunks(images, references, of_chunk)
        return scores, gradient


class _ScoreWithGradient(torch.autograd.Function):
    """Returns scores, and in the backward pass the vector-Jacobian product of the gradients computed with them."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, images: Images, references: Images | None, target: MetricTarget
    ) -> Scores:
        scores, gradient = target.with_gradient(images, references)
        ctx.save_for_backward(gradient)
        return scores

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, upstream: Scores) -> tuple[Images, None, None]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return upstream.view(-1, 1, 1, 1) * gradient, None, None
