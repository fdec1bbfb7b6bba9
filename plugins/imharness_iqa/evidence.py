"""Scores images that somebody handed in against a defense, and measures how far they are from the originals."""

import numpy as np
import torch

from imharness.images import Purification
from imharness.tracks import StepContext, StepResult, step
from imharness_iqa.steps import names_of, scoring
from imharness_vision.handed_in import HandedIn, distance


@step(version="1")
def evidence(context: StepContext) -> StepResult:
    """Score f(D(x')) of handed-in images, as often as asked with fresh draws of a random defense."""
    handed = HandedIn.of(context)
    images, draws = handed.originals, int(context.options["draws"])
    score = scoring(context, images)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names, attacked = names_of(images, positions), handed.images(positions, batch)
        found = {"distance": distance(handed.attack, attacked, batch)}
        return found | {str(draw): score(positions, _defended(context, names, attacked, draw)) for draw in range(draws)}

    found = context.map(images, measure)
    rows = {**handed.facts(), "distance": found["distance"]}
    repeated = {name: np.tile(np.asarray(own), draws) for name, own in rows.items()}
    scores = np.concatenate([found[str(draw)] for draw in range(draws)])
    return StepResult(rows={**repeated, "draw": np.repeat(np.arange(draws), len(images)), "score": scores})


def _defended(context: StepContext, names: list[str], attacked: torch.Tensor, draw: int) -> torch.Tensor:
    defense = context.component("defense")
    if not isinstance(defense, Purification):
        return attacked
    streams = context.rng(names, "evidence", defense.label, str(context.options["fresh"]), str(draw))
    return context.build("defense")(attacked, streams)
