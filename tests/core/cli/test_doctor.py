"""Tests of `harness doctor`: checks of plugin packages, a check that raises, the first line; and of `plugins list`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import imharness.cli.doctor as doctor_module
from imharness.cli import cli
from imharness.components.registry import installed


def test_a_check_from_outside_is_shown_and_one_that_raises_is_named(harness_forked, tmp_path: Path) -> None:
    metadata_folder = tmp_path / "site-packages" / "acme_raising_check-1.0.dist-info"
    result = harness_forked("doctor", "--json", cwd=tmp_path, packages=("acme-hooks",))
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["acme licence"] == "none"
    assert {"harness", "sandbox", "missing_assets"} <= set(report)
    assert report["left_out"] == {}
    metadata_folder.mkdir()  # a second package, whose check raises
    (metadata_folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-raising-check\nVersion: 1.0\n")
    (metadata_folder / "entry_points.txt").write_text("[imharness]\nraising.doctor = acme_raising_check\n")
    text = "from imharness.tracks import hookimpl\n\n\n@hookimpl\ndef doctor():\n    raise ValueError('no\\nkey')\n"
    (metadata_folder.parent / "acme_raising_check.py").write_text(text)
    first = harness_forked("doctor", cwd=tmp_path, packages=("acme-hooks",)).stdout.splitlines()[0]
    assert first.endswith(" 1 plugin left out, named below.")
    report = json.loads(harness_forked("doctor", "--json", cwd=tmp_path, packages=("acme-hooks",)).stdout)
    assert report["acme licence"] == "none"
    assert report["left_out"] == {"acme-raising-check:acme_raising_check": "doctor() raised ValueError: no key"}


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        ("quick", "Ready: everything the quick profile needs is here."),
        ("paper", "Ready, but not complete: the paper profile leaves out "),
    ],
)
def test_the_first_line_says_whether_anything_is_missing(
    profile: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "PROFILE", profile)
    lines = CliRunner().invoke(cli, ["doctor"], catch_exceptions=False).output.splitlines()
    assert lines[0].startswith(sentence)
    assert not any(set(line) & set("│┃━") for line in lines)


def test_components_are_listed_a_line_each_after_their_counts() -> None:
    components = installed().entries
    lines = CliRunner().invoke(cli, ["plugins", "list"], catch_exceptions=False).output.splitlines()
    assert lines[0].startswith(f"{len(components)} components: ")
    assert len(lines) == len(components) + 1
    attacks = sum(line.startswith("attack ") for line in lines)
    assert f": {attacks} attacks, " in lines[0]
