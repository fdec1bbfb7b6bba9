"""The one window from an attack to what it attacks."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import Images, Scores
from imharness.errors import ContractError, QueryBudgetExceeded
from imharness.running.memory import in_chunks

Purify = Callable[[Images, ImageRng], Images]


def straight_through(purify: Purify, stand_in: Purify | None = None) -> Purify:
    """Return a purification with the result of `purify` and the gradient of `stand_in`, or else of the identity.

    Both draw the same numbers. The gradient reaches another size by resizing. This is backward pass differentiable
    approximation (Athalye, Carlini & Wagner, "Obfuscated gradients", ICML 2018, section 4.1).
    """

    def through(images: Images, rng: ImageRng) -> Images:
        before = rng.states()
        clean = purify(images.detach(), rng).detach()
        if not (torch.is_grad_enabled() and images.requires_grad):
            return clean
        rng.restore(before)
        near = images if stand_in is None else stand_in(images, rng)
        if near.shape != clean.shape:
            near = F.interpolate(near, clean.shape[2:], mode="bilinear", antialias=True, align_corners=False)
        return clean + (near - near.detach())

    return through


class MetricTarget:
    """A score per image, higher = the attack does better: the metric, behind the defense when there is one.

    The metric scores each image from that image alone. So the gradient of image i is that of its own score, and both
    can be computed chunk by chunk while a chunk's graph is alive: memory is bounded by `micro_batch`, which is halved
    when it does not fit. Gradients are of first order. A lower-is-better metric is negated here and nowhere else.

    Args:
        score: images -> ``(n,)``, or (images, reference) -> ``(n,)``; differentiable if `differentiable`.
        bounds: (lower, upper) of the metric itself.
        sign: +1 if the attack raises the metric's score, -1 if it lowers it.
        images: how many images the attack works on; queries are counted for each.
        reference: one image per image, for a metric that compares.
        purify: the defense of an adaptive attack, with the streams it draws from: fresh ones for every query.
        samples: defended copies that are averaged (expectation over transformation).
        budget: most scores per image, however many copies each averages; None for no limit.
        precision: "strict": float32; "fast": gradients by bfloat16; "search": the scores of a black-box search, too.
            What is reported is scored elsewhere, in float32.
    """

    def __init__(
        self, score: Callable[..., Scores], bounds: tuple[float, float], *, images: int, differentiable: bool,
        reference: Images | None = None, sign: int = 1, purify: Purify | None = None,
        rng: ImageRng | None = None, samples: int = 1, budget: int | None = None, micro_batch: int = 64,
        precision: str = "strict",
    ) -> None:  # fmt: skip
        self.differentiable = differentiable
        self.lower, self.upper = (bounds[0], bounds[1]) if sign > 0 else (-bounds[1], -bounds[0])
        self._score, self._sign, self._reference = score, sign, reference
        self._purify, self._rng, self._samples = purify, rng, samples
        self._images, self._budget, self._micro_batch = images, budget, micro_batch
        self._reduced = precision == "search" or (precision == "fast" and differentiable)
        self._asked = torch.zeros(images, dtype=torch.int64)

    @property
    def queries(self) -> torch.Tensor:
        """int64 ``(N,)``: evaluations so far, per image: each score counts once for each defended copy."""
        return self._asked * (1 if self._purify is None else self._samples)

    def __call__(self, images: Images) -> Scores:
        """Return scores ``(N,)`` or ``(N * k,)``; see `imharness.images.Target`."""
        copies, rest = divmod(len(images), self._images)
        if rest or not copies:
            raise ContractError(
                f"the target has {self._images} images; expected that many or a multiple of it, got {len(images)}"
            )
        self._count(copies)
        if self.differentiable and torch.is_grad_enabled() and images.requires_grad:
            scores = _ScoreWithGradient.apply(images, self)
        else:
            with torch.no_grad():
                scores = self._chunks(images, self._plain)
        return scores  # type: ignore[no-any-return]

    def _count(self, copies: int) -> None:
        if self._budget is not None and int(self._asked.max()) + copies > self._budget:
            raise QueryBudgetExceeded(
                f"the attack asked for {int(self._asked.max()) + copies} scores per image; its budget is {self._budget}"
            )
        self._asked += copies

    def _plain(self, chunk: Images, rng: ImageRng | None, compared: tuple[Images, ...]) -> Scores:
        with torch.autocast(chunk.device.type, torch.bfloat16, enabled=self._reduced):
            return self._scored(chunk, rng, compared).float()

    def _scored(self, chunk: Images, rng: ImageRng | None, compared: tuple[Images, ...]) -> Scores:
        if self._purify is None:
            return self._sign * self._score(chunk, *compared)
        if rng is None:
            raise ContractError("a target behind a defense needs random streams for it")
        scores = [self._score(self._purify(chunk, rng), *compared) for _ in range(self._samples)]
        return self._sign * torch.stack(scores).mean(dim=0)

    def _chunks(
        self, images: Images, one: Callable[[Images, ImageRng | None, tuple[Images, ...]], torch.Tensor]
    ) -> torch.Tensor:
        """Apply `one` chunk by chunk; a chunk that does not fit into memory is halved."""
        copies = len(images) // self._images
        rng = self._rng.repeated(copies) if self._rng is not None else None
        whole = () if self._reference is None else (self._reference.repeat_interleave(copies, dim=0),)

        def chunk(start: int, stop: int) -> torch.Tensor:
            compared = tuple(r[start:stop] for r in whole)
            if rng is None:
                return one(images[start:stop], None, compared)
            streams = rng.slice(start, stop)
            before = streams.states()
            try:
                return one(images[start:stop], streams, compared)
            except (MemoryError, RuntimeError):
                streams.restore(before)  # its halves draw the same numbers
                raise

        parts, self._micro_batch = in_chunks(len(images), self._micro_batch, chunk)
        return torch.cat(parts)

    def with_gradient(self, images: Images) -> tuple[Scores, Images]:
        """Return scores ``(n,)`` and the gradient of each score with respect to its own image."""

        def one(chunk: Images, rng: ImageRng | None, compared: tuple[Images, ...]) -> torch.Tensor:
            with torch.enable_grad():
                leaf = chunk.detach().requires_grad_(True)
                scores = self._plain(leaf, rng, compared)
                (gradient,) = torch.autograd.grad(scores.sum(), leaf)
            return torch.cat([scores.detach()[:, None], gradient.flatten(1)], dim=1)

        joined = self._chunks(images, one)
        return joined[:, 0], joined[:, 1:].reshape(images.shape)


class _ScoreWithGradient(torch.autograd.Function):
    """Scores forward, and in backward the vector-Jacobian product from the gradients computed with them."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, images: Images, target: MetricTarget) -> Scores:
        scores, gradient = target.with_gradient(images)
        ctx.save_for_backward(gradient)
        return scores

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, upstream: Scores) -> tuple[Images, None]:
        (gradient,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return upstream.view(-1, 1, 1, 1) * gradient, None
