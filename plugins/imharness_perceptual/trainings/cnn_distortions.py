"""Trains the CNN-based distortions: ``harness train cnn-distortions --networks 96``.

Zhang et al., CVPR 2018, section 2.1 and table 2 (right): each network is a denoising autoencoder with a random design.
It learns to undo a corruption of images. Its loss is a weighted sum of the mean absolute error, a distance of deep
features and the loss of a discriminator ("judge"), which learns to tell outputs of the network from clean images. The
paper trains 96 networks for one epoch of ImageNet each: they shall show the artefacts of such networks rather than
solve their task. The eight networks that ship are trained on crops of free photographs for 100 steps, with the features
of this package's small LPIPS in the place of VGG's.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field

from imharness.data import Images, ImageSet, Info, hookimpl, seeded_init
from imharness.errors import ContractError
from imharness.training import Train, Trained, TrainingContext, WeightTraining
from imharness_vision.distortions.networks import PUBLISHED, Autoencoder, Judge, corrupted, design
from imharness_vision.lpips import FeatureDistance, published, untrained
from imharness_vision.weights import frozen, weights_in

JUDGE_CHANNELS = 16
LEAST = 12.0
"""The PSNR to clean images, in dB, that outputs must reach: below it a network shows nothing of the image."""
TESTED = 32
"""The number of held-out images on which the PSNR is measured."""
SMALL = files("imharness_perceptual") / "weights" / "embedded-lpips.safetensors"


class CnnDistortionsTraining(WeightTraining):
    """Denoising autoencoders of random design, whose outputs are the CNN-based distortions of BAPPS."""

    info = Info(id="harness/cnn-distortions", version="1", paper="zhang2018")
    networks: int = Field(default=8, ge=1, le=PUBLISHED, description="Number of networks; 96 in the paper.")
    steps: int = Field(default=100, ge=1, description="Steps for each network; the paper has one epoch of ImageNet.")
    batch_size: int = Field(default=4, ge=1, le=4096, description="Images per step.")
    side: int = Field(default=64, ge=16, le=512, description="Side of the windows that are cut from images, px.")
    features: Literal["embedded", "vgg", "alex", "squeeze"] = Field(
        default="embedded", description="Whose features the loss compares; the paper has VGG's."
    )
    train: str = Field(
        default="harness/severity-ladder[per_photograph=30,severities=[],split=train]",
        description="Data set of clean images of one size, at least `side`.",
    )
    test: str = Field(
        default="harness/severity-ladder[per_photograph=4,severities=[]]", description="Held-out clean images."
    )

    def datasets(self) -> Mapping[str, str]:
        return {"train": self.train, "test": self.test}

    def build(self, device: torch.device) -> Train:
        """Return the training; it raises `ContractError` where outputs of a network show nothing of the image."""

        def train(context: TrainingContext) -> Trained:
            rng, designs = context.rng, [design(number) for number in range(self.networks)]
            with seeded_init(rng):
                networks = [Autoencoder(each).to(device) for each in designs]
                judges = [Judge(each.judge_layers, JUDGE_CHANNELS).to(device) for each in designs]
            compare = frozen(self._features(), device)
            rates = [each.learning_rate for each in designs]
            network_optimisers = [_adam(network, rate) for network, rate in zip(networks, rates, strict=True)]
            judge_optimisers = [_adam(judge, rate) for judge, rate in zip(judges, rates, strict=True)]

            def step(number: int) -> None:
                """Train a network and its judge for one step; the networks are trained one after another."""
                i = number // self.steps
                clean = self._windows(context.data["train"], rng).to(device)
                noisy = corrupted(clean, designs[i].corruption, torch.randn(clean.shape, generator=rng).to(device))
                output = networks[i](noisy, rng)
                judge_loss = _judge_loss(judges[i](clean), is_clean=True)
                judge_loss = judge_loss + _judge_loss(judges[i](output.detach()), is_clean=False)
                _step(judge_optimisers[i], judge_loss)
                loss = designs[i].pixel * (output - clean).abs().mean()
                loss = loss + designs[i].feature * compare(output, clean).mean()
                loss = loss + designs[i].adversarial * _judge_loss(judges[i](output), is_clean=True)
                _step(network_optimisers[i], loss)

            components = {f"network-{i}": network for i, network in enumerate(networks)}
            components |= {f"judge-{i}": judge for i, judge in enumerate(judges)}
            components |= {f"maker-{i}": optimiser for i, optimiser in enumerate(network_optimisers)}
            components |= {f"teller-{i}": optimiser for i, optimiser in enumerate(judge_optimisers)}
            context.loop(components, self.networks * self.steps, step, every=self.steps)
            tensors, figures = dict[str, torch.Tensor](), dict[str, str | float]()
            for i, network in enumerate(networks):
                rounded = {n: t.half() for n, t in network.state_dict().items() if t.is_floating_point()}
                network.load_state_dict(rounded, strict=False)
                figures[f"psnr_{i}"] = self._psnr(network.eval(), context.data["test"], device)
                if not figures[f"psnr_{i}"] >= LEAST:
                    raise ContractError(
                        f"{self.label}: network {i} leaves {figures[f'psnr_{i}']:.2f} dB of held-out images and must "
                        f"leave {LEAST:g} dB; no weights were written"
                    )
                tensors |= {f"{i}.{name}": tensor for name, tensor in rounded.items()}
            return Trained(tensors, {"networks": self.networks, "steps": self.steps, **figures})

        return train

    def _features(self) -> FeatureDistance:
        """Return the distance of deep features that the loss has."""
        if self.features != "embedded":
            return published(self.features, heads=False)
        network = untrained("embedded")
        network.load_state_dict({name: t.float() for name, t in weights_in(Path(str(SMALL))).items()})
        return network

    def _windows(self, images: ImageSet, rng: torch.Generator) -> Images:
        """Return a batch of windows of random images, all cut at one random place and mirrored at random."""
        batch = images.load(torch.randint(len(images), (self.batch_size,), generator=rng).tolist())
        top, left_edge = (int(torch.randint(batch.shape[d] - self.side + 1, (), generator=rng)) for d in (2, 3))
        windows = batch[:, :, top : top + self.side, left_edge : left_edge + self.side]
        return windows.flip(3) if torch.rand((), generator=rng) < 0.5 else windows

    @torch.no_grad()
    def _psnr(self, network: Autoencoder, images: ImageSet, device: torch.device) -> float:
        """Return the mean PSNR of outputs to the first held-out images, in dB."""
        clean = images.load(list(range(min(TESTED, len(images)))))
        noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
        output = network(corrupted(clean, network.design.corruption, noise).to(device)).cpu()
        return round(float(-10 * (output - clean).square().mean((1, 2, 3)).log10().mean()), 2)


def _adam(module: torch.nn.Module, rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), lr=rate, betas=(0.5, 0.999))


def _judge_loss(logits: torch.Tensor, *, is_clean: bool) -> torch.Tensor:
    """Return the cross-entropy of a judge's logits where all images are clean, or all are outputs of a network."""
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(is_clean)))


def _step(optimiser: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()


@hookimpl
def components() -> list[WeightTraining]:
    return [CnnDistortionsTraining()]
