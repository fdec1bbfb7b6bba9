"""Automatic transformation search: gradients of transformed images.

Gao et al., "Privacy-preserving Collaborative Learning with Automatic Transformation Search" (CVPR 2021). The search
itself is `harness reconstruction search`.
"""

import torch
from pydantic import Field, field_validator

from imharness.gradients import ImagePool, ImageProtection, ImageRng, Images, Info, ProtectImages, hookimpl
from imharness_reconstruction.transformations import parse_policy, transformed


class Ats(ImageProtection):
    """Transforms each image by a policy; a search chose it so that gradients reveal little."""

    info = Info(id="harness/ats", version="2", paper="gao2021")
    policy: str = Field(default="3-1-7+43-18-18", max_length=100, description="Transformations, by number.")
    published: bool = Field(
        default=True,
        description="Transform as the published code does (no probabilities, smaller changes), not as the paper says.",
    )

    @field_validator("policy")
    @classmethod
    def _parseable(cls, policy: str) -> str:
        parse_policy(policy)
        return policy

    def build(self, device: torch.device) -> ProtectImages:
        policies = parse_policy(self.policy)

        def protect(
            images: Images, targets: torch.Tensor, pool: ImagePool, rng: ImageRng
        ) -> tuple[Images, torch.Tensor]:
            return transformed(images, policies, rng, self.published), targets

        return protect


@hookimpl
def components() -> list[ImageProtection]:
    return [Ats(), Ats(policy="3-1-7"), Ats(policy="43-18-18")]
