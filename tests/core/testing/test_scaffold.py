"""`harness plugins new`: every kind comes out as a package that keeps its contract.

Whether such a package has type errors is tested in `tests/core/test_third_party_types.py`.
"""

import json
import re
import shlex
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from packaging.requirements import Requirement
from safetensors.torch import save_file

from imharness.cli import cli
from imharness.components.hookspecs import API_VERSION
from imharness.errors import UsageError
from imharness.results.version import DISTRIBUTION, __version__
from imharness.testing import trials
from imharness.testing.report import components_in
from imharness.testing.scaffold import _TRY, KINDS, write_package

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


RUN = [kind for kind, command in _TRY.items() if command.startswith("harness run ")]


@pytest.mark.parametrize("kind", RUN)
def test_the_last_command_of_its_readme_plans_tasks(kind: str, tmp_path: Path, harness_forked) -> None:
    folder = write_package(kind, f"stranger/some-{kind}", tmp_path, "A. Stranger")
    (command,) = re.findall(r"^    harness (run .*)$", (folder / "README.md").read_text(), re.MULTILINE)
    planned = harness_forked(*shlex.split(command), "--dry-run", "--json", cwd=folder, packages=(str(folder),))
    assert planned.returncode == 0, planned.stderr
    assert sum(step["tasks"] for step in json.loads(planned.stdout)["tasks"]) > 0


def test_a_folder_has_its_weights_in_the_wheel_as_the_guide_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (ROOT / "docs" / "howto" / "pretrained.md").read_text().partition("## Weights in the wheel")[2]
    (command,) = re.findall(r"^    harness (plugins new .*)$", guide, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(cli, shlex.split(command)).exit_code == 0
    package = tmp_path / "acme-quality"
    wheel = tomllib.loads((package / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["acme_quality"]}
    (code,) = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (package / "acme_quality" / "__init__.py").write_text(code)
    drawn = torch.Generator().manual_seed(1)
    shapes = {"0.0.weight": (8, 3, 3, 3), "0.0.bias": (8,), "1.weight": (1, 8), "1.bias": (1,)}
    weights = {name: torch.randn(shape, generator=drawn) for name, shape in shapes.items()}
    save_file(weights, package / "acme_quality" / "trained.safetensors")
    (metric,) = components_in(package)
    monkeypatch.syspath_prepend(str(package))  # as it is once installed
    images = torch.rand(3, 3, 16, 16, generator=drawn)
    features = torch.nn.functional.conv2d(images, weights["0.0.weight"], weights["0.0.bias"]).relu().mean((2, 3))
    scores = (features @ weights["1.weight"].T + weights["1.bias"]).sigmoid()[:, 0]
    torch.testing.assert_close(metric.build(torch.device("cpu"))(images), scores)


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
