"""Patch-RS: random search over one square patch, its place and its colours.

Croce, Andriushchenko, Singh, Flammarion & Hein, "Sparse-RS: a versatile framework for query-efficient sparse black-box
adversarial attacks" (AAAI 2022), section 5. Every image has its own place, patch and proposals. One query is spent on
the clean image, which stays as it is where no patch raises its score.
"""

import math

import torch
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl
from imharness_iqa.random_search import share

PLACE_EVERY = 4
"""The number of queries between two proposals of a new place; the others propose new colours."""
REACH = 0.75
"""The longest move of the patch at the first query, as a share of the height; it shrinks linearly to zero."""
INITIAL_SQUARES = 1000


class PatchRs(Attack):
    """Random search for the place and the colours of a square patch."""

    info = AttackInfo(
        id="harness/patch-rs",
        version="2",
        access="black_box",
        norm="l0",
        distortion="psnr",
        strengths={"weak": {"area": 169}, "medium": {"area": 625}, "strong": {"area": 1936}},
        paper="croce2022",
    )
    area: int = Field(default=169, ge=1, le=1_000_000, description="Pixels of the patch, rounded up to a square.")
    queries: int = Field(default=10_000, ge=2, le=1_000_000, description="Scores per image.")
    p: float = Field(default=0.8, gt=0, le=1, description="Share of the patch that the first proposals change.")

    @property
    def side(self) -> int:
        """The side of the patch, px."""
        return math.ceil(self.area**0.5)

    def budget(self) -> Budget:
        """Return the pixels of the patch and the number of scores."""
        return Budget(radius=self.side**2, queries=self.queries)

    def changed(self, query: int) -> int:
        """Return the side of the square that changes at a query, px."""
        return max(1, int(share(self.p, query, self.queries) ** 0.5 * self.side))

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            side = min(self.side, *images.shape[2:])
            room = torch.tensor([images.shape[2] - side, images.shape[3] - side], device=images.device)
            patch = _initial(rng, side)
            corner = (rng.uniform(2) * (room + 1)).long()
            clean, best = target(images), target(_pasted(images, patch, corner))
            single = [query for query in range(self.queries) if self.changed(query) == 1]
            one_channel_from = single[0] + (self.queries - single[0]) // 2 if single else self.queries
            for query in range(1, self.queries - 1):
                new_patch, new_place = patch, corner
                reach = int(REACH * (1 - query / self.queries) * images.shape[2])
                if query % PLACE_EVERY == 0 and reach > 0:
                    new_place = torch.minimum((corner + rng.integers(-reach, reach + 1, 2)).clamp(min=0), room)
                else:
                    inside = _square(rng, min(self.changed(query), side), side)
                    new_patch = torch.where(inside, _recoloured(rng, patch, inside, query >= one_channel_from), patch)
                score = target(_pasted(images, new_patch, new_place))
                better = score > best
                patch = torch.where(better[:, None, None, None], new_patch, patch)
                corner = torch.where(better[:, None], new_place, corner)
                best = torch.where(better, score, best)
            return torch.where((best > clean)[:, None, None, None], _pasted(images, patch, corner), images)

        return perturb


def _square(rng: ImageRng, changed: int, side: int) -> torch.Tensor:
    """Return bool ``(N, 1, side, side)``: a square at a random place of each patch."""
    corner = rng.integers(0, side - changed + 1, 2)[:, :, None]
    line = torch.arange(side, device=rng.device)
    within = (line >= corner) & (line < corner + changed)
    return (within[:, 0, :, None] & within[:, 1, None, :])[:, None]


def _recoloured(rng: ImageRng, patch: torch.Tensor, inside: torch.Tensor, one_channel: bool) -> torch.Tensor:
    """Return patches in other colours, whose channels are 0 or 1; the caller takes those of the square `inside`.

    With `one_channel`, one channel of each patch is inverted. Else the patch has one random colour; if the square has
    that colour already, the opposite one.
    """
    if one_channel:
        inverted = torch.nn.functional.one_hot(rng.integers(0, 3, 1)[:, 0], 3)[:, :, None, None]
        return torch.where(inverted.bool(), 1 - patch, patch)
    colour = rng.integers(0, 8, 1)[:, 0]
    bits = torch.stack([(colour >> k) & 1 for k in range(3)], dim=1)[:, :, None, None].float()
    same = ((patch == bits) | ~inside).all(dim=(1, 2, 3), keepdim=True)
    return torch.where(same, 1 - bits, bits).expand_as(patch)


def _initial(rng: ImageRng, side: int) -> torch.Tensor:
    """Return patches ``(N, 3, side, side)`` of values 0 and 1: small squares of random colours, later ones on top."""
    largest = max(1, math.ceil(side**0.5) - 1)
    sizes = 1 + rng.integers(0, largest, INITIAL_SQUARES)
    corners = (rng.uniform(INITIAL_SQUARES, 2) * (side - sizes[:, :, None] + 1)).long()
    colours = rng.integers(0, 2, INITIAL_SQUARES, 3).float()
    line = torch.arange(side, device=rng.device)
    within = (line >= corners[..., None]) & (line < (corners + sizes[:, :, None])[..., None])
    covers = within[:, :, 0, :, None] & within[:, :, 1, None, :]
    order = torch.arange(1, INITIAL_SQUARES + 1, device=rng.device)[None, :, None, None]
    top = (covers * order).amax(dim=1)  # (N, side, side): the number of the last square, from 1; 0 without any
    padded = torch.cat([torch.zeros_like(colours[:, :1]), colours], dim=1)
    pixels = padded.gather(1, top.flatten(1)[:, :, None].expand(-1, -1, 3))
    return pixels.view(len(rng), side, side, 3).permute(0, 3, 1, 2).contiguous()


def _pasted(images: Images, patch: torch.Tensor, corner: torch.Tensor) -> Images:
    """Return images with their patches; `corner` ``(N, 2)``: row and column of the upper left one."""
    side = torch.arange(patch.shape[2], device=images.device)
    rows, columns = corner[:, :1, None] + side[:, None], corner[:, 1:, None] + side[None, :]
    number = torch.arange(len(images), device=images.device)[:, None, None]
    pasted = images.permute(0, 2, 3, 1).clone()
    pasted[number, rows, columns] = patch.permute(0, 2, 3, 1)
    return pasted.permute(0, 3, 1, 2).contiguous()


@hookimpl
def components() -> list[Attack]:
    return [PatchRs()]
