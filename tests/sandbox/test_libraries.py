"""Honest packages import libraries where everybody does, at the top of a module; nobody is blamed for that."""

from pathlib import Path

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
from imharness_submissions.sandbox.proxies import offer_of

CPU = torch.device("cpu")


@pytest.mark.parametrize("library", ["scipy", "cv2", "torchvision", "skimage", "kornia", "safetensors"])
def test_a_library_at_the_top_of_a_module_is_no_attempt(sandbox: None, library: str, tmp_path: Path) -> None:
    folder = laid_out([HERE / "libraries" / f"by_{library}.py"], tmp_path)
    guest = Guest(GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=PATIENT))
    try:
        (entry,) = offer_of(guest).entries(guest)
        assert [entry.component.info.id] == [f"good/by-{library}"]
        results = check_component(entry.component, seed=1)
        wrong = [f"{result.check}: {result.message}" for result in results if result.status == "failed"]
        purify = checked(entry.component, entry.component.build(CPU))
        purify(sample_images(4, 32, 32, 1), ImageRng([1, 2, 3, 4]))
        guest.end_task(failed=False)
        assert (wrong, guest.attempts) == ([], [])
    finally:
        guest.kill()


def test_a_guest_that_starts_again_in_a_watched_part_is_not_what_is_watched(sandbox: None, tmp_path: Path) -> None:
    """The first process is started by the harness, whenever a session is wanted and none runs."""
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
