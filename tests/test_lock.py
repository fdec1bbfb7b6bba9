"""The lock that the published leaderboard installs from fits the dependencies of pyproject.toml.

Made by: uv pip compile pyproject.toml --universal --fork-strategy fewest --generate-hashes --no-annotate --no-header
--no-emit-index-url --output-file requirements.lock
"""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()


def test_every_dependency_is_locked_to_one_version_that_fits() -> None:
    locked = re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE)
    versions = dict(locked)
    assert len(locked) == len(versions)
    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    wrong = [str(need) for need in wanted if not need.specifier.contains(versions[need.name], prereleases=True)]
    assert wrong == [], f"make the lock again: {__doc__}"


def test_every_locked_package_has_hashes_and_no_place() -> None:
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in LOCK


def test_all_holds_every_extra_but_the_tests_and_one_that_holds_others_back() -> None:
    extras = PROJECT["optional-dependencies"]
    apart = {"all", "docs", "dptest", "evalstest", "exportstest", "s3test", "test", "torchattacks"}
    assert Requirement(extras["all"][0]).extras == set(extras) - apart
