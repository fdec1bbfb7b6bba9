"""A result says with which versions it was made."""

from imharness.components.registry import installed
from imharness.results.tasks import TaskSpec
from imharness.running.context import versions


def test_a_record_names_every_library_that_can_change_a_number() -> None:
    registry = installed()
    components = {"metric": registry.one("metric", "psnr").ref()}
    spec = TaskSpec(track="", step="", version="", components=components, options={}, limit=None, seed=0, needs={})
    recorded = versions(registry, spec)
    numeric = {"torch", "torchvision", "numpy", "scipy", "opencv-python-headless", "pillow", "kornia", "scikit-image"}
    assert set(recorded) == numeric | {"python", "harness", "image-privacy-harness"}
    assert all(version[0].isdigit() for version in recorded.values())
