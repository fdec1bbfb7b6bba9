"""The pass over noisy copies that certified defenses make: its share of the machine's speed, and its memory."""

import resource
import subprocess
import sys

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode
from torchvision.models import resnet18

from benchmarks.timing import Line, best_of
from imharness.contracts.randomness import ImageRng, generator, seeded_init
from imharness_iqa.certifications.ms import Ms
from imharness_iqa.certifications.rs import Rs
from imharness_vision.weights import folded, frozen

SIDE, COPIES = 224, 192
RATE, SAVED, GROWTH = 0.70, 1.9, 1.05
PUBLISHED_BATCH = 10
CPU = torch.device("cpu")


def lines() -> list[Line]:
    """Return the speed against a matrix product and the published loop, and how memory grows with the copies."""
    with seeded_init(generator(0)):
        plain = resnet18(num_classes=1).eval()
    network = frozen(folded(plain), CPU)
    image = torch.rand(1, 3, SIDE, SIDE, generator=generator(1))
    rs = Rs(selection=COPIES // 4, samples=COPIES - COPIES // 4)
    assert Ms(selection=rs.selection, samples=rs.samples).noisy() == rs

    def ours() -> torch.Tensor:
        return rs.smooth(CPU)(lambda x: network(x).flatten(), image, ImageRng([0]))

    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            network(image)
        flops = COPIES * counter.get_total_flops()
        took = best_of(2, ours)
        published = 2 * best_of(1, lambda: _published_loop(plain, image))
    share = flops / took / _matrix_rate()
    peaks = [_peak(samples) for samples in (1_000, 10_000)]
    return [
        Line(
            f"Noisy pass, ResNet-18 at {SIDE} px: share of the speed of a matrix product",
            f"{100 * share:.0f} %",
            f">= {100 * RATE:.0f} %",
            share >= RATE,
        ),
        Line(
            f"One pass for rs and ms: times faster than one each in batches of {PUBLISHED_BATCH}, noise from numpy",
            f"{published / took:.1f}x",
            f">= {SAVED:g}x",
            published / took >= SAVED,
        ),
        Line(
            "Peak memory with 10,000 noisy copies, compared with 1,000",
            f"{peaks[1] / peaks[0]:.3f}x",
            f"<= {GROWTH:g}x",
            peaks[1] <= GROWTH * peaks[0],
        ),
    ]


def _published_loop(network: torch.nn.Module, image: torch.Tensor) -> None:
    noise = np.random.default_rng(0)
    for _ in range(COPIES // PUBLISHED_BATCH):
        drawn = noise.normal(0, 0.12, (PUBLISHED_BATCH, *image.shape[1:])).astype(np.float32)
        network((image + torch.from_numpy(drawn)).clamp(0, 1))


def _matrix_rate(side: int = 2048) -> float:
    """Return the floating-point operations per second of a square float32 product."""
    a, b = (torch.rand(side, side, generator=generator(seed)) for seed in (2, 3))
    return 2 * side**3 / best_of(5, lambda: a @ b)


def _peak(samples: int) -> int:
    """Return the peak memory of a process that certifies one small image with `samples` copies, KiB."""
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.smoothing", str(samples)], capture_output=True, check=True
    )
    return int(process.stdout)


def _certify(samples: int) -> None:
    image = torch.rand(1, 3, 64, 64, generator=generator(0))
    rs = Rs(selection=100, samples=samples)
    scores = rs.smooth(CPU)(lambda x: x.flatten(1).mean(dim=1), image, ImageRng([0]))
    rs.build(CPU)(scores, (0.0, 1.0))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # noqa: T201


if __name__ == "__main__":
    _certify(int(sys.argv[1]))
