"""Makes the time of its own import NaN."""

import time

from imharness.images import DefenseInfo, Purification, Purifier, hookimpl

time.perf_counter = time.monotonic = lambda: float("nan")


class NoTime(Purification):
    """Gives images back as they came."""

    info = DefenseInfo(id="evil/no-time", version="1", differentiable=False)

    def build(self, device) -> Purifier:
        return lambda images, rng: images


@hookimpl
def components() -> list[Purification]:
    return [NoTime()]
