"""Dropout (Srivastava et al., JMLR 2014) as a defense (Salem et al., NDSS 2019, section VI-A)."""

import torch
from pydantic import Field

from imharness.membership import (
    MembershipDefenseInfo,
    MembershipTraining,
    Progress,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    hookimpl,
)
from imharness_membership.training import epochs, generator_on


class Dropout(MembershipTraining):
    """Switches off random units behind every fully connected layer but the last during training."""

    info = MembershipDefenseInfo(id="harness/dropout", version="1")
    share: float = Field(default=0.5, gt=0, lt=1, description="Share of the units that are switched off.")

    def build(self, device: torch.device) -> TrainPrivately:
        """Return training with dropout; a network with a single linear layer is trained with it on its input."""

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            def thinned(module: torch.nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor] | None:
                if not module.training:
                    return None
                mask = torch.rand(inputs[0].shape, generator=masks, device=masks.device) >= self.share
                return (inputs[0] * mask / (1 - self.share),)

            masks = generator_on(rng, device)
            linear = [module for module in network.modules() if isinstance(module, torch.nn.Linear)]
            hooks = [module.register_forward_pre_hook(thinned) for module in linear[1:] or linear]
            for done in epochs(network, data, plan, rng):
                progress(done, plan.epochs)
            for hook in hooks:
                hook.remove()
            return network.eval()

        return train


@hookimpl
def components() -> list[MembershipTraining]:
    return [Dropout()]
