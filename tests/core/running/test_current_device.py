"""Devices of a run on machines that are simulated: with two GPUs, or a Mac."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from imharness.contracts.randomness import ImageRng, generator
from imharness.contracts.values import GENERATOR, NUMBER, STREAMS, double
from imharness.errors import ContractError
from imharness.running import executor
from imharness.running.executor import Worker, WorkerConfig
from imharness.running.memory import is_out_of_memory
from imharness.running.projections import follow, follow_scores
from imharness.testing.crossing import restored, tensors
from imharness.testing.placement import ACCELERATOR, MAC, acted_accelerator
from imharness_membership.training import generator_on


def test_a_worker_makes_its_gpu_the_current_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that says "cuda" without a number means the worker's own GPU, also on the second of two."""
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    Worker(WorkerConfig(str(tmp_path), "cuda:1", batch_size=1))
    Worker(WorkerConfig(str(tmp_path), "cpu", batch_size=1))
    assert chosen == [torch.device("cuda", 1)]


@pytest.mark.parametrize(
    "message", ["CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"]
)
def test_memory_that_a_library_on_the_gpu_misses_is_recognised(message: str) -> None:
    assert is_out_of_memory(RuntimeError(message))


def test_two_gpus_share_the_workers_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    opened: list[list[WorkerConfig]] = []
    monkeypatch.setattr(executor, "find_executor", lambda name: lambda configs, limit: opened.append(list(configs)))
    for devices, workers in ((("auto",), None), (("cuda",), None), (("cuda:1",), None), (("auto",), 4)):
        executor.open_executor(tmp_path, devices=devices, workers=workers)
    places = [[config.device for config in configs] for configs in opened]
    assert places == [["cuda:0", "cuda:1"], ["cuda:0"], ["cuda:1"], ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]]


def test_generators_cross_to_the_host_and_streams_to_the_device() -> None:
    """A run hands out generators on the host and streams on the device, also to code in the sandbox."""
    with acted_accelerator():
        crossed = restored(GENERATOR, tensors(GENERATOR, generator(3)), ACCELERATOR)
        assert torch.rand(2, generator=crossed).tolist() == torch.rand(2, generator=generator(3)).tolist()
        streams = restored(STREAMS, tensors(STREAMS, ImageRng([1], ACCELERATOR)), ACCELERATOR)
        assert streams.normal(2).device == ACCELERATOR


def test_masks_are_drawn_where_they_are_used() -> None:
    random_generator = generator(5)
    assert generator_on(random_generator, torch.device("cpu")) is random_generator
    with acted_accelerator() as traffic:
        there = generator_on(generator(5), ACCELERATOR)
        assert torch.rand(3, generator=there, device=ACCELERATOR).device == ACCELERATOR
        assert traffic.summary() == "nothing crossed between host and device"


def test_float64_is_computed_on_the_cpu_where_a_device_has_none() -> None:
    with acted_accelerator(MAC):
        there = torch.tensor([1.0, 2.0], device=MAC, requires_grad=True)
        with pytest.raises(ContractError, match=r"mps:0 has no float64; test_current_device.py:\d+ uses it"):
            there.double()
        exact = double(there)
        assert (exact.dtype, exact.device.type) == (torch.float64, "cpu")
        (slope,) = torch.autograd.grad(exact.square().sum(), there)
        assert (slope.device, slope.tolist()) == (MAC, [2.0, 4.0])
        assert NUMBER.check(there.sum().detach(), {}, 1, "acme/made").device == MAC
    with acted_accelerator():
        assert double(torch.ones(1, device=ACCELERATOR)).device == ACCELERATOR


def mean_colour(images: torch.Tensor) -> torch.Tensor:
    """Return the mean colour: only three directions pass, so that the audit asks again at some sizes of squares."""
    return images.mean(dim=(2, 3), keepdim=True).expand_as(images)


@pytest.mark.parametrize("defense", [torch.square, mean_colour])
def test_an_audit_of_gradients_runs_on_the_gpu_of_a_mac(defense: Callable[[torch.Tensor], torch.Tensor]) -> None:
    images = torch.randint(0, 256, (2, 3, 16, 16), generator=generator(1)) / 255
    here = follow(defense, defense, images, ImageRng([1, 2]), own_gradient=True)
    scores = follow_scores(lambda batch: batch.flatten(1).mean(dim=1), images, ImageRng([1, 2]))
    with acted_accelerator(MAC):
        there = follow(defense, defense, images.to(MAC), ImageRng([1, 2], MAC), own_gradient=True)
        scores_on_gpu = follow_scores(lambda batch: batch.flatten(1).mean(dim=1), images.to(MAC), ImageRng([1, 2], MAC))
    assert torch.equal(here.cosine, there.cosine)
    assert torch.equal(here.contrast, there.contrast)
    assert torch.equal(scores.cosine, scores_on_gpu.cosine)
    assert (there.cosine >= there.least).all()
