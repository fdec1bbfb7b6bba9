"""Square attack: random search with square updates, per image.

Andriushchenko, Croce, Flammarion & Hein, "Square Attack: a query-efficient black-box adversarial attack via random
search" (ECCV 2020), algorithms 1 and 2 and the schedule of p in section 5. As in the code of Guardians of Image
Quality, the search starts from the clean image; the vertical stripes that algorithm 2 starts from are the first
proposal.
"""

import torch
from pydantic import Field

from imharness.images import Attack, AttackInfo, Budget, ImageRng, Images, Perturb, Target, hookimpl
from imharness_iqa.random_search import share


class Square(Attack):
    """Random search: a square of one sign per channel is kept when the score rises."""

    info = AttackInfo(
        id="harness/square",
        version="2",
        access="black_box",
        norm="linf",
        strengths={"weak": {"eps": 2 / 255}, "medium": {"eps": 4 / 255}, "strong": {"eps": 8 / 255}},
        paper="andriushchenko2020",
    )
    eps: float = Field(default=0.1, gt=0, le=1, description="L-infinity distance, in units of the pixel range.")
    queries: int = Field(default=10_000, ge=2, le=1_000_000, description="Scores per image.")
    p: float = Field(default=0.05, gt=0, le=1, description="Share of the pixels that the first squares change.")

    def budget(self) -> Budget:
        """Return the distance and the number of scores."""
        return Budget(radius=self.eps, queries=self.queries)

    def side(self, query: int, height: int, width: int) -> int:
        """Return the side of the square at a query, px."""
        return max(1, min(round((share(self.p, query, self.queries) * height * width) ** 0.5), height, width))

    def build(self, device: torch.device) -> Perturb:
        def perturb(images: Images, target: Target, rng: ImageRng) -> Images:
            height, width = images.shape[2:]
            attacked, best = images, target(images)
            stripes = self.eps * (2 * rng.integers(0, 2, 3, 1, width) - 1)
            corners, signs = rng.uniform(self.queries - 1, 2, 1, 1, 1), rng.integers(0, 2, self.queries - 1, 3, 1, 1)
            rows = torch.arange(height, device=images.device).view(1, 1, -1, 1)
            columns = torch.arange(width, device=images.device).view(1, 1, 1, -1)
            for query in range(1, self.queries):
                side = self.side(query, height, width)
                top = (corners[:, query - 1, 0] * (height - side + 1)).long()
                left_edge = (corners[:, query - 1, 1] * (width - side + 1)).long()
                inside = (rows >= top) & (rows < top + side) & (columns >= left_edge) & (columns < left_edge + side)
                painted = (images + self.eps * (2 * signs[:, query - 1] - 1)).clamp(0, 1)
                candidate = torch.where(inside, painted, attacked) if query > 1 else (images + stripes).clamp(0, 1)
                score = target(candidate)
                better = score > best
                attacked = torch.where(better[:, None, None, None], candidate, attacked)
                best = torch.where(better, score, best)
            return attacked

        return perturb


@hookimpl
def components() -> list[Attack]:
    return [Square()]
