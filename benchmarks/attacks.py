"""A white-box attack on a ResNet-18 with one output, compared with the published loop.

That loop attacks image by image and computes the gradients of all parameters too.
"""

import torch
from torchvision.models import resnet18

from benchmarks.timing import Line, best_of
from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator, seeded_init
from imharness.running.numerics import multiplies_bfloat16
from imharness.running.target import MetricTarget
from imharness_vision.weights import folded, frozen

SIDE, IMAGES = 224, 16
GOAL, FAST_GOAL, SAME = 2.0, 5.0, 0.005
ALPHA, BALL, STEPS = 1 / 255, 10 / 255, 10


def lines() -> list[Line]:
    """Return the speed of ten steps of I-FGSM, and how much the gain of the score differs."""
    cpu = torch.device("cpu")
    smooth = torch.nn.functional.interpolate(
        torch.rand(IMAGES, 3, 14, 14, generator=generator(0)), SIDE, mode="bicubic"
    )
    images = (smooth + 0.05 * torch.randn(smooth.shape, generator=generator(1))).clamp(0, 1)
    published, tuned = _network(), frozen(folded(_network()), cpu)
    attack = installed().one("attack", "ifgsm").build(cpu)

    def ours(precision: str) -> torch.Tensor:
        target = MetricTarget(
            lambda x: tuned(x).flatten(),
            (0, 1),
            images=IMAGES,
            differentiable=True,
            precision=precision,
            micro_batch=16,
        )
        return attack(images, target, ImageRng(range(IMAGES)))

    times = {name: best_of(2, lambda name=name: ours(name)) for name in ("strict", "fast")}
    loop = best_of(1, lambda: _published_loop(published, images))
    attacked = {"loop": _published_loop(published, images), "strict": ours("strict"), "fast": ours("fast")}
    with torch.no_grad():
        gains = {name: float((tuned(x) - tuned(images)).mean()) for name, x in attacked.items()}
    results = []
    for name, goal in (("strict", GOAL), ("fast", FAST_GOAL)):
        ratio, off = loop / times[name], abs(gains[name] / gains["loop"] - 1)
        what = f"I-FGSM on a ResNet-18, {IMAGES} images of {SIDE} px, --precision {name}: times faster than one by one"
        supported = name == "strict" or multiplies_bfloat16("cpu")
        goal_text = f">= {goal:g}x" if supported else "no bf16 here"
        results.append(Line(what, f"{ratio:.1f}x", goal_text, ratio >= goal or not supported))
        results.append(Line("    difference of the score's gain", f"{100 * off:.2f} %", "<= 0.5 %", off <= SAME))
    return results


def _network() -> torch.nn.Module:
    with seeded_init(generator(0)):
        network = resnet18(num_classes=1)
    return network.eval()


def _published_loop(network: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
    batches = []
    for image in images.split(1):
        x = image.clone()
        for _ in range(STEPS):
            x = x.detach().requires_grad_(True)
            (-network(x).mean()).backward()
            stepped = x.detach() - ALPHA * x.grad.sign()
            x = (image + (stepped - image).clamp(-BALL, BALL)).clamp(0, 1)
        network.zero_grad()
        batches.append(x)
    return torch.cat(batches)
