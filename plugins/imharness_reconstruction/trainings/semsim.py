"""Train SemSim on annotated reconstructions: ``harness train semsim --annotations FOLDER``.

The paper (section 5) leaves one data set out and learns from reconstructions by InvGrad: ``--unseen NAME --attack
harness/invgrad``. It trains by SGD at 0.1 with batches of 128 for 200 epochs. It names no decay of the learning rate
and no bound of the gradient; by default ours has both. ``--decay none --clip 0`` trains as printed, which is
what the paper profile asks for.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from pydantic import Field

from imharness.data import ImageSet, Info, hookimpl
from imharness.errors import UsageError
from imharness.leaderboard import auc
from imharness.training import Train, Trained, TrainingContext, WeightTraining
from imharness_reconstruction.semsim import (
    CLIP,
    Annotations,
    Backbone,
    Decay,
    Loss,
    SemSimNet,
    SemSimPlan,
    SemSimTraining,
)


class SemSimWeightTraining(WeightTraining):
    """SemSim, trained on a folder of annotated reconstructions."""

    info = Info(id="harness/semsim", version="1")
    annotations: str = Field(default="", description="Folder in the published layout, or as `export` writes it.")
    size: int = Field(default=32, ge=8, le=512, description="Side to which all images are resized, px.")
    backbone: Backbone = Field(default="resnet50", description="Network of the features.")
    loss: Loss = Field(default="triplet", description="What is minimised.")
    margin: float = Field(default=1.0, gt=0, le=100, description="Margin of the loss.")
    epochs: int = Field(default=200, ge=1, le=10_000, description="Passes over the reconstructions.")
    batch_size: int = Field(default=128, ge=2, le=4096, description="Triplets per step.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Learning rate of SGD.")
    decay: Decay = Field(default="cosine", description="How the learning rate falls; the paper names no decay.")
    clip: float = Field(
        default=CLIP, ge=0, description="Largest norm of a gradient; 0: no bound. The paper names no bound."
    )
    unseen: str = Field(default="", description="Leave this data set out, by its id. Needs an index.csv.")
    attack: str = Field(default="", description="Learn from this attack only, by its id. Needs an index.csv.")

    def datasets(self) -> Mapping[str, str]:
        if not self.annotations:
            raise UsageError("semsim learns from annotations: add --annotations FOLDER.")
        if not Path(self.annotations).is_dir():
            remedy = "`harness reconstruction export` writes one"
            raise UsageError(f"--annotations: {self.annotations} is not a folder; {remedy}.")
        return {"annotations": f"harness/annotated[path={self.annotations},size={self.size}]"}

    def plan(self) -> SemSimPlan:
        return SemSimPlan(
            self.backbone,
            self.loss,
            self.margin,
            self.epochs,
            self.batch_size,
            self.learning_rate,
            self.decay,
            self.clip,
        )

    def build(self, device: torch.device) -> Train:
        def train(context: TrainingContext) -> Trained:
            data = read_annotations(selected_annotations(context.data["annotations"], self.unseen, self.attack))
            training = SemSimTraining(data, self.plan(), context.rng, device)
            context.loop(training.parts, training.steps, training.step, every=10 * training.per_epoch)
            figures = {
                "originals": len(data.originals),
                "reconstructions": len(data.reconstructions),
                "recognised": round(float(data.recognised.float().mean()), 4),
                "auc_on_training": round(separation(training.network.eval(), data), 4),
            }
            return Trained(training.network.state_dict(), figures)

        return train


def selected_annotations(images: ImageSet, unseen: str, attack: str) -> ImageSet:
    """Return the annotated reconstructions by an attack, without those of a data set, and their originals.

    Args:
        images: originals and reconstructions.
        unseen: the id of the data set that is left out; "": none.
        attack: the id of the only attack that is taken; "": all.

    Raises:
        UsageError: the annotations have no index, or no reconstruction has such a data set or attack.
    """
    rebuilt = np.asarray(images.columns["recognised"]) >= 0
    selected = rebuilt.copy()
    for fact, name in (("dataset", unseen), ("attack", attack)):
        if not name:
            continue
        if fact not in images.columns:
            raise UsageError(f"the annotations have no index.csv, which names the {fact} of each reconstruction.")
        ids = np.array([str(label).partition("[")[0] for label in images.columns[fact]])
        if name not in ids[rebuilt]:
            have = ", ".join(sorted(set(ids[rebuilt])))
            raise UsageError(f"no reconstruction of the annotations has the {fact} {name!r}; there are {have}.")
        selected &= (ids != name) if fact == "dataset" else (ids == name)
    same_reference = np.isin(images.columns["reference"], np.asarray(images.columns["reference"])[selected])
    return images.at(np.flatnonzero(selected | (~rebuilt & same_reference)).tolist())


def read_annotations(images: ImageSet) -> Annotations:
    """Return an annotated data set as tensors; raises `UsageError` if everything or nothing was recognised."""
    verdict, reference = np.asarray(images.columns["recognised"]), np.asarray(images.columns["reference"])
    originals, rebuilt = np.flatnonzero(verdict < 0), np.flatnonzero(verdict >= 0)
    names, positions = np.unique(reference[originals], return_index=True)
    recognised = verdict[rebuilt] == 1
    if not len(rebuilt) or recognised.all() or not recognised.any():
        raise UsageError(
            f"{int(recognised.sum())} of {len(rebuilt)} reconstructions are recognised: the training needs both kinds."
        )
    return Annotations(
        images.load(originals[positions].tolist()),
        images.load(rebuilt.tolist()),
        torch.from_numpy(np.searchsorted(names, reference[rebuilt])),
        torch.from_numpy(recognised),
    )


@torch.no_grad()
def separation(network: SemSimNet, data: Annotations, batch: int = 256) -> float:
    """Return the area under the ROC curve of the distance, unrecognised against recognised."""
    device = next(network.parameters()).device
    distances = [
        network.distance(data.reconstructions[rows].to(device), data.originals[data.reference[rows]].to(device))
        for rows in torch.arange(len(data.reconstructions)).split(batch)
    ]
    return float(auc(-torch.cat(distances).cpu().numpy(), data.recognised.numpy()))


@hookimpl
def components() -> list[WeightTraining]:
    return [SemSimWeightTraining()]
