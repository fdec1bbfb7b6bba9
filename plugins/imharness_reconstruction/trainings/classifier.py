"""Train a target classifier, with or without a defense: ``harness train classifier --dataset class-folder:PATH``."""

from collections.abc import Mapping

import numpy as np
import torch
from pydantic import Field

from imharness.data import generator
from imharness.errors import UsageError
from imharness.gradients import GradientDefense, ImagePool, ImageProtection, Info, hookimpl
from imharness.training import Train, Trained, TrainingContext, WeightTraining, label_with
from imharness_reconstruction.classifiers import ClassifierTraining, Schedule, top1
from imharness_reconstruction.models.saved_classifier import ARCHITECTURES, Architecture


class ClassifierWeightTraining(WeightTraining):
    """A target classifier, trained by stochastic gradient descent (SemSim, appendix C); it continues if interrupted."""

    info = Info(id="harness/classifier", version="2")
    dataset: str = Field(default="harness/thumbnails", description="Data set with train and test parts.")
    architecture: Architecture = Field(default="resnet20", description="The architecture that is trained.")
    defense: str = Field(default="harness/plain-gradient", description="Defense under which it is trained.")
    epochs: int = Field(default=60, ge=1, le=10_000, description="Passes over the training images.")
    batch_size: int = Field(default=128, ge=1, le=8192, description="Images per step.")
    learning_rate: float = Field(
        default=0.1, gt=0, le=10, description="First learning rate; it falls to 0 along a cosine."
    )

    def datasets(self) -> Mapping[str, str]:
        """Return both parts of the data set."""
        return {"train": label_with(self.dataset, split="train"), "test": self.dataset}

    def requires(self) -> Mapping[str, tuple[str, str]]:
        return {"defense": ("defense", self.defense)}

    def build(self, device: torch.device) -> Train:
        def train(context: TrainingContext) -> Trained:
            guard = context.components["defense"]
            if not isinstance(guard, GradientDefense | ImageProtection):
                raise UsageError(f"{guard.label} defends neither gradients nor private images.")
            splits = {}
            for role, images in context.data.items():
                labels = torch.from_numpy(np.asarray(images.columns["label"])).long().to(device)
                splits[role] = (images.load(list(range(len(images)))).to(device), labels)
            (x, y), (test_x, test_y) = splits["train"], splits["test"]
            classes = int(y.max()) + 1
            network = ARCHITECTURES[self.architecture].build(device)(tuple(x.shape[1:]), classes, generator(0))
            pool = ImagePool(x, torch.nn.functional.one_hot(y, classes).to(x.dtype))
            schedule = Schedule(self.epochs, self.batch_size, self.learning_rate)
            training = ClassifierTraining(network, pool, schedule, context.rng, guard)
            context.loop(training.parts, training.steps, training.step, every=training.per_epoch)
            accuracy = {
                "train_accuracy": round(float((top1(network, x) == y).float().mean()), 4),
                "test_accuracy": round(float((top1(network, test_x) == test_y).float().mean()), 4),
            }
            return Trained(network.state_dict(), {"images": len(x), "classes": classes, **accuracy})

        return train


@hookimpl
def components() -> list[WeightTraining]:
    return [ClassifierWeightTraining()]
