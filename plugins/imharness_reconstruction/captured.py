"""Runs a step on a GPU as one CUDA graph: starting kernels one by one takes longer than a small network computes.

`HARNESS_CUDA_GRAPHS=1` switches it on. It changes no number, so it is no option of a component or of a run.
"""

import os
from collections.abc import Callable

import torch

SWITCH = "HARNESS_CUDA_GRAPHS"
WARM = 3
"""The number of steps before the capture. In them, libraries choose kernels and allocate memory, which a graph must not
do."""


def captured(step: Callable[[], None], device: torch.device, enabled: bool | None = None) -> Callable[[], None]:
    """Return a function that takes the step; from its fourth call on by replaying a graph, where that is `enabled`.

    Args:
        step: changes tensors in place; these have the same address and shape in every call. It reads no value of a
            tensor on the host, copies no tensor from the host, and has no shape that depends on values; a capture
            raises `RuntimeError` otherwise.
        device: where the tensors are; without a GPU the step is returned as it is.
        enabled: None: as the variable `HARNESS_CUDA_GRAPHS` says.
    """
    enabled = os.environ.get(SWITCH) == "1" if enabled is None else enabled
    if device.type != "cuda" or not enabled:
        return step
    graph, stream, calls = torch.cuda.CUDAGraph(), torch.cuda.Stream(device), 0

    def run() -> None:
        nonlocal calls
        calls += 1
        if calls <= WARM:
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream):
                step()
            torch.cuda.current_stream(device).wait_stream(stream)
            return
        if calls == WARM + 1:
            with torch.cuda.device(device), torch.cuda.graph(graph, stream=stream):
                step()
        graph.replay()

    return run
