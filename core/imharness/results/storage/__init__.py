"""Where a store keeps its files: in a folder on this machine, or as objects in a cloud. Imports no torch."""

from imharness.results.storage.address import absolute, open_backend
from imharness.results.storage.backend import Backend, in_parallel, sha256_of

__all__ = ["Backend", "absolute", "in_parallel", "open_backend", "sha256_of"]
