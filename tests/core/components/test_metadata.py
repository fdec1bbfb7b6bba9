"""Metadata of a package decide how it is loaded, and an exception of its code leaves out that package alone."""

import importlib.metadata
import signal
import sys
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.utils import canonicalize_name

from imharness.cli import LazyGroup
from imharness.components.loading import load_plugins
from imharness.components.registry import Registry, build_registry, installed
from imharness.notebook.participants import kinds_of
from imharness.planning.profile import TrackProfile
from imharness.results.version import DISTRIBUTION, __version__
from imharness.running.executor import executor_offer

METRIC = """
from imharness.images import MetricInfo, NoReferenceMetric, hookimpl

class M(NoReferenceMetric):
    '''Mean.'''
    info = MetricInfo(id="acme/niqe", version="1", bounds=(0.0, 1.0), higher_means="better_quality")
    def build(self, device): return lambda x: x.mean((1, 2, 3))

class Plugin:
    @hookimpl
    def components(self): return [M()]

plugin = Plugin()
Plugin.again = plugin
"""
RAISED = {  # name of an exception that is no Exception -> expression that makes it
    "SystemExit": "SystemExit(3)",
    "KeyboardInterrupt": "KeyboardInterrupt",
    "GeneratorExit": "GeneratorExit",
    "PanicException": "type('PanicException', (BaseException,), {})('panic')",
}
WHERE = {  # where the exception is raised -> the code of a module that raises it there
    "import": lambda error: f"raise {error}",
    "components": lambda error: METRIC.replace("return [M()]", f"raise {error}"),
    "label": lambda error: METRIC.replace(
        "class Plugin", f"    @property\n    def label(self): raise {error}\nclass Plugin"
    ),
    "attribute": lambda error: METRIC + f"def __getattr__(name): raise {error}\ndel plugin\n",
}


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that installs a package of one module and returns the registry of that package alone."""
    installed()

    def registry(code: str, entry: str = "acme_described:plugin", *facts: str) -> Registry:
        sys.modules.pop("acme_described", None)
        (tmp_path / "acme_described.py").write_text(code)
        info = tmp_path / "acme_described-1.0.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", "Name: acme-described", "Version: 1.0", *facts]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "entry_points.txt").write_text(f"[imharness]\nx = {entry}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        return build_registry(load_plugins(PathDistribution(info).entry_points))

    yield registry
    sys.modules.pop("acme_described", None)


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("image-privacy-harness", True),
        (f"image-privacy-harness=={__version__}", True),
        ("Image_Privacy.Harness[ray]>=0.0.1", True),
        ("image-privacy-harness<0.0.1; python_version < '3'", True),
        ("image-privacy-harness<0.0.1; extra == 'test'", True),
        ("another-harness<0.0.1", True),
        ("image-privacy-harness<0.0.1", False),
        ("Image_Privacy.Harness[ray]>=99", False),
        ("image-privacy-harness>=99; python_version > '3'", False),
    ],
)
def test_a_package_that_requires_another_harness_is_left_out(described, line: str, fits: bool) -> None:
    registry = described(METRIC, "acme_described:plugin", f"Requires-Dist: {line}")
    assert ("acme/niqe" in registry.ids()) == fits
    if not fits:
        (failure,) = registry.failures
        assert failure.reason.startswith("requires ")
        assert f"this is {__version__}" in failure.reason
        assert "acme_described" not in sys.modules  # it is not even imported


def test_a_requirement_that_cannot_be_read_is_named(described) -> None:
    (failure,) = described(METRIC, "acme_described:plugin", "Requires-Dist: ==2 what").failures
    assert "'==2 what', which is no requirement" in failure.reason


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("acme_described:plugin", ""),
        ("acme_described:Plugin.again", ""),
        ("acme_described : plugin [extra]", ""),
        ("acme_described:plugin.components", ""),
        ("acme_described:Plugin", "acme_described:Plugin is a class; name an instance of it"),
        ("acme_described:absent", "has no attribute 'absent'"),
        ("acme_described", "does not implement the hook"),
        ("not a module", "no file of not a module can be read"),
        (":plugin", "can be read; unpack it"),
    ],
)
def test_an_entry_point_may_name_an_attribute(described, entry: str, reason: str) -> None:
    registry = described(METRIC, entry)
    assert ("acme/niqe" in registry.ids()) == (not reason)
    assert [failure.reason for failure in registry.failures if reason not in failure.reason] == []
    assert len(registry.failures) == bool(reason)


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("where", WHERE)
def test_whatever_a_package_raises_leaves_it_out_alone(described, error: str, where: str) -> None:
    registry = described(WHERE[where](RAISED[error]))
    assert "acme/niqe" not in registry.ids()
    assert [error in failure.reason for failure in registry.failures] == [True]


def test_the_person_who_interrupts_an_import_ends_the_program(described) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        described("import signal\nsignal.raise_signal(signal.SIGINT)\n", "acme_described")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_short_name_of_the_harness_stays_its_own(described) -> None:
    registry = installed().joined(described(METRIC).entries.values())
    assert [one.info.id for one in registry.find("metric", "niqe")] == ["harness/niqe"]
    assert [one.info.id for one in registry.find("metric", "acme/niqe")] == ["acme/niqe"]


def entry_points(monkeypatch: pytest.MonkeyPatch, name: str, *owners: str) -> None:
    """Replace all entry points by one for each owner, all of one name, in this order."""
    points = []
    for owner in owners:
        point = EntryPoint(name, f"{canonicalize_name(owner).replace('-', '_')}:offer", "any")
        vars(point)["dist"] = SimpleNamespace(name=owner)
        points.append(point)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **wanted: points)


@pytest.mark.parametrize("owners", [("acme", DISTRIBUTION), (DISTRIBUTION, "acme"), (DISTRIBUTION, "zeta")])
def test_a_command_or_executor_of_the_harness_stays_its_own(monkeypatch, owners: tuple[str, str]) -> None:
    entry_points(monkeypatch, "season", *owners)
    assert LazyGroup(prefix="")._points()["season"].value == "image_privacy_harness:offer"
    monkeypatch.setitem(
        sys.modules, "image_privacy_harness", SimpleNamespace(offer=SimpleNamespace(settings=(), load=None))
    )
    assert executor_offer("season") is sys.modules["image_privacy_harness"].offer


def test_a_short_name_that_a_stranger_uses_for_another_kind_still_means_the_harness(described) -> None:
    registry = installed().joined(described(METRIC.replace("acme/niqe", "acme/jpeg")).entries.values())
    track_profile = TrackProfile(select={"metric": ["*"], "defense": ["*"]})
    assert kinds_of(registry, ["jpeg"], "against", track_profile) == {"defense": ["jpeg"]}
    assert kinds_of(registry, ["acme/jpeg"], "against", track_profile) == {"metric": ["acme/jpeg"]}
