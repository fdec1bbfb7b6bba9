"""Looks for the leaderboard's store in the environment, in open files and in likely folders."""

import contextlib
import os

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl

STORE = "/srv/leaderboard/store"


class Hostile(Purification):
    """Looks for the store, in its folder, in its environment and in open files."""

    info = DefenseInfo(id="evil/finds-store", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            for name, value in os.environ.items():
                if "store" in value.lower() or name.startswith("HARNESS"):
                    raise RuntimeError(f"FOUND {name}={value}")
            for fd in range(3, 256):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/self/fd/{fd}").startswith("/") and "/proc" not in os.readlink(
                        f"/proc/self/fd/{fd}"
                    ):
                        raise RuntimeError("FOUND " + os.readlink(f"/proc/self/fd/{fd}"))
            for folder in (STORE, "/data/store", "store", "../store"):
                with contextlib.suppress(OSError):
                    if os.path.isdir(folder) and os.listdir(folder):
                        raise RuntimeError(f"FOUND {folder}")
                with contextlib.suppress(OSError), open(f"{folder}/tasks/x.json"):
                    pass
            return images

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
