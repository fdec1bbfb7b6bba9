"""`.ci/run` fails when one of its steps does, shows what it said, and keeps the output of steps apart."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FAKE = r"""#!/bin/bash
# Stands for every command of the run: says how it was called, makes what the next step needs, fails where told to.
name=$(basename "$0")
case "$name $*" in
  "python3 -m venv "*) mkdir -p "$3/bin" && for own in pip uv; do cp "$0" "$3/bin/$own"; done ;;
  "uv venv "*) mkdir -p "${!#}/bin" && touch "${!#}/bin/activate" ;;
  "uv python find "*) [[ -n $FAILING && "$*" == *"${FAILING#uv }"* ]] && exit 3; echo "$0" && exit ;;
  "harness run "*) mkdir -p "${!#}" && for track in iqa membership perceptual reconstruction; do
    echo '<table>acme/median-smoothing[radius=2]' > "${!#}/$track.html"
  done ;;
  "harness site publish "*) mkdir -p "$6/v/ci" && touch "$6/v/ci/index.html" ;;
esac
echo "called: $name $*"
[[ $name == pytest ]] && echo "files: $* in ${PYTEST_DEBUG_TEMPROOT-}"
echo "acme/median-smoothing"
if [[ -n $FAILING && "$name $*" == *$FAILING* ]]; then echo "this is why" && exit 3; fi
"""
COMMANDS = ("python3", "chromium", "bwrap", "harness", "ruff", "mypy", "pip", "pytest")


def ran(
    folder: Path, failing: str, path: str = os.environ["PATH"], commands: tuple[str, ...] = COMMANDS
) -> subprocess.CompletedProcess[str]:
    """Run the script in a copy of the files that it reads, with fake commands; those that match `failing` fail."""
    bin = folder / "bin"
    for needed_folder in (bin, folder / ".ci", folder / "submissions" / "_template"):
        needed_folder.mkdir(parents=True)
    for name in ("run", "beside"):
        shutil.copy(ROOT / ".ci" / name, folder / ".ci")
    for file in (*(bin / name for name in commands), folder / ".ci" / "distributions"):
        file.write_text(FAKE)
        file.chmod(0o755)
    return subprocess.run(
        [folder / ".ci" / "run"],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        env={
            "PATH": f"{bin}{os.pathsep}{path}",
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "FAILING": failing,
        },
    )


def test_a_run_without_a_failure_runs_every_step_and_leaves_nothing(tmp_path: Path) -> None:
    done = ran(tmp_path, "")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = (
        "harness doctor",
        "ruff check",
        "ruff format --check",
        "mypy",
        "pip install .[test]",
        "pytest \n",
        "pytest -n 0 -m extra or docs",
        "pytest -n 0 -m objects",
        "pytest -n 2 --dist loadfile -m ray",
        "mypy --strict",
        "distributions",
        "harness run --all",
        "pytest -n 0 tests/core/contracts",
        "pytest -n 0 -m extra tests/core/exports/test_evaluations.py",
        "harness site publish",
    )
    assert [step for step in steps if f"called: {step}" not in done.stdout] == []
    for installed in ("/newer/bin/python .[evalstest]", "/lowest/bin/python --resolution lowest-direct ."):
        assert installed in done.stdout
    assert "FAILED" not in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"bin", ".ci", "submissions"}
    marked = re.findall(r"^files: .*-m (\S+).* in (.*)$", done.stdout, re.M)
    assert len({folder for _, folder in marked}) >= 3, "steps that run beside each other share no folder of pytest"
    assert "" not in {folder for _, folder in marked}


@pytest.mark.parametrize(
    ("failing", "step"),
    [
        ("ruff check", "checks"),
        ("torchattacks", "optional packages"),
        (r"pip install .\[test", ""),
        ("pytest ", ""),
        ("-m extra or", "tests with optional packages"),
        ("-m objects", "tests on object stores"),
        ("-m ray", "tests on Ray"),
        ("mypy --strict", "the package and a small run"),
        ("harness run --all", "the package and a small run"),
        ("store-lowest", "the lowest versions"),
        ("store-newer", "Python 3.13"),
        ("lowest-direct", "other versions"),
    ],
)
def test_a_failing_step_fails_the_run_and_shows_its_output(failing: str, step: str, tmp_path: Path) -> None:
    done = ran(tmp_path, failing)
    assert done.returncode != 0
    tries = 2 if "ray" in failing else 1  # what fails on Ray is tried once more
    assert done.stdout.count("this is why") == tries
    if step:
        assert done.stdout.endswith(f"FAILED: {step} (3)\n")
    assert ("called: harness site publish" in done.stdout) == failing.startswith(("-m ", "store-"))


@pytest.mark.parametrize("missing", [("bwrap",), ("chromium",), ("bwrap", "chromium")])
def test_only_what_is_missing_is_installed_and_without_root_it_is_named(
    missing: tuple[str, ...], tmp_path: Path
) -> None:
    """Only root can install it and go on; all other commands are fakes, `apt-get` as well."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "basename", "cat", "cp", "dirname", "env", "mkdir", "mktemp", "rm", "touch"):
        (tools / name).symlink_to(str(shutil.which(name)))
    (tools / "apt-get").write_text(f'#!/bin/bash\necho "$*" >> {tmp_path}/installed\n', encoding="utf-8")
    (tools / "apt-get").chmod(0o755)
    folder = tmp_path / "run"
    folder.mkdir()
    done = ran(folder, "", path=str(tools), commands=tuple(name for name in COMMANDS if name not in missing))
    packages = " ".join({"bwrap": "bubblewrap"}.get(name, name) for name in missing)
    if os.geteuid() == 0:
        assert (tmp_path / "installed").read_text(encoding="utf-8").endswith(f"--no-install-recommends {packages}\n")
    else:
        assert done.stderr == f"Missing: {packages}. Install with: sudo apt-get install {packages}\n"
        assert done.returncode == 1


def test_without_the_newer_python_the_run_says_so_and_goes_on(tmp_path: Path) -> None:
    done = ran(tmp_path, "uv python ")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Python 3.13 is not here and cannot be fetched: nothing is tried with it.\n" in done.stdout
    assert "/newer/" not in done.stdout


def test_tests_are_run_by_the_words_of_the_readme_and_nothing_is_set_for_them() -> None:
    (words,) = re.findall("^    (pip install .* pytest)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    before, command, _ = (ROOT / ".ci" / "run").read_text().partition(f"\n  {words}\n")
    assert command
    assert "export " not in before


def test_steps_run_together_and_their_output_stays_apart(tmp_path: Path) -> None:
    """Each of two steps waits for the other; the one that fails ends at the first command that fails, and is named."""
    script = f"""
set -euo pipefail
source {ROOT}/.ci/beside
met() {{ until test -e {tmp_path}/$1; do sleep 0.01; done; }}
meet() {{ for n in 1 2 3; do echo $1 $n; touch {tmp_path}/$1$n; met $2$n; done; }}
early() {{ meet a b; false; echo never; }}
beside one early
beside two meet b a
all_ended
echo 'nor this'
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 1
    assert "== one\na 1\na 2\na 3\n" in done.stdout
    assert "== two\nb 1\nb 2\nb 3\n" in done.stdout
    assert done.stdout.endswith("FAILED: one (1)\n")
    assert "never" not in done.stdout
    assert "nor this" not in done.stdout


def test_a_run_that_hangs_shows_what_was_said_when_it_is_ended(tmp_path: Path) -> None:
    script = f"""
set -euo pipefail
source {ROOT}/.ci/beside
trap end_all EXIT
hang() {{ echo 'this hangs'; touch {tmp_path}/begun; sleep 1000; }}
bad() {{ echo 'this is why'; false; }}
beside one bad
beside two hang
beside three bad
until test -e {tmp_path}/begun; do sleep 0.01; done
for n in 0 2; do while kill -0 ${{step_processes[n]}} 2> /dev/null; do sleep 0.01; done; done
kill $$
all_ended
"""
    folder = tmp_path / "logs"
    folder.mkdir()
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(folder)},
    )
    assert done.returncode != 0
    assert done.stdout == "== one\nthis is why\n== two (ended here)\nthis hangs\n== three\nthis is why\n"
    assert list(folder.iterdir()) == []


def test_who_ends_the_script_ends_its_steps(tmp_path: Path) -> None:
    script = f"""
source {ROOT}/.ci/beside
trap end_all EXIT
step() {{ sleep 1000 & echo $! > {tmp_path}/process; wait; }}
beside one step
until test -s {tmp_path}/process; do sleep 0.01; done
kill $$
all_ended
"""
    subprocess.run(["bash", "-c", script], capture_output=True, check=False, timeout=400)
    path = Path("/proc") / (tmp_path / "process").read_text().strip() / "cmdline"
    end = time.monotonic() + 60
    while path.exists() and path.read_bytes() and time.monotonic() < end:
        time.sleep(0.05)
    assert not path.exists() or not path.read_bytes()
