"""DP-SGD: clipped gradients per row and Gaussian noise, through the library Opacus.

Abadi et al., "Deep Learning with Differential Privacy" (CCS 2016), algorithm 1. Epsilon comes from Opacus' accountant
of Renyi divergences: Mironov, Talwar & Zhang, "Renyi Differential Privacy of the Sampled Gaussian Mechanism" (2019).
"""

import importlib.util
import warnings

import torch
from pydantic import Field

from imharness.errors import Unavailable
from imharness.membership import (
    MembershipDefenseInfo,
    MembershipTraining,
    Progress,
    TrainingData,
    TrainingPlan,
    TrainPrivately,
    hookimpl,
)
from imharness_membership.training import generator_on, rate_after

OPTIMISERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
"""The optimisers, by their name in a training plan."""


class DpSgd(MembershipTraining):
    """Differentially private training: every row's gradient is clipped, and noise is added to their sum."""

    info = MembershipDefenseInfo(id="harness/dp-sgd", version="2", paper="abadi2016")
    noise: float = Field(
        default=1.0, gt=0, le=100, description="Standard deviation of the noise divided by the clipping norm."
    )
    clip: float = Field(default=1.0, gt=0, description="Norm to which the gradient of a row is clipped.")
    delta: float = Field(default=1e-5, gt=0, lt=1, description="Probability that the promised epsilon does not hold.")

    def require(self) -> None:
        """Raise `Unavailable` when Opacus is not installed."""
        if importlib.util.find_spec("opacus") is None:
            raise Unavailable("the library opacus is not installed", "pip install 'image-privacy-harness[dp]'")

    def promises(self, plan: TrainingPlan, rows: int) -> tuple[float, float]:
        """Return epsilon by Opacus' accountant, and delta; a member is one row."""
        from opacus.accountants import RDPAccountant

        rate, steps = _sampling(plan, rows)
        accountant = RDPAccountant()
        accountant.history = [(self.noise, rate, plan.epochs * steps)]
        return float(accountant.get_epsilon(self.delta)), self.delta

    def build(self, device: torch.device) -> TrainPrivately:
        """Return private training; batches are drawn by Poisson sampling, and empty batches add noise, too."""

        def train(
            network: torch.nn.Module, data: TrainingData, plan: TrainingPlan, rng: torch.Generator, progress: Progress
        ) -> torch.nn.Module:
            from opacus import GradSampleModule
            from opacus.optimizers import DPOptimizer

            private = GradSampleModule(network.train())
            rate, steps = _sampling(plan, len(data.labels))
            optimiser = DPOptimizer(
                OPTIMISERS[plan.optimiser](private.parameters(), lr=plan.learning_rate, fused=True),
                noise_multiplier=self.noise,
                max_grad_norm=self.clip,
                expected_batch_size=round(rate * len(data.labels)),
                generator=generator_on(rng, device),
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the library's hooks fire on inputs without gradients
                for epoch in range(plan.epochs):
                    for _ in range(steps):
                        chosen = (torch.rand(len(data.labels), generator=rng) < rate).nonzero()[:, 0].to(device)
                        optimiser.zero_grad()
                        torch.nn.functional.cross_entropy(
                            private(data.features[chosen]), data.labels[chosen]
                        ).backward()
                        optimiser.step()
                    for group in optimiser.param_groups:
                        group["lr"] = rate_after(plan, epoch + 1)
                    progress(epoch + 1, plan.epochs)
            private.remove_hooks()
            return network.eval()

        return train


def _sampling(plan: TrainingPlan, rows: int) -> tuple[float, int]:
    """Return the probability that a row is in a batch, and the number of steps of an epoch."""
    rate = min(1.0, plan.batch_size / rows)
    return rate, max(1, round(1 / rate))


@hookimpl
def components() -> list[MembershipTraining]:
    return [DpSgd()]
