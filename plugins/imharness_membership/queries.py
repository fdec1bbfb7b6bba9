"""What an evaluator is given: the outputs of target and shadow, and what the adversary knows besides."""

from dataclasses import replace
from functools import partial

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

    def one(known_half: slice, tested_half: slice) -> MembershipQuery:
        slopes, noisy, deep = query.gradients, query.robustness, query.layers
        return replace(
            query,
            shadow_outputs=query.target_outputs[known_half],
            shadow_labels=query.target_labels[known_half],
            shadow_member=member[known_half],
            target_outputs=query.target_outputs[tested_half],
            target_labels=query.target_labels[tested_half],
            references=None,
            robustness=noisy and Robustness(noisy.target[known_half], noisy.target[tested_half]),
            gradients=slopes
            and LastLayerGradients(
                slopes.target_error[known_half],
                slopes.target_features[known_half],
                slopes.target_error[tested_half],
                slopes.target_features[tested_half],
            ),
            layers=deep
            and LayerGradients(
                deep.sizes,
                *(
                    values[rows]
                    for rows in (known_half, tested_half)
                    for values in (deep.target_inputs, deep.target_slopes, deep.target_norms)
                ),
            ),
        )

    return [(tested_half, one(known_half, tested_half)) for tested_half, known_half in (halves, halves[::-1])]


def _on_device(context: StepContext, array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(context.device)


def references_of(context: StepContext, order: np.ndarray) -> References:
    """Return the answers of reference models on the target's rows in the given order, and the target's to views."""
    shadow, target = context.need("shadow"), context.need("target")
    arrays = context.need("references").arrays

    tensor = partial(_on_device, context)
    answers = {name: arrays[name] for name in ODDS if name in arrays}
    if "stopped" in shadow.arrays:
        stop_index = int(shadow.arrays["stopped"][0])
        answers = {name: arrays[f"stopped.{name}"][stop_index] for name in answers}
    columns = np.searchsorted(arrays["row"], target.rows["row"][order]) if "row" in arrays else order
    return References(
        log_odds=tensor(answers["log_odds"][:, columns]),
        member=tensor(arrays["member"][:, columns]),
        population_log_odds=tensor(answers["population"]),
        target_population_log_odds=tensor(target.arrays["population"]),
        view_log_odds=tensor(answers["views"][..., columns]) if "views" in answers else None,
        target_view_log_odds=tensor(target.arrays["views"][..., order]) if "views" in answers else None,
    )


def query_of(context: StepContext, order: np.ndarray) -> MembershipQuery:
    """Return the query of the evaluator, with the target's rows in the given order."""
    shadow, target = context.need("shadow"), context.need("target")
    reads = context.component("evaluator").reads

    tensor = partial(_on_device, context)
    noisy, slopes, deep = None, None, None
    references = references_of(context, order) if "references" in reads else None
    if "robustness" in reads:
        shadow_values, theirs = (context.need(f"{role}_model").arrays["robustness"] for role in ("shadow", "target"))
        noisy = Robustness(tensor(shadow_values), tensor(theirs[order]))
    if "gradients" in reads:
        shadow_values, theirs = (context.need(f"{role}_model").arrays for role in ("shadow", "target"))
        slopes = LastLayerGradients(
            shadow_error=tensor(shadow_values["error"]),
            shadow_features=tensor(shadow_values["features"]),
            target_error=tensor(theirs["error"][order]),
            target_features=tensor(theirs["features"][order]),
        )
    if "layers" in reads:
        features = context.table().features.flatten(1)
        models = [context.need(f"{role}_model") for role in ("shadow", "target")]
        tensors = []
        for shadow_values, places in zip(models, (slice(None), order), strict=True):
            inputs, slope, norms = (tensor(shadow_values.arrays[f"layers.{name}"][places]) for name in LAYERS)
            if shadow_values.arrays["layers.given"][0]:
                inputs = torch.cat([features[tensor(shadow_values.rows["row"][places])], inputs], dim=1)
            tensors += [inputs, slope, norms]
        deep = LayerGradients(tensor(models[0].arrays["layers.sizes"]), *tensors)
    return MembershipQuery(
        shadow_outputs=tensor(shadow.arrays["outputs"]),
        shadow_labels=tensor(shadow.rows["label"]),
        shadow_member=tensor(shadow.rows["member"]),
        target_outputs=tensor(target.arrays["outputs"][order]),
        target_labels=tensor(target.rows["label"][order]),
        references=references,
        robustness=noisy,
        gradients=slopes,
        layers=deep,
    )
