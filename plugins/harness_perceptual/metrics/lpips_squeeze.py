"""LPIPS with the SqueezeNet 1.1 backbone and the published linear heads, through the package lpips.

Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric" (CVPR 2018), equation 1.
"""

import torch

from harness.api import Asset, FullReferenceMetric, FullReferenceScore, Images, MetricInfo, Paper, Scores, hookimpl

BACKBONE = Asset(
    name="squeezenet1-1-features",
    file="weights/lpips-squeeze/squeezenet1_1_features.pth",
    sha256="435cedb387e95bc8291893f61a3a64f0345b8c23a05139aceef43947efb3d52d",
    size=2899197,
    licence="BSD-3-Clause (torchvision)",
    source="https://github.com/delldu/LPIPS",
    address="https://github.com/delldu/LPIPS/raw/77473a15f51969d567c0e03bf31c7f116a152777/"
    "project/image_likeness/models/squeeze.backbone.pth",
)


class LpipsSqueeze(FullReferenceMetric):
    """Learned perceptual distance (LPIPS 0.1, SqueezeNet, linear heads); 0 for identical images."""

    info = MetricInfo(
        id="harness/lpips-squeeze",
        version="1",
        higher_means="worse_quality",
        unit="1",
        paper=Paper(
            title="The Unreasonable Effectiveness of Deep Features as a Perceptual Metric",
            authors="Zhang, Isola, Efros, Shechtman & Wang",
            year=2018,
            url="https://arxiv.org/abs/1801.03924",
        ),
    )

    def assets(self) -> tuple[Asset, ...]:
        """Return the backbone; the linear heads come with the package lpips."""
        return (BACKBONE,)

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric."""
        import lpips

        network = lpips.LPIPS(net="squeeze", pnet_rand=True, verbose=False)
        weights = torch.load(BACKBONE.path(), map_location="cpu", weights_only=True)
        slices = {
            f"{part}.{index}.{rest}": f"{index}.{rest}"
            for part, index, rest in (name.split(".", 2) for name in network.net.state_dict())
        }
        network.net.load_state_dict({ours: weights[theirs] for ours, theirs in slices.items()}, strict=True)
        network.eval().requires_grad_(False).to(device)

        def score(images: Images, reference: Images) -> Scores:
            return network(images, reference, normalize=True).flatten()

        return score


@hookimpl
def register_metrics() -> list[FullReferenceMetric]:
    return [LpipsSqueeze()]
