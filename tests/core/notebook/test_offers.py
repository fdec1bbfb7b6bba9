"""Packages add functions to `import imharness as ih` by entry points; none replaces a function of the core."""

from importlib.metadata import EntryPoint, entry_points

import pytest

import imharness as ih
from imharness.errors import PluginError
from imharness.notebook import GROUP, offered, offers


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_what_first_party_packages_offer_is_there() -> None:
    for name in ("audit", "audit_one_run", "Audit", "OneRunAudit", "reconstruct", "Reconstruction"):
        home = "reconstruction" if name.lower().startswith("reconstruct") else "membership"
        assert name in dir(ih)
        assert getattr(ih, name).__module__.startswith(f"imharness_{home}.notebook.")
    assert ih.Audit.__mro__[1] is ih.Reconstruction.__mro__[1] is ih.Result
    assert not hasattr(ih, "audits")


def test_a_package_adds_a_function_and_does_not_replace_one() -> None:
    points = [point("root", "math:sqrt"), point("run", "math:sin")]
    assert offered("root", points)(4) == 2
    assert offered("run", points) is ih.run
    assert {"root", "run", "evaluate"} <= offers(points).keys()
    assert offered("root", points * 2)(9) == 3  # one installation that is on the path twice
    audit_points = [entry_point for entry_point in entry_points(group=GROUP) if entry_point.name == "audit"]
    assert offered("audit", [point("audit", "math:sin"), *audit_points]) is ih.audit


def test_two_that_offer_one_name_and_one_that_breaks_are_named() -> None:
    both = [point("root", "math:sqrt"), point("root", "cmath:sqrt")]
    with pytest.raises(PluginError, match=r"imharness\.root: packages cmath:sqrt and math:sqrt both offer it"):
        offered("root", both)
    for value in ("acme_gone:root", "math:gone"):
        with pytest.raises(PluginError, match=rf"imharness.root, of package {value}, cannot be loaded: "):
            offered("root", [point("root", value)])
    with pytest.raises(AttributeError, match="module 'imharness' has no attribute 'cube'"):
        offered("cube", both)
