"""What an evaluator is given: the outputs of target and shadow, and what the adversary knows besides."""

from dataclasses import replace

import numpy as np
import torch

from imharness.membership import (
    LastLayerGradients,
    LayerGradients,
    MembershipQuery,
    References,
    Robustness,
)
from imharness.tracks import StepContext

ODDS = ("log_odds", "population", "views")
"""The names of a reference model's answers: on the target's rows, on the population, on further views of the rows."""
LAYERS = ("inputs", "slopes", "norms")
"""The arrays of `row_gradients`; the rows themselves are not stored again."""


def known_halves(query: MembershipQuery, member: torch.Tensor) -> list[tuple[slice, MembershipQuery]]:
    """Return two queries: each half of the target's rows to guess, the other half in the place of the shadow's rows.

    The rows are in a random order already. `member`, bool ``(m,)``: the membership of the target's rows; a query tells
    that of its known half only.
    """
    middle = len(member) // 2
    halves = slice(0, middle), slice(middle, None)

    def one(known: slice, asked: slice) -> MembershipQuery:
        slopes, noisy, deep = query.gradients, query.robustness, query.layers
        return replace(
            query,
            shadow_outputs=query.target_outputs[known],
            shadow_labels=query.target_labels[known],
            shadow_member=member[known],
            target_outputs=query.target_outputs[asked],
            target_labels=query.target_labels[asked],
            references=None,
            robustness=noisy and Robustness(noisy.target[known], noisy.target[asked]),
            gradients=slopes
            and LastLayerGradients(
                slopes.target_error[known],
                slopes.target_features[known],
                slopes.target_error[asked],
                slopes.target_features[asked],
            ),
            layers=deep
            and LayerGradients(
                deep.sizes,
                *(
                    own[rows]
                    for rows in (known, asked)
                    for own in (deep.target_inputs, deep.target_slopes, deep.target_norms)
                ),
            ),
        )

    return [(asked, one(known, asked)) for asked, known in (halves, halves[::-1])]


def query_of(context: StepContext, order: np.ndarray) -> MembershipQuery:
    """Return the query of the evaluator, with the target's rows in the given order."""
    shadow, target = context.need("shadow"), context.need("target")
    reads = context.component("evaluator").reads

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(context.device)

    known, noisy, slopes, deep = None, None, None, None
    if "references" in reads:
        found = context.need("references").arrays
        answers = {name: found[name] for name in ODDS if name in found}
        if "stopped" in shadow.arrays:
            place = int(shadow.arrays["stopped"][0])
            answers = {name: found[f"stopped.{name}"][place] for name in answers}
        columns = np.searchsorted(found["row"], target.rows["row"][order]) if "row" in found else order
        known = References(
            log_odds=tensor(answers["log_odds"][:, columns]),
            member=tensor(found["member"][:, columns]),
            population_log_odds=tensor(answers["population"]),
            target_population_log_odds=tensor(target.arrays["population"]),
            view_log_odds=tensor(answers["views"][..., columns]) if "views" in answers else None,
            target_view_log_odds=tensor(target.arrays["views"][..., order]) if "views" in answers else None,
        )
    if "robustness" in reads:
        own, theirs = (context.need(f"{role}_model").arrays["robustness"] for role in ("shadow", "target"))
        noisy = Robustness(tensor(own), tensor(theirs[order]))
    if "gradients" in reads:
        own, theirs = (context.need(f"{role}_model").arrays for role in ("shadow", "target"))
        slopes = LastLayerGradients(
            shadow_error=tensor(own["error"]),
            shadow_features=tensor(own["features"]),
            target_error=tensor(theirs["error"][order]),
            target_features=tensor(theirs["features"][order]),
        )
    if "layers" in reads:
        features = context.table().features.flatten(1)
        models = [context.need(f"{role}_model") for role in ("shadow", "target")]
        parts = []
        for own, places in zip(models, (slice(None), order), strict=True):
            inputs, slope, norms = (tensor(own.arrays[f"layers.{name}"][places]) for name in LAYERS)
            if own.arrays["layers.given"][0]:
                inputs = torch.cat([features[tensor(own.rows["row"][places])], inputs], dim=1)
            parts += [inputs, slope, norms]
        deep = LayerGradients(tensor(models[0].arrays["layers.sizes"]), *parts)
    return MembershipQuery(
        shadow_outputs=tensor(shadow.arrays["outputs"]),
        shadow_labels=tensor(shadow.rows["label"]),
        shadow_member=tensor(shadow.rows["member"]),
        target_outputs=tensor(target.arrays["outputs"][order]),
        target_labels=tensor(target.rows["label"][order]),
        references=known,
        robustness=noisy,
        gradients=slopes,
        layers=deep,
    )
