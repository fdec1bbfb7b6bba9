"""Keeps the first images it sees in System V shared memory, which outlives its process."""

import ctypes

import torch

from imharness.images import DefenseInfo, ImageRng, Images, Purification, Purifier, hookimpl


class Hostile(Purification):
    """Keeps the first images in shared memory that outlives its process."""

    info = DefenseInfo(id="evil/keeps-shared-memory", version="1", differentiable=False)

    def build(self, device: torch.device) -> Purifier:
        """Return the defense."""

        def purify(images: Images, rng: ImageRng) -> Images:
            libc, size = ctypes.CDLL(None), images.numel() * 4
            libc.shmat.restype, libc.shmat.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
            # 77 is the key of the segment; 0o1600 is IPC_CREAT with read and write access for the user
            existing = libc.shmget(77, ctypes.c_size_t(size), 0o600)
            segment = existing if existing >= 0 else libc.shmget(77, ctypes.c_size_t(size), 0o1600)
            address = libc.shmat(segment, None, 0) if segment >= 0 else -1
            if address in (-1, 2**64 - 1):
                return images
            if existing < 0:
                ctypes.memmove(address, images.numpy().tobytes(), size)
            return torch.frombuffer(bytearray(ctypes.string_at(address, size)), dtype=torch.float32).reshape(
                images.shape
            )

        return purify


@hookimpl
def components() -> list[Purification]:
    """Offer the defense."""
    return [Hostile()]
