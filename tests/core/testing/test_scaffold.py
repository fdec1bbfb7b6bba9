"""`harness plugins new`: every kind comes out as a package that keeps its contract.

That it has no type error is asked with the other packages of others, in `tests/core/test_third_party_types.py`.
"""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from imharness.components.hookspecs import API_VERSION
from imharness.errors import UsageError
from imharness.results.version import DISTRIBUTION, __version__
from imharness.testing import trials
from imharness.testing.report import components_in
from imharness.testing.scaffold import KINDS, write_package

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_passes_the_conformance_suite(kind: str, tmp_path: Path) -> None:
    folder = write_package(kind, f"stranger/some-{kind}", tmp_path, "A. Stranger")
    (component, *_) = components_in(folder)
    assert component.info.id == f"stranger/some-{kind}"
    outcomes = [replace(trial, limit=15.0).run() for trial in trials(component, seed=3)]
    assert [f"{o.check}: {o.message}" for o in outcomes if o.status == "failed"] == []
    assert sum(o.status == "passed" for o in outcomes) >= (
        1 if kind in ("weight-training", "track", "training-defense") else 6
    )
    assert {"README.md", "LICENSE", "pyproject.toml", "tests"} <= {path.name for path in folder.iterdir()}
    assert "$" not in "".join(path.read_text() for path in folder.rglob("*") if path.suffix in (".py", ".toml", ".md"))


def test_a_dot_in_a_name_does_not_make_a_hook_of_the_entry_point(tmp_path: Path) -> None:
    (component, *_) = components_in(write_package("defense", "stranger/jpeg2.0", tmp_path, "A. Stranger"))
    assert component.info.id == "stranger/jpeg2.0"


def test_a_new_package_bounds_the_harness_and_states_the_version_of_what_it_imports(tmp_path: Path) -> None:
    folder = write_package("metric", "stranger/some-metric", tmp_path, "A. Stranger")
    dependencies = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    (bound,) = [need.specifier for text in dependencies if (need := Requirement(text)).name == DISTRIBUTION]
    assert {clause.operator for clause in bound} == {">=", "<"}
    assert bound.contains(__version__)
    for kind in KINDS:
        folder = write_package(kind, f"stranger/a-{kind}", tmp_path, "A. Stranger")
        (module,) = folder.glob("*.py")
        assert module.read_text(encoding="utf-8").count(f'\nIMHARNESS_API = "{API_VERSION}"\n') == 1


def test_the_template_of_submissions_is_what_new_writes(tmp_path: Path) -> None:
    author = "The image-privacy-harness authors"
    folder = write_package("defense", "acme/median-smoothing", tmp_path, author)
    written_files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    template = ROOT / "submissions" / "_template"
    for name, text in written_files.items():
        assert (template / name).read_text() == text, name


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("defence", "a/b", "Did you mean 'defense'"),
        ("defense", "acme", "'acme' has no owner: write OWNER/METHOD, such as acme/"),
        ("defense", "A/b", "cannot name a component"),
        ("defense", "harness/mine", "owner not harness"),
        ("defense", "../x", "cannot name a component"),
        ("defense", "a/b/c", "cannot name a component"),
    ],
)
def test_a_wrong_request_says_what_is_right(kind: str, name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=text):
        write_package(kind, name, tmp_path, "A")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_and_no_name_breaks_out_of_the_metadata(tmp_path: Path) -> None:
    write_package("metric", "a/b", tmp_path, "A")
    with pytest.raises(UsageError, match="exists already"):
        write_package("metric", "a/b", tmp_path, "A")
    with pytest.raises(UsageError, match="quotes"):
        write_package("metric", "a/c", tmp_path, 'A" }]\nscripts = "')
