"""What only a GPU can show: every part runs with the CPU as its device, and on the GPU where there is one."""

import pytest
import torch
from benchmarks import gpu

from imharness.errors import Unavailable

SMALL = gpu.Sizes(side=32, iterations=3, images=2, copies=32, steps=8, models=2, epochs=1, conforming=3)


def test_every_part_runs_with_the_cpu_as_its_device() -> None:
    lines = {line.what.strip(): line for line in gpu.lines("cpu", SMALL)}
    exact = {what: line.measured for what, line in lines.items() if "difference" in what and "bfloat16" not in what}
    assert len(exact) == 4
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
