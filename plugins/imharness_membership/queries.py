"""Builds the query of an evaluator from stored arrays: outputs of target and shadow, and the adversary's evidence."""

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
"""The names of a reference model's answers: to the target's rows, to the population, and to views of the rows."""
LAYERS = ("inputs", "slopes", "norms")
"""The arrays of `RowGradients` that are stored."""


def known_halves(query: MembershipQuery, member: torch.Tensor) -> list[tuple[slice, MembershipQuery]]:
    """Return two queries, each with the slice of the target's rows that the adversary has to guess.

    The adversary knows the membership of the other half of the rows, which takes the place of the shadow's rows. Rows
    are in a random order already. `member`: the membership of the target's rows, bool ``(m,)``.
    """
    middle = len(member) // 2
    first, second = slice(0, middle), slice(middle, None)
    return [
        (first, _known_half(query, member, learned=second, tested=first)),
        (second, _known_half(query, member, learned=first, tested=second)),
    ]


def _known_half(query: MembershipQuery, member: torch.Tensor, *, learned: slice, tested: slice) -> MembershipQuery:
    """Return the query in which the adversary knows the membership of one half and is tested on the other."""
    robustness, gradients, layers = query.robustness, query.gradients, query.layers
    if robustness is not None:
        robustness = Robustness(robustness.target[learned], robustness.target[tested])
    if gradients is not None:
        gradients = LastLayerGradients(
            shadow_error=gradients.target_error[learned],
            shadow_features=gradients.target_features[learned],
            target_error=gradients.target_error[tested],
            target_features=gradients.target_features[tested],
        )
    if layers is not None:
        layers = LayerGradients(
            sizes=layers.sizes,
            shadow_inputs=layers.target_inputs[learned],
            shadow_slopes=layers.target_slopes[learned],
            shadow_norms=layers.target_norms[learned],
            target_inputs=layers.target_inputs[tested],
            target_slopes=layers.target_slopes[tested],
            target_norms=layers.target_norms[tested],
        )
    return replace(
        query,
        shadow_outputs=query.target_outputs[learned],
        shadow_labels=query.target_labels[learned],
        shadow_member=member[learned],
        target_outputs=query.target_outputs[tested],
        target_labels=query.target_labels[tested],
        references=None,
        robustness=robustness,
        gradients=gradients,
        layers=layers,
    )


def _on_device(context: StepContext, array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(context.device)


def references_of(context: StepContext, order: np.ndarray) -> References:
    """Return the answers of reference models, and the target's answers to views and to the population.

    `order`: the target's rows in the order of the evaluator, int ``(m,)``. Answers of undefended references at the
    epoch at which early stopping stopped the shadow are taken where there are any.
    """
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
    robustness, gradients, layers = None, None, None
    references = references_of(context, order) if "references" in reads else None
    if "robustness" in reads:
        shadow_arrays, target_arrays = (context.need(f"{role}_model").arrays for role in ("shadow", "target"))
        robustness = Robustness(tensor(shadow_arrays["robustness"]), tensor(target_arrays["robustness"][order]))
    if "gradients" in reads:
        shadow_arrays, target_arrays = (context.need(f"{role}_model").arrays for role in ("shadow", "target"))
        gradients = LastLayerGradients(
            shadow_error=tensor(shadow_arrays["error"]),
            shadow_features=tensor(shadow_arrays["features"]),
            target_error=tensor(target_arrays["error"][order]),
            target_features=tensor(target_arrays["features"][order]),
        )
    if "layers" in reads:
        features = context.table().features.flatten(1)
        models = [context.need(f"{role}_model") for role in ("shadow", "target")]
        tensors = []
        for model, rows in zip(models, (slice(None), order), strict=True):
            inputs, slopes, norms = (tensor(model.arrays[f"layers.{name}"][rows]) for name in LAYERS)
            if model.arrays["layers.given"][0]:  # the rows are the first inputs and were not stored again
                inputs = torch.cat([features[tensor(model.rows["row"][rows])], inputs], dim=1)
            tensors += [inputs, slopes, norms]
        layers = LayerGradients(tensor(models[0].arrays["layers.sizes"]), *tensors)
    return MembershipQuery(
        shadow_outputs=tensor(shadow.arrays["outputs"]),
        shadow_labels=tensor(shadow.rows["label"]),
        shadow_member=tensor(shadow.rows["member"]),
        target_outputs=tensor(target.arrays["outputs"][order]),
        target_labels=tensor(target.rows["label"][order]),
        references=references,
        robustness=robustness,
        gradients=gradients,
        layers=layers,
    )
