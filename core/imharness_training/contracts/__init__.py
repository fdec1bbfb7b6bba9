"""For people who write trainings: recipes of weights, metrics that can be trained further, defenses that do it."""

from imharness_training.contracts.trainable_metric import TrainableMetric, TuningPlan
from imharness_training.contracts.training_defense import TrainingDefense, Tune
from imharness_training.contracts.weight_training import Loop, Stateful, Train, Trained, TrainingContext, WeightTraining

__all__ = [
    "Loop", "Stateful", "Train", "TrainableMetric", "Trained", "TrainingContext", "TrainingDefense", "Tune",
    "TuningPlan", "WeightTraining",
]  # fmt: skip
