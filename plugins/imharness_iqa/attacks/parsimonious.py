"""Parsimonious attack: lazy greedy search over the signs of blocks, from coarse to fine.

Moon, An & Song, "Parsimonious Black-Box Adversarial Attacks via Efficient Combinatorial Optimization" (ICML 2019),
algorithms 1 to 3. The noise is defined on a 256x256 grid and resized to the image by nearest neighbours. Every image
has its own search: in each step, every image of the batch asks for one score.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl

GRID = 256
FIRST_BLOCK = 32
AT_ONCE = 64
"""The number of blocks that one local search works on."""
BASE, INSERT, INSERT_LAZY, DELETE, DELETE_LAZY = range(5)
"""The phases of a local search.

BASE scores the start. INSERT scores the flip of each block whose sign is negative, and flips the best one. INSERT_LAZY
tries the others again, the one with the largest known gain first. DELETE and DELETE_LAZY do the same with the blocks
whose sign is positive.
"""


class Parsimonious(Attack):
    """Lazy greedy insertion and deletion of blocks with positive sign, inside an L-infinity ball."""

    info = AttackInfo(
        id="harness/parsimonious",
        version="2",
        access="black_box",
        norm="linf",
        distortion="psnr",
        strengths={"weak": {"epsilon": 0.018623}, "medium": {"epsilon": 0.033676}, "strong": {"epsilon": 0.0607}},
        paper="moon2019",
    )
    epsilon: float = Field(default=0.05, gt=0, le=1, description="L-infinity distance, in units of the pixel range.")
    queries: int = Field(default=10_000, ge=2, le=1_000_000, description="Scores per image.")

    def budget(self) -> Budget:
        """Return the distance and the number of scores."""
        return Budget(radius=self.epsilon, queries=self.queries)

    def build(self, device: torch.device) -> Perturb:
        """Return the attack; each image gets the noise with the highest score seen, or none if all noise lowers it."""

        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            blocks = all_blocks(rng, self.queries)
            search = _Search.begin(len(images), device)
            best, highest = images, target(images)
            down, across = (_nearest(side, images.device) for side in images.shape[2:])
            for _ in range(self.queries - 1):
                candidate = self._noisy(images, search.proposed(blocks, down, across))
                score = target(candidate)
                better = score > highest
                best = torch.where(better[:, None, None, None], candidate, best)
                highest = torch.where(better, score, highest)
                search.learn(blocks, score)
            return best

        return perturb

    def _noisy(self, images: Images, positive: torch.Tensor) -> Images:
        """Return images with the noise of ``(N, 3, H, W)`` signs."""
        return (images + self.epsilon * (2 * positive.float() - 1)).clamp(0, 1)


def _nearest(side: int, device: torch.device) -> torch.Tensor:
    """Return int64 ``(side,)``: for each line of an image, the line of the grid from which it takes its noise."""
    line = torch.arange(GRID, device=device).float()
    return F.interpolate(line[None, None], side, mode="nearest")[0, 0].long()


def all_blocks(rng: ImageRng, queries: int) -> torch.Tensor:
    """Return int64 ``(N, batches, AT_ONCE, 4)``: channel, top, left, side of the blocks, coarse to fine, shuffled.

    Each block needs at least one query, so `queries` bounds the number of blocks; the last batch of the finest level
    may not be reached.
    """
    block_sets, side, count = [], FIRST_BLOCK, 0
    while side >= 1 and count < queries:
        places = torch.arange(0, GRID, side, device=rng.device)
        channels = torch.arange(3, device=rng.device)
        grid = torch.cartesian_prod(channels, places, places)
        order = rng.uniform(len(grid)).argsort(dim=1)
        sized = torch.cat([grid[order], torch.full((*order.shape, 1), side, device=rng.device)], dim=2)
        block_sets.append(sized)
        count, side = count + len(grid), side // 2
    joined = torch.cat(block_sets, dim=1)
    whole = joined[:, : joined.shape[1] // AT_ONCE * AT_ONCE]
    return whole.view(len(rng), -1, AT_ONCE, 4)


@dataclass
class _Search:
    """The state of the search; all tensors have one row per image.

    Each image works on one batch of blocks after the other, and for each goes through the phases above.
    """

    positive: torch.Tensor
    """bool ``(N, 3, GRID, GRID)``: where the noise is +epsilon."""
    batch: torch.Tensor
    """int64 ``(N,)``: the number of the batch of blocks."""
    phase: torch.Tensor
    """int64 ``(N,)``: the phase, one of those above."""
    score: torch.Tensor
    """The score of the present noise, ``(N,)``."""
    inside: torch.Tensor
    """bool ``(N, AT_ONCE)``: blocks of the batch with positive sign."""
    todo: torch.Tensor
    """bool ``(N, AT_ONCE)``: blocks whose flip is still to be scored."""
    queued: torch.Tensor
    """bool ``(N, AT_ONCE)``: blocks whose flip was scored in this phase or the one before, and not accepted."""
    gain: torch.Tensor
    """``(N, AT_ONCE)``: by how much the flip of each block raised the score when it was last tried."""

    @classmethod
    def begin(cls, n: int, device: torch.device) -> "_Search":
        flags = torch.zeros(n, AT_ONCE, dtype=torch.bool, device=device)
        integers = torch.zeros(n, dtype=torch.int64, device=device)
        canvas = torch.zeros(n, 3, GRID, GRID, dtype=torch.bool, device=device)
        empty = torch.zeros(n, AT_ONCE, device=device)
        return cls(canvas, integers, integers, integers.float(), flags, flags, flags, empty)

    def choice(self) -> torch.Tensor:
        """Return the block whose flip each image tries next; meaningless in the base phase."""
        first = self.todo.float().argmax(dim=1)
        return torch.where(self._lazy(), self._best(), first)

    def proposed(self, blocks: torch.Tensor, down: torch.Tensor, across: torch.Tensor) -> torch.Tensor:
        """Return the proposed noise at some rows and columns of the grid."""
        flip = self._area(blocks, self.choice(), down, across) & (self.phase != BASE)[:, None, None, None]
        return self.positive[:, :, down[:, None], across] ^ flip

    def learn(self, blocks: torch.Tensor, score: torch.Tensor) -> None:
        """Take the score of the proposal and go on to the next one.

        In a lazy phase the block that was tried is accepted if its gain is still the largest known one, and helps. If
        another gain is larger now, the block goes back into the queue. If it is the largest and does not help, the
        phase ends.
        """
        base, lazy, choice = self.phase == BASE, self._lazy(), self.choice()
        first_trial = ~base & ~lazy  # in INSERT and DELETE
        self.score = torch.where(base, score, self.score)
        gain = score - self.score
        self.gain = torch.where(_at(choice, ~base), gain[:, None], self.gain)
        self.todo = self.todo & ~_at(choice, first_trial)
        self.queued = (self.queued | _at(choice, first_trial)) & ~_at(choice, lazy)
        largest_queued = self.gain.masked_fill(~self.queued, -torch.inf).amax(dim=1)
        leads = lazy & (gain >= largest_queued)
        helps = torch.where(self.phase == INSERT_LAZY, gain >= 0, gain > 0)
        self.queued = self.queued | _at(choice, lazy & ~leads)
        all_tried = first_trial & ~self.todo.any(dim=1)
        self._accept(blocks, choice, leads & helps, score)
        self._accept(blocks, self._best(), all_tried, self.score + self.gain.gather(1, self._best()[:, None])[:, 0])
        queue_empty = ~self.queued.any(dim=1)
        ended = (lazy & ((leads & ~helps) | queue_empty)) | (all_tried & queue_empty)
        self.phase = torch.where(all_tried & ~ended, self.phase + 1, self.phase)
        self._enter(blocks, base, ended)

    def _accept(self, blocks: torch.Tensor, block: torch.Tensor, which: torch.Tensor, score: torch.Tensor) -> None:
        """Flip one block ``(N,)`` of each of the images in `which`, whose scores ``(N,)`` are then `score`."""
        if not which.any():
            return
        line = torch.arange(GRID, device=blocks.device)
        self.positive = self.positive ^ (self._area(blocks, block, line, line) & which[:, None, None, None])
        self.inside = self.inside ^ _at(block, which)
        self.queued = self.queued & ~_at(block, which)
        self.score = torch.where(which, score, self.score)

    def _enter(self, blocks: torch.Tensor, based: torch.Tensor, ended: torch.Tensor) -> None:
        """Start the insertion after the base score, the deletion after the insertion, and then the next batch.

        `based` ``(N,)``: images whose start was scored just now; `ended` ``(N,)``: images whose phase has ended. An
        insertion or deletion that has no block to try is passed over.
        """
        inserting = self.phase <= INSERT_LAZY
        to_delete = ended & inserting
        to_next = ended & ~inserting
        self.inside = torch.where(based[:, None], self._signs(blocks), self.inside)
        self.todo = torch.where(based[:, None], ~self.inside, self.todo)
        none_outside = based & ~self.todo.any(dim=1)
        self.phase = torch.where(based, INSERT, self.phase)
        to_delete = to_delete | none_outside
        self.todo = torch.where(to_delete[:, None], self.inside, self.todo)
        self.phase = torch.where(to_delete, DELETE, self.phase)
        to_next = to_next | (to_delete & ~self.inside.any(dim=1))
        self.queued = self.queued & ~(based | to_delete | to_next)[:, None]
        self.batch = torch.where(to_next, (self.batch + 1) % blocks.shape[1], self.batch)
        self.phase = torch.where(to_next, BASE, self.phase)

    def _lazy(self) -> torch.Tensor:
        """Return bool ``(N,)``: images in a lazy phase."""
        return (self.phase == INSERT_LAZY) | (self.phase == DELETE_LAZY)

    def _best(self) -> torch.Tensor:
        """Return the queued block with the largest known gain ``(N,)``."""
        return self.gain.masked_fill(~self.queued, -torch.inf).argmax(dim=1)

    def _current(self, blocks: torch.Tensor) -> torch.Tensor:
        """Return the blocks of each image's batch ``(N, AT_ONCE, 4)``."""
        return blocks[torch.arange(len(blocks), device=blocks.device), self.batch]

    def _signs(self, blocks: torch.Tensor) -> torch.Tensor:
        """Return bool ``(N, AT_ONCE)``: whether the upper left corner of each block of the batch is positive."""
        channel, top, left_edge, _ = self._current(blocks).unbind(dim=2)
        number = torch.arange(len(blocks), device=blocks.device)[:, None]
        return self.positive[number, channel, top, left_edge]

    def _area(
        self, blocks: torch.Tensor, choice: torch.Tensor, down: torch.Tensor, across: torch.Tensor
    ) -> torch.Tensor:
        """Return bool ``(N, 3, rows, columns)``: where one block of each image covers these rows and columns."""
        number = torch.arange(len(blocks), device=blocks.device)
        channel, top, left_edge, side = self._current(blocks)[number, choice].unbind(dim=1)
        rows = (down >= top[:, None]) & (down < (top + side)[:, None])
        columns = (across >= left_edge[:, None]) & (across < (left_edge + side)[:, None])
        channels = torch.arange(3, device=blocks.device) == channel[:, None]
        return channels[:, :, None, None] & rows[:, None, :, None] & columns[:, None, None, :]


def _at(block: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    """Return bool ``(N, AT_ONCE)``: the one block of each image, for the images in `which`."""
    line = torch.arange(AT_ONCE, device=block.device)
    return (line == block[:, None]) & which[:, None]


@hookimpl
def components() -> list[Attack]:
    return [Parsimonious()]
