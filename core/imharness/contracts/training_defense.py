"""Defenses that train the network of a metric further, once; they do not change images."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from imharness.contracts.call import Builds, Call
from imharness.contracts.metric_defense import MetricDefense
from imharness.contracts.trainable_metric import TrainableMetric, TuningPlan
from imharness.contracts.values import Only
from imharness.contracts.weight_training import TRAINED, TRAINING_CONTEXT, Trained, TrainingContext

Tune: TypeAlias = Callable[[TrainableMetric, TuningPlan, TrainingContext], Trained]
"""A built training defense: (metric, plan, context) -> the trained weights and their card.

It trains the network of `TrainableMetric.network` further. The data of the context have the roles ``train`` and
``test`` and a column ``mos``; its components have the roles of `requires`.
"""


class TrainingDefense(MetricDefense, Builds[Tune]):
    """A defense of the weights: `harness train` trains a metric further, once; images are not changed.

    The weights are found by the label of the defense and the id of the metric: see `TrainableMetric.training`.
    """

    call = Call(
        metric=Only("TrainableMetric"),
        plan=Only("TuningPlan"),
        context=TRAINING_CONTEXT,
        returns=TRAINED,
        own_gradients=True,
    )

    def requires(self) -> Mapping[str, tuple[str, str]]:
        """Return role -> (kind, name) of the components that training reads."""
        return {}
