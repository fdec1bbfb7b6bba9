"""How the weights of the prior of harness/invgrad-prior were trained: digits and textures that nobody attacks."""

from collections.abc import Mapping

import torch

from imharness.data import Images, ImageSet, Info, hookimpl, seeded_init
from imharness.errors import ContractError
from imharness.training import Train, Trained, TrainingContext, WeightTraining
from imharness_reconstruction.denoiser import Denoiser

STEPS, BATCH, RATE = 600, 16, 3e-3
STRONGEST = 0.5
"""The largest standard deviation of the noise; the images are in [0, 1]."""
FLOOR = 0.01
"""The squared error of an image is divided by the variance of its noise plus this, so that weak noise does not rule."""
SIDE = 24
"""The side of the windows of photographs, px."""
MEASURED = 0.2
"""The standard deviation of the noise of the held-out images."""
MARGIN = 4.0
"""The least gain of PSNR on the held-out images, dB."""
EVERY = 100
"""The number of training steps between two checkpoints."""


class EmbeddedPriorTraining(WeightTraining):
    """A denoiser of digits and of tinted textures, for all levels of noise; its gain is measured at sigma 0.2."""

    info = Info(id="harness/embedded-prior", version="1")

    def datasets(self) -> Mapping[str, str]:
        """Return digits and textures to train on, and held-out digits and scenes; they share no image."""
        return {
            "digits": "harness/digit-images[split=train,trained_on=1297,size=18]",
            "photographs": "harness/thumbnails[shows=textures,split=train,per_photograph=8]",
            "test digits": "harness/digit-images[size=18,images=100]",
            "test photographs": "harness/thumbnails[size=16,per_photograph=4]",
        }

    def build(self, device: torch.device) -> Train:
        """Return the training; it raises `ContractError` when the network gains too little.

        The weights are rounded to float16, in which they are stored, before the gain is measured.
        """

        def train(context: TrainingContext) -> Trained:
            rng, pictures = context.rng, {role: _all(images) for role, images in context.data.items()}
            with seeded_init(rng):
                network = Denoiser()
            optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=STEPS)

            def step(number: int) -> None:
                images = pictures["photographs" if number % 2 else "digits"]
                clean = images[torch.randint(len(images), (BATCH,), generator=rng)]
                clean = _tinted(clean, rng) if number % 2 else clean
                levels = STRONGEST * torch.rand(BATCH, generator=rng)
                noise = levels.view(-1, 1, 1, 1) * torch.randn(clean.shape, generator=rng)
                errors = (network(clean + noise, levels) - clean).square().mean(dim=(1, 2, 3))
                optimiser.zero_grad()
                (errors / (levels.square() + FLOOR)).mean().backward()
                optimiser.step()
                schedule.step()

            components = {"network": network, "optimiser": optimiser, "schedule": schedule}
            context.loop(components, STEPS, step, every=EVERY)
            weights = {name: tensor.half() for name, tensor in network.state_dict().items()}
            network.load_state_dict(weights)
            figures: dict[str, float] = {"steps": STEPS}
            for role in ("digits", "photographs"):
                before, after = _gain(network.eval(), pictures[f"test {role}"])
                if not after - before >= MARGIN:
                    raise ContractError(
                        f"{self.label} takes held-out {role} from {before:.2f} to {after:.2f} dB and must gain "
                        f"{MARGIN:g} dB; no weights were written"
                    )
                figures |= {f"{role}_psnr_before": round(before, 2), f"{role}_psnr_after": round(after, 2)}
            return Trained(weights, figures)

        return train


def _all(images: ImageSet) -> Images:
    return images.load(list(range(len(images))))


def _tinted(images: Images, rng: torch.Generator) -> Images:
    """Return mirrored windows whose channels are each drawn towards a random value: most textures are grey."""
    top, left_edge = (int(torch.randint(images.shape[d] - SIDE + 1, (), generator=rng)) for d in (2, 3))
    windows = images[:, :, top : top + SIDE, left_edge : left_edge + SIDE]
    share, colour = (torch.rand(len(images), 3, 1, 1, generator=rng) for _ in range(2))
    windows = windows + 0.6 * share * (colour - windows)
    return windows.flip(3) if torch.rand((), generator=rng) < 0.5 else windows


@torch.no_grad()
def _gain(network: Denoiser, clean: Images) -> tuple[float, float]:
    """Return the mean PSNR of noisy images and of denoised ones, dB; the noise is always the same."""
    noisy = clean + MEASURED * torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    restored = network(noisy, torch.full((len(clean),), MEASURED))
    before, after = (
        float(-10 * (images.clamp(0, 1) - clean).square().mean(dim=(1, 2, 3)).log10().mean())
        for images in (noisy, restored)
    )
    return before, after


@hookimpl
def components() -> list[WeightTraining]:
    return [EmbeddedPriorTraining()]
