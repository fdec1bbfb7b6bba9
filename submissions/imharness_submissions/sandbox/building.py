"""Builds a repository into a wheel. Its build code runs inside, in a copy of the source; only the wheel comes out."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from imharness.errors import HarnessError
from imharness_submissions.sandbox.jail import GuestSpec


def built_wheel(spec: GuestSpec, source: Path, backend: str) -> tuple[str, bytes]:
    """Return the name and the content of the wheel that a build backend makes of a repository.

    `spec.folder` holds the backend. The build has the limits of a package, and what it writes stays inside. Raises
    `HarnessError` when the build fails or breaks a rule.
    """
    from imharness_submissions.sandbox.host import Guest  # the guest imports this module, too

    guest = Guest(replace(spec, source=source))
    try:
        reply = guest.open().request("wheel", {"backend": backend})
    except HarnessError as error:
        raise HarnessError(f"building the wheel failed: {error}") from None
    finally:
        guest.kill()
    content, name = reply.tensors.get("content"), str(reply.facts.get("name"))
    if content is None or content.dtype != torch.uint8 or content.ndim != 1 or Path(name).name != name:
        raise HarnessError("building the wheel failed: what came back is not a wheel")
    return name, content.numpy().tobytes()


def build_wheel(folder: str, source: str, backend: str) -> tuple[str, torch.Tensor]:
    """Build a wheel of a copy of `source` inside; return its name, and its bytes as a uint8 tensor."""
    build_folder = Path(tempfile.mkdtemp())
    shutil.copytree(source, build_folder / "source", symlinks=True)
    os.chdir(build_folder / "source")
    os.environ["PYTHONPATH"] = folder  # for programs that the backend starts
    module, _, attribute = backend.partition(":")
    build_backend = importlib.import_module(module)
    for name in filter(None, attribute.split(".")):
        build_backend = getattr(build_backend, name)
    sys.argv[:] = ["build"]
    (build_folder / "wheel").mkdir()
    name = str(build_backend.build_wheel(str(build_folder / "wheel")))
    return name, torch.frombuffer(bytearray((build_folder / "wheel" / name).read_bytes()), dtype=torch.uint8)
