"""The precision of the official profile costs an attack little: factors are rounded to 10 bits, as by a GPU."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng
from imharness.running.numerics import fresh_numerics
from imharness.running.target import MetricTarget

PRODUCTS = (torch.conv2d, torch.nn.functional.linear, torch.matmul)
IMAGES, SIDE = 8, 72


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        # to the nearest number with 10 bits after the leading one, of the 23 that float32 has
        bits = (x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF
        return bits.view(torch.float32)

    @staticmethod
    def backward(ctx, slope: torch.Tensor) -> torch.Tensor:
        return _Rounded.apply(slope)


class TensorCores(TorchFunctionMode):
    """Rounds the factors of convolutions and products to 10 bits, those of the gradient of an image too."""

    rounded = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in PRODUCTS:
            TensorCores.rounded += 1
            args = (*(_Rounded.apply(x) for x in args[:2]), *args[2:])
        return func(*args, **(kwargs or {}))


def test_ten_bits_are_what_is_left() -> None:
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11 + 2**-20, 1 + 2**-12, -3.14159])
    assert _Rounded.apply(x).tolist() == [1.0, 1 + 2**-10, 1 + 2**-10, 1.0, -3.140625]


@pytest.mark.parametrize("name", ["ifgsm", "square"])
def test_an_attack_loses_less_than_a_hundredth_of_its_gain(name: str) -> None:
    registry, device = installed(), torch.device("cpu")
    metric = registry.one("metric", "embedded-cnn")
    images = registry.one("dataset", f"harness/pictures[size={SIDE}]").build(device).load(list(range(IMAGES)))
    parameters = {"ifgsm": {"radius": 4 / 255}, "square": {"eps": 4 / 255, "queries": 60}}[name]
    attack = registry.one("attack", name).with_parameters(**parameters)
    score = metric.build(device)

    def gain(mode: TorchFunctionMode | None) -> float:
        def asked(x: torch.Tensor) -> torch.Tensor:
            if mode is None:
                return score(x)
            with mode:
                return score(x)

        target = MetricTarget(asked, metric.bounds, images=IMAGES, differentiable=name == "ifgsm")
        attacked_images = attack.build(device)(images, target, ImageRng(range(IMAGES), device))
        with torch.no_grad():
            return float((score(attacked_images) - score(images)).mean())

    with fresh_numerics():
        plain, rounded = gain(None), gain(TensorCores())
    assert TensorCores.rounded
    assert plain > 0
    assert rounded == pytest.approx(plain, rel=0.01)
