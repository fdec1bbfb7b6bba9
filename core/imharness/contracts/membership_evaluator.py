"""Membership inference: evaluators that guess which records were in the training set.

Letters in shapes: m rows of the target, n rows of the shadow model or of the target, whichever a field is named after,
K reference models, p rows of the population, v altered copies of a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch

from imharness.contracts.call import Builds, Call
from imharness.contracts.component import Component
from imharness.contracts.values import SCORES, Record, Scores

Evidence = Literal["references", "robustness", "gradients", "layers", "known"]


@dataclass(frozen=True)
class References:
    """The outputs of the adversary's K reference models on the target's rows, and on rows that the target never saw.

    ``log_odds``, float32 ``(K, m)``, is log p_y - log(1 - p_y) of the true class. ``member``, bool ``(K, m)``, says
    which of the target's rows each reference model was trained on; the adversary drew them at random. The population is
    p rows of the adversary: ``population_log_odds``, ``(K, p)``, are those of the references,
    ``target_population_log_odds``, ``(p,)``, those of the target.

    Where models are also asked about v altered copies of each row, such as its mirror image, ``view_log_odds``,
    ``(K, v, m)``, are the answers of the references, and ``target_view_log_odds``, ``(v, m)``, those of the target.
    """

    log_odds: torch.Tensor
    member: torch.Tensor
    population_log_odds: torch.Tensor
    target_population_log_odds: torch.Tensor
    view_log_odds: torch.Tensor | None = None
    target_view_log_odds: torch.Tensor | None = None


@dataclass(frozen=True)
class Robustness:
    """For each row, the share of its noisy copies that are classified correctly, ``(n,)`` in [0, 1].

    An adversary who sees only predicted labels can compute it.
    """

    shadow: torch.Tensor
    target: torch.Tensor


@dataclass(frozen=True)
class LastLayerGradients:
    """For each row, the gradient of the cross-entropy in the last linear layer, as its two factors: error x features.

    ``error``, ``(n, classes)``, is the probabilities of the undefended model minus the one-hot label. ``features``,
    ``(n, d)``, is the input of the layer. An adversary who holds the model's parameters can compute both.
    """

    shadow_error: torch.Tensor
    shadow_features: torch.Tensor
    target_error: torch.Tensor
    target_features: torch.Tensor


@dataclass(frozen=True)
class LayerGradients:
    """For each row, the gradient of the cross-entropy in every linear layer, and its norm in every convolution.

    The gradient of a linear layer's weights is given by its two factors: it is the outer product slopes x inputs.
    Biases and normalisation layers are left out. The factors of all layers are concatenated, in the order in which
    the network calls the layers.

    ``sizes``, int64 ``(layers, 2)``: the number of inputs and of units of each layer. ``inputs``, ``(n, sum of
    inputs)``: what each layer gets. ``slopes``, ``(n, sum of units)``: the derivatives of the loss with respect to what
    each layer returns; in the last layer they are the probabilities minus the one-hot label. ``norms``, ``(n, c)``: the
    norm of the gradient of each of the network's c convolutions.
    """

    sizes: torch.Tensor
    shadow_inputs: torch.Tensor
    shadow_slopes: torch.Tensor
    shadow_norms: torch.Tensor
    target_inputs: torch.Tensor
    target_slopes: torch.Tensor
    target_norms: torch.Tensor


@dataclass(frozen=True)
class MembershipQuery:
    """What an evaluator may see. Outputs are probabilities, float32 ``(n, classes)``; labels int64 ``(n,)``.

    The rows of the target are permuted: their order says nothing about membership. `references`, `robustness`,
    `gradients` and `layers` are None unless the evaluator asks for them in `reads`.
    """

    shadow_outputs: torch.Tensor
    shadow_labels: torch.Tensor
    shadow_member: torch.Tensor
    """bool ``(n,)``"""
    target_outputs: torch.Tensor
    target_labels: torch.Tensor
    references: References | None = None
    robustness: Robustness | None = None
    gradients: LastLayerGradients | None = None
    layers: LayerGradients | None = None


InferMembership: TypeAlias = Callable[[MembershipQuery], Scores]
"""A built evaluator: query -> float32 ``(m,)``, one score for each target row.

A higher score means more likely a member; a score of at least 0 says that the row is one.
"""


class MembershipEvaluator(Component, Builds[InferMembership]):
    """Guesses membership of target rows from a model's outputs."""

    kind: ClassVar[str] = "evaluator"
    call = Call(query=Record(MembershipQuery, rows_of="target_labels"), returns=SCORES)
    declares = ("reads",)
    reads: ClassVar[frozenset[Evidence]] = frozenset()
    """The evidence that the evaluator needs beyond outputs and labels.

    ``"known"``: the adversary knows the membership of one half of the target's rows. These rows replace those of a
    shadow model in the query (``shadow_outputs`` and so on). The evaluator is asked twice, once for each half.
    """
    needs_labels: ClassVar[bool] = False
    """Whether it needs the true classes. Where nobody knows them, a query has the predicted ones as labels."""
