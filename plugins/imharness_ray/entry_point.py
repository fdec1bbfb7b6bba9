"""The executor as the command line finds it. Imports no Ray: it is read for every help text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imharness_ray.settings import RaySettings

if TYPE_CHECKING:
    from imharness_ray.executor import RayWorkers


class Ray:
    """What the entry point of the executor names."""

    settings = RaySettings

    @staticmethod
    def load() -> type[RayWorkers]:
        from imharness_ray.executor import RayWorkers

        return RayWorkers
