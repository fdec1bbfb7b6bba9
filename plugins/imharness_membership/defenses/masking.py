"""Confidence masking: release less of the outputs (Shokri et al., IEEE S&P 2017, section VIII)."""

import torch
from pydantic import Field, model_validator

from imharness.membership import DefenderOutputs, MembershipDefenseInfo, MembershipRelease, ReleaseOutputs, hookimpl


class Masking(MembershipRelease):
    """Releases only the largest probabilities, rounds them, or raises the temperature."""

    info = MembershipDefenseInfo(id="harness/masking", version="1")
    top_k: int = Field(default=0, ge=0, description="Probabilities that are kept; the rest is spread evenly. 0: all.")
    decimals: int = Field(default=-1, ge=-1, le=10, description="Digits after the decimal point; -1: not rounded.")
    temperature: float = Field(default=1.0, gt=0, le=1000, description="Temperature of the softmax; 1: unchanged.")

    @model_validator(mode="after")
    def _masks(self) -> "Masking":
        if not self.top_k and self.decimals < 0 and self.temperature == 1:
            raise ValueError("nothing is masked; set top_k, decimals or temperature")
        return self

    def build(self, device: torch.device) -> ReleaseOutputs:
        """Return the mask: first the temperature, then `top_k`, then rounding; rows sum to 1 before rounding."""

        def release(outputs: torch.Tensor, defender: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            if self.temperature != 1:
                outputs = (outputs.clamp(min=1e-30).log() / self.temperature).softmax(dim=1)
            if self.top_k and self.top_k < outputs.shape[1]:
                top = outputs.topk(self.top_k, dim=1).indices
                masked = torch.zeros_like(outputs).scatter(1, top, outputs.gather(1, top))
                rest = (1 - masked.sum(dim=1, keepdim=True)) / (outputs.shape[1] - self.top_k)
                outputs = rest.clamp(min=0).expand_as(outputs).scatter(1, top, outputs.gather(1, top))
            return outputs if self.decimals < 0 else outputs.round(decimals=self.decimals)

        return release


@hookimpl
def components() -> list[MembershipRelease]:
    return [Masking(top_k=3), Masking(decimals=1), Masking(temperature=5.0)]
