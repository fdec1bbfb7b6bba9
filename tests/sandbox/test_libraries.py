"""Honest packages import libraries at the top of a module; this is not reported as an attempt."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.sandbox.conftest import HERE, PATIENT, laid_out

from imharness.contracts.call import checked
from imharness.contracts.randomness import ImageRng
from imharness.testing import check_component
from imharness.testing.audit import unwatched, watched
from imharness.testing.samples import images as sample_images
from imharness_submissions.opening import data_packages
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec
from imharness_submissions.sandbox.proxies import Sandboxed, offer_of

CPU = torch.device("cpu")


LIBRARIES = ("scipy", "cv2", "torchvision", "skimage", "kornia", "safetensors")


@pytest.fixture(scope="module")
def guest(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """A guest whose package has a module for each library; a session imports the library first."""
    folder = laid_out((HERE / "libraries" / f"by_{library}.py" for library in LIBRARIES), tmp_path_factory.mktemp("by"))
    guest_process = Guest(GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=PATIENT))
    yield guest_process
    guest_process.kill()


@pytest.fixture(scope="module")
def offered(guest: Guest) -> Mapping[str, Sandboxed]:
    """Return the defenses by their ids."""
    components = [entry.component for entry in offer_of(guest).entries(guest)]
    return {component.info.id: component for component in components if isinstance(component, Sandboxed)}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_at_the_top_of_a_module_is_no_attempt(
    library: str, guest: Guest, offered: Mapping[str, Sandboxed]
) -> None:
    defense: Any = offered[f"good/by-{library}"]
    results = check_component(defense, seed=1)
    wrong = [f"{result.check}: {result.message}" for result in results if result.status == "failed"]
    purify = checked(defense, defense.build(CPU))
    purify(sample_images(4, 32, 32, 1), ImageRng([1, 2, 3, 4]))
    guest.end_task(failed=False)
    assert (wrong, guest.attempts) == ([], []), "those of describing them all included"


def test_a_guest_that_starts_again_in_a_watched_part_is_not_what_is_watched(sandbox: None, tmp_path: Path) -> None:
    """The harness itself starts the first process of a guest, so its acts are not those of the package."""
    guest = Guest(GuestSpec("strangers", tmp_path))
    with watched() as seen:
        guest.open()
        guest.kill()
    assert seen == []
    with watched() as seen:
        with unwatched():
            Path("/dev/shm/harness-test").write_text("")
        Path("/dev/shm/harness-test").unlink()
        with pytest.raises(OSError, match="No such file"):
            Path("/sys/fs/cgroup/no-such-folder/file").write_text("")
    assert seen == ["writing /sys/fs/cgroup/no-such-folder/file"]
