"""A session imports the module of the component that it serves, and no other of the package."""

from pathlib import Path

import torch
from tests.sandbox.conftest import PATIENT, laid_out

from imharness.contracts.randomness import ImageRng
from imharness_submissions.opening import data_packages
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec
from imharness_submissions.sandbox.prestart import MOST, of_libraries
from imharness_submissions.sandbox.proxies import Sandboxed, offer_of

TELLS = '''"""Says whether the other module is loaded."""
import sys

from imharness.images import DefenseInfo, Purification, hookimpl


class Tells{name}(Purification):
    """Returns white images where the other module is loaded, black ones elsewhere."""

    info = DefenseInfo(id="told/{name}", version="1", differentiable=True)

    def build(self, device):
        return lambda images, rng: images * 0 + ("{other}" in sys.modules)


@hookimpl
def components():
    return [Tells{name}()]
'''


def test_a_session_imports_one_module_and_describing_imports_all(sandbox: None, tmp_path: Path) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        (tmp_path / f"{name}.py").write_text(TELLS.format(name=name, other=other))
    folder = tmp_path / "package"
    folder.mkdir()
    laid_out((tmp_path / "one.py", tmp_path / "two.py"), folder)
    guest = Guest(GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=PATIENT))
    try:
        entries = offer_of(guest).entries(guest)
        assert [entry.component.info.id for entry in entries] == ["told/one", "told/two"]
        for entry in entries:
            assert isinstance(entry.component, Sandboxed)
            purify = entry.component.build(torch.device("cpu"))
            for _ in range(2):
                assert not purify(torch.rand(1, 3, 8, 8), ImageRng([0])).any()
                guest.end_task(failed=False)
    finally:
        guest.kill()


# The package notes, before its own import, whether the libraries are already loaded.
AHEAD = """import sys

ahead = int("sympy" in sys.modules and "scipy.ndimage" in sys.modules)
import scipy.ndimage
"""


def test_libraries_that_a_package_imports_are_imported_once_for_all_sessions(sandbox: None, tmp_path: Path) -> None:
    """A first process, which never reads the package, imports them; only dependencies of the harness qualify.

    It always imports sympy, which torch needs for some gradients.
    """
    text = TELLS.format(name="one", other="scipy.ndimage").replace("import sys\n", AHEAD)
    (tmp_path / "one.py").write_text(text.replace('("scipy.ndimage" in sys.modules)', "ahead"))
    folder = tmp_path / "package"
    folder.mkdir()
    laid_out([tmp_path / "one.py"], folder)
    guest = Guest(GuestSpec("strangers", folder, masked=tuple(data_packages()), limits=PATIENT))
    try:
        (entry,) = offer_of(guest).entries(guest)
        assert "scipy.ndimage" in guest.spec.libraries
        purify = entry.component.build(torch.device("cpu"))  # type: ignore[attr-defined]
        for _ in range(2):
            leaf = torch.rand(1, 3, 8, 8).requires_grad_(True)
            white = purify(leaf, ImageRng([0]))
            assert white.eq(1).all(), "it was there before the package was"
            (gradient,) = torch.autograd.grad(white, leaf, torch.ones_like(white))
            assert not gradient.any()
        guest.end_task(failed=False)
    finally:
        guest.kill()


def test_only_public_modules_of_known_libraries_are_imported_ahead() -> None:
    names = ["os", "scipy.ndimage.filters", "imharness_submissions", "torch._C", "scipy", "numpy.__main__", "cv2;x"]
    assert of_libraries([*names, "imharness.cli", "imharness.leaderboard"]) == (
        "scipy",
        "imharness.leaderboard",
        "scipy.ndimage.filters",
    )
    assert len(of_libraries(f"scipy.m{k}" for k in range(10_000))) == MOST
