"""The parts of the executor that need no Ray: its options, the error without Ray, and the comparison of machines."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from imharness.cli.run import run
from imharness.errors import Unavailable, UsageError
from imharness.running.executor import find_executor
from imharness_ray.parity import differences, facts, packages
from imharness_ray.settings import RaySettings
from imharness_submissions.commands.submissions import submissions


def test_every_setting_is_an_option_of_both_commands_that_compute() -> None:
    for command in (run, submissions.commands["run"]):
        help_text = CliRunner().invoke(command, ["--help"]).output
        flags = ["--" + name.replace("_", "-") for name in RaySettings.model_fields]
        assert [flag for flag in flags if help_text.count(f"  {flag} ") != 1] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus-per-worker", "1"], "--gpus-per-worker is an option of --executor ray"),
        (["--executor", "local", "--ray-address", "local"], "--ray-address is an option of --executor ray"),
        (["--executor", "ray", "--gpus-per-worker", "2"], "--gpus-per-worker: Input should be less than or equal to 1"),
        (["--executor", "ray", "--memory-per-worker", "much"], "--memory-per-worker: Input should be a valid number"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imharness.running.executor.find_executor", lambda name: None)
    result = CliRunner().invoke(run, ["--all", *words])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).startswith(message)


def test_without_ray_the_executor_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("imharness_ray.executor", "imharness_ray.cluster"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Unavailable) as caught:
        find_executor("ray")
    assert caught.value.remedy == "pip install 'image-privacy-harness[ray]'"


def test_machines_are_told_apart_by_versions_components_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = facts(packages())
    assert here["defense harness/jpeg"]
    assert here.keys() >= {"torch", "image-privacy-harness", "the code of imharness", "the code of imharness_iqa"}
    assert differences(here, dict(here)) == ""
    other = {name: value for name, value in here.items() if name != "defense harness/jpeg"} | {"torch": "1", "new": "2"}
    assert differences(here, other) == (
        f"torch is 1 there and {here['torch']} here; defense harness/jpeg is missing there; new is only there"
    )
    many = differences(here, {})
    assert many.count("is missing there") == 3
    assert many.endswith(f"; and {len(here) - 3} more")
    monkeypatch.syspath_prepend(str(tmp_path))
    codes = set()
    for text in ("x = 1\n", "x = 2\n"):
        (tmp_path / "acme_changing.py").write_text(text)
        codes.add(facts(["acme_changing"])["the code of acme_changing"])
    assert len(codes) == 2
