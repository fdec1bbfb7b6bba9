"""Gives a block the numerics of a fresh process with one thread, so that the same seed gives the same rows.

The last bits of a sum depend on how it is split among threads: gradients of convolutions (oneDNN) and products of
matrices (OpenBLAS, MKL) differ between one thread and two. Settings of torch, such as the default type, change more.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

VARIABLES = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
"""Variables that a library reads when it is loaded, for libraries that are loaded while a task is computed."""
SUBNORMAL = 5e-324
"""The smallest positive number; its product with one is zero if subnormal numbers are flushed."""
CPU_FACTS = Path("/proc/cpuinfo")
BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Instructions for products of bfloat16, as Linux names them."""

Setting = tuple[Callable[[], Any], Callable[[Any], object], Any]
"""One setting of the process: a function that reads it, one that writes it, its value in a fresh one-thread process."""

_entering = threading.Lock()
_inside = 0
"""How many blocks of `fresh_numerics` are being computed, in all threads."""
_restoring = ExitStack()
"""Closing it restores the settings from before the first block; the last block that ends closes it."""


@contextmanager
def fresh_numerics() -> Iterator[None]:
    """Compute as a fresh process with one thread would; this is a context manager and a decorator.

    The earlier settings are restored at the end. If several threads of this process are inside at once, the last one to
    leave restores them; OpenBLAS may then keep one thread, which only the thread that entered first can change.
    """
    global _inside, _restoring
    import torch

    with _entering:
        if _inside:
            _libraries(len(sys.modules)).limit(limits=1)  # for OpenMP, every thread has its own limit
        else:
            _restoring = _limited()
        _inside += 1
        for _, write, fresh_value in _settings():
            write(fresh_value)
    flushed_before = SUBNORMAL * 1.0 == 0.0
    torch.set_flush_denormal(False)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed_before)
        with _entering:
            _inside -= 1
            if not _inside:
                _restoring.close()


@contextmanager
def tensor_cores(wanted: bool = True) -> Iterator[None]:
    """Let a GPU round the factors of convolutions and products of matrices to 10 bits ("TF32"), if that is `wanted`.

    Sums stay in float32. An H100 is two to eight times as fast with it; a CPU takes no notice.
    """
    import torch

    convolutions_before, products_before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    if wanted:
        torch.backends.cudnn.allow_tf32 = True
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = convolutions_before
        torch.set_float32_matmul_precision(products_before)


def _limited() -> ExitStack:
    """Limit libraries to one thread; return an exit stack that gives all settings their present values when closed."""
    stack = ExitStack()
    for read, write, _ in _settings():
        stack.callback(write, read())
    stack.enter_context(_libraries(len(sys.modules)).limit(limits=1))
    return stack


def _settings() -> Iterator[Setting]:
    """Yield all settings that can change a number."""
    import torch

    yield torch.get_num_threads, torch.set_num_threads, 1
    yield torch.get_default_dtype, torch.set_default_dtype, torch.float32
    yield torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 0
    yield torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"
    attributes = (
        (torch.backends.mkldnn, "enabled", True),
        (torch.backends.cudnn, "benchmark", False),
        (torch.backends.cudnn, "deterministic", True),  # else two trainings with one seed differ on a GPU
        (torch.backends.cudnn, "allow_tf32", False),  # else convolutions round to 10 bits, which is torch's default
    )
    for owner, name, fresh_value in attributes:
        yield partial(getattr, owner, name), partial(setattr, owner, name), fresh_value
    if opencv := sys.modules.get("cv2"):
        yield opencv.getNumThreads, opencv.setNumThreads, 1
    for name in VARIABLES:
        yield partial(os.environ.get, name), partial(_set_variable, name), "1"


def _set_variable(name: str, value: str | None) -> None:
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Return a controller of the threads of loaded numeric libraries; `modules` makes it look again after an import."""
    return ThreadpoolController()


@cache
def multiplies_bfloat16(device_type: str) -> bool:
    """Return whether a device, ``cpu`` or another type, has instructions for products of bfloat16.

    A processor without them takes longer for bfloat16 than for float32. What it has is a fact of the machine, not
    a time that is measured, so that every run of a machine computes alike.
    """
    if device_type != "cpu":
        return True
    with suppress(OSError):
        return not BFLOAT16.isdisjoint(CPU_FACTS.read_text(encoding="utf-8", errors="replace").split())
    return False
