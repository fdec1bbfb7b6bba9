"""For people who write trainings of weights, metrics that can be trained further, and defenses that train them."""

from imharness.contracts.trainable_metric import TrainableMetric, TuningPlan
from imharness.contracts.training_defense import TrainingDefense, Tune
from imharness.contracts.weight_training import Loop, Stateful, Train, Trained, TrainingContext, WeightTraining
from imharness.results.labels import label_with

__all__ = [
    "Loop",
    "Stateful",
    "Train",
    "TrainableMetric",
    "Trained",
    "TrainingContext",
    "TrainingDefense",
    "Tune",
    "TuningPlan",
    "WeightTraining",
    "label_with",
]
