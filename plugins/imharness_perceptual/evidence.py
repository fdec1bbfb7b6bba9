"""Evidence against a distance: attacked images that somebody handed in, measured and taken into the contest."""

from collections.abc import Callable, Iterator

import numpy as np
import torch

from imharness.leaderboard import Blocks, Evidence
from imharness.tracks import Query, StepContext, StepResult, step
from imharness_perceptual.choices import forced_choices, handed_in_distances
from imharness_perceptual.steps import origins
from imharness_vision.evidence_rows import HandedIn, ball_of_8_bits, distance


@step(version="1", doing="measuring handed-in images with {metric}")
def evidence(context: StepContext) -> StepResult:
    """Measure the distance of handed-in images from the references of their originals; larger means farther.

    The column "allowed" is the radius of the L-infinity ball in which images count: that of the attacks of the track.
    """
    handed, images = HandedIn.of(context), context.images()
    originals, position = handed.originals, {name: i for i, name in enumerate(images.names)}
    metric, farther, origin = context.build("metric"), -context.component("metric").closeness, origins(images)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        reference = images.load([origin[position[originals.names[p]]] for p in positions]).to(batch.device)
        attacked = handed.images(positions, batch)
        return {"distance": distance(handed.attack, attacked, batch), "score": farther * metric(attacked, reference)}

    measured = context.map(originals, measure)
    ball = ball_of_8_bits(int(context.options["radius"]) / 255)
    return StepResult(
        rows={**handed.facts(), "allowed": [ball] * len(originals), "draw": np.zeros(len(originals), int), **measured}
    )


def evidence_of(query: Query, shares: Callable[[Blocks], Blocks]) -> Iterator[Evidence]:
    """Yield the evidence that was handed in against each distance, by data set and distortion.

    A handed-in image takes part in the forced choices in which people find it nearer than the other alternative. Only
    the images that the leaderboard attacks count. `shares` turns blocks of the credit for choices (measure "all") into
    blocks of shares of the agreement among people (measure "share").
    """
    if "evidence" not in query.steps:
        return
    share_blocks = shares(forced_choices(handed_in_distances(query)))
    for c, condition in enumerate(share_blocks.conditions):
        facets = {name: condition[name] for name in ("dataset", "distortion")}
        for metric, share in zip(share_blocks.entries, share_blocks.values["share"][c], strict=True):
            defined = ~np.isnan(share)
            order = np.argsort(share_blocks.units[c][defined].astype(str))
            units, values = share_blocks.units[c][defined][order], share[defined][order].astype(np.float64)
            if len(units):
                yield Evidence(facets, metric, units, {"share": values}, values)
