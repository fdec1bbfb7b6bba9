"""Workflows call what exists and store no secret, and their steps do what they say, as far as a test can see."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.plugins.membership.test_audit_report import saved

COMMIT = "git -c user.name=a -c user.email=a@b.org commit --quiet --message x"
ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.yml"))}


def steps(workflow: str, job: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = WORKFLOWS[workflow]["jobs"][job]["steps"]
    return listed


def script(workflow: str, job: str, word: str) -> str:
    """Return the script of the only step of a job that runs something with this word."""
    (only,) = [step["run"] for step in steps(workflow, job) if word in step.get("run", "")]
    return str(only)


def run(text: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a step as the host does."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    return subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_every_script_that_workflows_and_the_build_call_is_there_and_can_be_run() -> None:
    files = [ROOT / "Justfile", *FOLDER.glob("*.yml")]
    called = {
        name for file in files for name in re.findall(r"(?<![\w/])\.ci/[\w.]+\w", file.read_text(encoding="utf-8"))
    }
    assert called == {".ci/distributions", ".ci/quick.py", ".ci/release.py", ".ci/run"}
    for name in called:
        assert (ROOT / name).is_file()
        if not name.endswith(".py"):
            assert (ROOT / name).stat().st_mode & 0o111


def test_templates_and_workflows_can_be_read_and_store_no_secret() -> None:
    files = sorted((ROOT / ".github").rglob("*.yml"))
    assert {"bug.yml", "idea.yml", "config.yml", "dependabot.yml"} <= {file.name for file in files}
    assert {*WORKFLOWS} == {"nightly", "pages", "release", "submissions", "tests"}
    for file in files:
        assert yaml.safe_load(file.read_text(encoding="utf-8"))
        assert "secrets." not in file.read_text(encoding="utf-8"), file


def test_every_action_of_a_workflow_is_pinned_by_the_hash_of_a_commit_and_says_its_version_and_all_agree() -> None:
    lines = [
        line
        for file in (ROOT / ".github").rglob("*.yml")
        for line in file.read_text(encoding="utf-8").splitlines()
        if "uses:" in line
    ]
    used = {line.partition("uses:")[2].strip() for line in lines if "./.github/" not in line}
    assert len(used) >= 7
    assert [
        action for action in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+(\.\d+){2}", action)
    ] == []
    assert len({action.partition("@")[0] for action in used}) == len(used)


def test_what_may_write_or_sign_computes_nothing() -> None:
    """Jobs that run code of the project, of its packages or of a submission may only read."""
    powers = {
        (name, job): rights
        for name, workflow in WORKFLOWS.items()
        for job, facts in workflow["jobs"].items()
        if (rights := facts.get("permissions"))
    }
    assert all(workflow["permissions"] == {"contents": "read"} for workflow in WORKFLOWS.values())
    assert powers == {
        ("release", "publish"): {"id-token": "write"},
        ("release", "announce"): {"contents": "write"},
        ("pages", "keep"): {"contents": "write"},
        ("pages", "deploy"): {"pages": "write", "id-token": "write"},
    }
    for name, job in powers:
        text = "\n".join(step.get("run", "") for step in steps(name, job))
        assert not re.search(r"\b(python|pip|uv|harness|pytest|\.ci)\b", text)


def test_a_version_is_published_after_its_tests_and_the_release_follows() -> None:
    jobs = WORKFLOWS["release"]["jobs"]
    assert jobs["tests"]["uses"] == "./.github/workflows/tests.yml"
    assert "workflow_call" in WORKFLOWS["tests"][True]  # YAML reads `on` as a truth value
    assert jobs["publish"]["needs"] == ["tests", "build"]
    assert jobs["announce"]["needs"] == "publish"
    assert {*WORKFLOWS["pages"]["jobs"]["deploy"]["needs"]} == {"keep", "documentation"}


@pytest.mark.parametrize(
    ("tag", "how", "passes"),
    [("v9.0.0", "--annotate", True), ("v9.0.0", "", False), ("v9.0.1", "--annotate", False)],
)
def test_a_tag_that_is_light_or_of_another_version_is_not_built(
    tag: str, how: str, passes: bool, tmp_path: Path
) -> None:
    module = tmp_path / "core" / "imharness" / "results" / "version.py"
    module.parent.mkdir(parents=True)
    module.write_text('__version__ = "9.0.0"\n', encoding="utf-8")
    (tmp_path / "CITATION.cff").write_text("version: 9.0.0\ndate-released: 2026-12-01\n", encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 9.0.0 (2026-12-01)\n\nAll is new.\n\n## 8.0.0 (2026-11-01)\n", encoding="utf-8"
    )
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    tagging = f"git -c user.name=a -c user.email=a@b.org tag {how} {'-m x' if how else ''} {tag}"
    assert run(f"git init -q && git add -A && {COMMIT} && {tagging}", tmp_path).returncode == 0
    done = run(script("release", "build", "cat-file"), tmp_path, TAG=tag)
    assert (done.returncode == 0) == passes, done.stderr
    if passes:
        assert (tmp_path / "notes" / "notes.md").read_text(encoding="utf-8") == "All is new.\n"


def test_pages_are_added_to_what_was_published_and_an_unreachable_home_stops_them(tmp_path: Path) -> None:
    """Two releases with empty pages: the branch keeps both, and no step goes on where the branch cannot be read."""
    home, environment = tmp_path / "home.git", {"TOKEN": "x", "GIT_CONFIG_GLOBAL": str(tmp_path / "none")}
    run(f"git init -q -b main --bare {home} && git init -q -b main {tmp_path}/seed", tmp_path)
    assert (
        run(f"echo code > code && git add -A && {COMMIT} && git push -q {home} main", tmp_path / "seed").returncode == 0
    )
    for release in ("release-1", "release-2"):
        clone = tmp_path / release
        assert run(f"git clone -q {home} {clone}", tmp_path).returncode == 0
        got = run(script("pages", "leaderboard", "ls-remote"), clone, **environment)
        assert got.returncode == 0, got.stderr
        assert {path.name for path in (clone / "public").iterdir()} == (
            {"release-1", ".nojekyll"} if release == "release-2" else set()
        )
        (clone / "public" / release).touch()
        (clone / "public" / ".nojekyll").touch()
        pushed = run(script("pages", "keep", "symbolic-ref"), clone, RELEASE=release, **environment)
        assert pushed.returncode == 0, pushed.stderr
    files = run(
        f"git -C {home} ls-tree --name-only gh-pages && git -C {home} log --format=%s gh-pages", tmp_path
    ).stdout
    assert files.split() == [".nojekyll", "release-1", "release-2", "release-2", "release-1"]
    clone = tmp_path / "lost"
    run(f"git clone -q {home} {clone} && git -C {clone} remote set-url origin {tmp_path}/nowhere", tmp_path)
    assert run(script("pages", "leaderboard", "ls-remote"), clone, **environment).returncode == 128
    run(f"git -C {clone} remote set-url origin {home} && git -C {clone} config remote.origin.uploadpack false", clone)
    (clone / "public").mkdir(exist_ok=True)
    (clone / "public" / "only").touch()
    cut = script("pages", "keep", "symbolic-ref").replace("fetch --depth 1 origin", "fetch --depth 1 nowhere")
    assert run(cut, clone, RELEASE="release-3", **environment).returncode != 0
    assert run(f"git -C {home} log --format=%s gh-pages", tmp_path).stdout.split() == ["release-2", "release-1"]


def test_the_action_of_an_audit_fails_unless_the_threshold_is_passed(tmp_path: Path) -> None:
    """The step of the audit as a host runs it: with the installed harness, then with one that prints its arguments."""
    action = yaml.safe_load((ROOT / ".github/actions/membership-audit/action.yml").read_text(encoding="utf-8"))
    (step,) = [step for step in action["runs"]["steps"] if "membership audit" in step.get("run", "")]
    assert action["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"] if "run" in step)
    read = {re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)[1] for value in step["env"].values()}
    assert read == {*action["inputs"]}
    assert "inputs." not in step["run"]  # what a caller gives is no part of the script
    file = saved(tmp_path, name="all outputs.npz", rows=30)
    stand_in, environment = tmp_path / "harness" / "bin" / "harness", {"FILE": file.name, "RUNNER_TEMP": str(tmp_path)}
    stand_in.parent.mkdir(parents=True)
    stand_in.symlink_to(Path(sys.executable).with_name("harness"))
    done = run(step["run"], tmp_path, **environment, REFERENCES="", FAIL_ABOVE="0.6", REPORT="a report.html")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "threshold 0.6" in (tmp_path / "a report.html").read_text(encoding="utf-8")
    stand_in.unlink()
    stand_in.write_text('#!/bin/bash\nprintf "<%s>" "$@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    done = run(step["run"], tmp_path, **environment, REFERENCES="r s.npz", FAIL_ABOVE="1", REPORT="r.html")
    words = ("membership", "audit", file.name, "--fail-above", "1", "--report", "r.html", "--references", "r s.npz")
    assert (done.returncode, done.stdout) == (0, "".join(f"<{word}>" for word in words))


def test_a_submission_is_validated_once_for_each_folder_that_changed(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "harness").write_text('#!/bin/bash\nprintf "%s\\n" "$*" >> "$LOG"\n', encoding="utf-8")
    (tools / "harness").chmod(0o755)
    repository = tmp_path / "repository"
    for name in ("old", "one more", "same"):
        (repository / "submissions" / name).mkdir(parents=True)
        (repository / "submissions" / name / "submission.toml").write_text(name, encoding="utf-8")
    commit = f"git add -A && {COMMIT}"
    assert run(f"git init -q && {commit}", repository).returncode == 0
    (repository / "submissions" / "one more" / "submission.toml").write_text("new", encoding="utf-8")
    (repository / "submissions" / "one more" / "requirements.txt").write_text("new", encoding="utf-8")
    (repository / "submissions" / "old" / "submission.toml").unlink()
    assert run(commit, repository).returncode == 0
    environment = {"BASE": "HEAD~1", "LOG": str(tmp_path / "log"), "PATH": f"{tools}:{os.environ['PATH']}"}
    done = run(script("submissions", "validate", "submissions validate"), repository, **environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text(encoding="utf-8") == "submissions validate submissions/one more\n"
