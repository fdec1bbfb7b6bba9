"""What only a GPU can show: every part runs with the CPU as its device, and on the GPU where there is one."""

import pytest
import torch
from benchmarks import gpu

from imharness.components.registry import installed
from imharness.contracts.randomness import ImageRng, generator
from imharness.errors import Unavailable
from imharness.running.numerics import fresh_numerics
from imharness_reconstruction import captured
from imharness_reconstruction.per_image import image_gradients

SMALL = gpu.Sizes(side=32, iterations=3, images=2, copies=32, steps=8, models=2, epochs=1, conforming=3)


def test_every_part_runs_with_the_cpu_as_its_device() -> None:
    lines = {line.what.strip(): line for line in gpu.lines("cpu", SMALL)}
    exact = {what: line.measured for what, line in lines.items() if "difference" in what and "bfloat16" not in what}
    assert len(exact) == 5
    assert {value.removesuffix(" %") for value in exact.values()} <= {"0.00", "0.000", "0.0e+00"}
    narrow = lines.pop("bfloat16: difference of the gain")  # its goal is for more images than two
    assert float(narrow.measured.removesuffix(" %")) < 5
    assert [line for line in lines.values() if not line.met] == []
    assert lines["Conformance: components work on the device"].measured == "3 components"
    assert lines["A fork of the prepared server computes on the device"].measured == "6.0"
    assert lines["Out of memory: batches are halved, scores stay"].measured.startswith(
        "8 images in batches of at most 2"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_benchmark_says_so_in_a_line() -> None:
    with pytest.raises(Unavailable, match="unavailable: no GPU on this machine"):
        gpu.lines()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_everything_that_only_a_gpu_can_show() -> None:
    assert [line for line in gpu.lines("cuda") if not line.met] == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
@pytest.mark.parametrize("tolerance", [0, 0.01])
@pytest.mark.parametrize("attack", ["invgrad", "gradattack", "invgrad-prior"])
@pytest.mark.parametrize("model", ["lenet", "pixel-mlp[width=64]", "resnet20[width=4]", "tiny-vit[width=32]"])
def test_captured_steps_rebuild_what_others_do(
    model: str, attack: str, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, shape = torch.device("cuda:0"), (3, 16, 16)
    registry = installed()

    def rebuilt() -> torch.Tensor:
        network = registry.one("model", model).build(device)(shape, 5, generator(0)).eval().requires_grad_(False)
        images = torch.rand(5, *shape, generator=generator(1)).to(device)
        gradients = image_gradients(network, images, torch.arange(5, device=device))
        built = registry.one("attack", attack).with_parameters(steps=60, tolerance=tolerance).build(device)
        return built(gradients, network, shape, ImageRng(range(5), device), lambda done, total: None)

    with fresh_numerics():
        plain = rebuilt()
        monkeypatch.setenv(captured.SWITCH, "1")
        replays, replay = [], torch.cuda.CUDAGraph.replay
        monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: replays.append(0) or replay(graph))
        torch.testing.assert_close(rebuilt(), plain, atol=1e-3, rtol=0)
    assert replays
