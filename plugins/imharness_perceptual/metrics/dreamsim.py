"""DreamSim, its branch on DINO: the cosine distance of embeddings tuned on what people find similar.

Fu, Tamir, Sundaram, Chai, Zhang, Dekel & Isola, "DreamSim: Learning New Dimensions of Human Visual Similarity using
Synthetic Data" (NeurIPS 2023), section 4. An embedding is the class token of DINO's ViT-B/16 with low-rank updates of
its layers, minus the token's mean. The distance is one minus the cosine of two embeddings, which is their correlation.
The paper's ensemble of three networks agrees with people on 96.2 % of NIGHTS, this branch on 94.8 %.
"""

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.errors import Unavailable, UsageError
from imharness.files import read_json
from imharness.images import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Scores, hookimpl
from imharness_perceptual.references import ReferenceFeatures
from imharness_vision.lpips import not_repeated
from imharness_vision.perceptual import normalised
from imharness_vision.vit import VisionTransformer, adapted, at_side
from imharness_vision.weights import Undrawn, fill, frozen, state_dict, unpacked, weights_in

DINO = Asset(
    name="dino-vitb16",
    file="weights/dino/dino_vitbase16_pretrain.pth",
    sha256="",
    licence="Apache-2.0",
    source="https://github.com/facebookresearch/dino",
    address="https://dl.fbaipublicfiles.com/dino/dino_vitbase16_pretrain/dino_vitbase16_pretrain.pth",
)
ADAPTER = Asset(
    name="dreamsim-dino-vitb16",
    file="weights/dreamsim/dreamsim_dino_vitb16_checkpoint.zip",
    sha256="",
    licence="MIT",
    source="https://github.com/ssundaram21/dreamsim",
    address="https://github.com/ssundaram21/dreamsim/releases/download/v0.2.0-checkpoints/"
    "dreamsim_dino_vitb16_checkpoint.zip",
)
FOLDER = "dino_vitb16_single_lora"
REMEDY = f"replace it, from {ADAPTER.source}"
PREFIX = "base_model.model.extractor_list.0.model."


class DreamSim(FullReferenceMetric):
    """Cosine distance of embeddings tuned on people's similarity (DINO ViT-B/16); 0 for identical images, at most 2."""

    info = MetricInfo(
        id="harness/dreamsim", version="1", higher_means="worse_quality", bounds=(0, 2), unit="1", paper="fu2023"
    )

    tuned: bool = Field(default=True, description="With the updates of its layers; else the backbone as it was.")

    def assets(self) -> tuple[Asset, ...]:
        """Return the backbone, and the archive with its updates."""
        return (DINO, ADAPTER) if self.tuned else (DINO,)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric of images scaled to 224 px."""
        with Undrawn():
            network = VisionTransformer()
        fill(network, DINO, state_dict(DINO))
        if self.tuned:
            _adapt(network)
        network = frozen(network, device)

        def embedded(images: Images) -> list[torch.Tensor]:
            features = network(normalised(at_side(images)))
            return [F.normalize(features - features.mean(dim=1, keepdim=True), dim=1)]

        reference_features = ReferenceFeatures(embedded, limit=1)

        def score(images: Images, reference: Images) -> Scores:
            return 1 - (embedded(images)[0] * reference_features(not_repeated(reference))[0]).sum(dim=1)

        return score


def _adapt(network: VisionTransformer) -> None:
    with unpacked(ADAPTER, f"{FOLDER}/adapter_model.safetensors", f"{FOLDER}/adapter_model.bin") as file:
        updates = weights_in(file)
    try:
        with unpacked(ADAPTER, f"{FOLDER}/adapter_config.json") as file:
            settings = read_json(file)
        changed = adapted(network, updates, settings["lora_alpha"] / settings["r"], PREFIX)
    except (UsageError, KeyError, RuntimeError, TypeError, ZeroDivisionError) as error:
        raise Unavailable(f"{ADAPTER.path()} holds other updates: {error}", REMEDY) from None
    if not changed:
        raise Unavailable(f"{ADAPTER.path()} holds no updates of layers", REMEDY)


@hookimpl
def components() -> list[FullReferenceMetric]:
    return [DreamSim(), DreamSim(tuned=False)]
