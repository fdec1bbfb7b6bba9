"""Scores images that somebody handed in against a defense, and measures how far they are from the originals."""

import numpy as np
import torch

from imharness.images import Purification
from imharness.tracks import StepContext, StepResult, step
from imharness_iqa.steps import names_of, scoring
from imharness_vision.evidence_rows import HandedIn, distance


@step(version="1", doing="scoring handed-in images[ behind {defense}]")
def evidence(context: StepContext) -> StepResult:
    """Score f(D(x')) of handed-in images, as often as asked with fresh draws of a random defense."""
    handed = HandedIn.of(context)
    images, draws = handed.originals, int(context.options["draws"])
    score = scoring(context, images)

    def measure(positions: list[int], batch: torch.Tensor) -> dict[str, torch.Tensor]:
        names, attacked = names_of(images, positions), handed.images(positions, batch)
        measures = {"distance": distance(handed.attack, attacked, batch)}
        return measures | {
            str(draw): score(positions, _defended(context, names, attacked, draw)) for draw in range(draws)
        }

    results = context.map(images, measure)
    rows = {**handed.facts(), "distance": results["distance"]}
    repeated = {name: np.tile(np.asarray(values), draws) for name, values in rows.items()}
    scores = np.concatenate([results[str(draw)] for draw in range(draws)])
    return StepResult(rows={**repeated, "draw": np.repeat(np.arange(draws), len(images)), "score": scores})


def _defended(context: StepContext, names: list[str], attacked: torch.Tensor, draw: int) -> torch.Tensor:
    defense = context.component("defense")
    if not isinstance(defense, Purification):
        return attacked
    streams = context.rng(names, "evidence", defense.label, str(context.options["fresh"]), str(draw))
    return context.build("defense")(attacked, streams)
