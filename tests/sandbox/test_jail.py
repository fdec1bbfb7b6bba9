"""What a guest sees inside the sandbox, and what is refused when there is no sandbox."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import imharness_embedded
from imharness.cli import cli
from imharness.errors import Unavailable
from imharness_submissions.sandbox import jail, seccomp, selftest
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec, arguments, interpreter, require_sandbox
from imharness_submissions.sandbox.processes import ControlGroup, tree
from imharness_submissions.sandbox.selftest import look, verdict


def test_root_runs_nothing_where_nothing_holds_its_processes(sandbox: None, monkeypatch) -> None:
    """The kernel exempts root from the limit on processes; only a control group would hold a fork bomb."""
    monkeypatch.setattr(ControlGroup, "create", lambda *limits: None)
    monkeypatch.setattr(jail, "unlimited", lambda: True)
    with pytest.raises(Unavailable, match="run it as another user"):
        require_sandbox()
    monkeypatch.setattr(jail, "unlimited", lambda: False)
    require_sandbox()


def test_packages_with_data_sets_are_empty_inside(sandbox: None, tmp_path: Path, monkeypatch) -> None:
    folder = Path(imharness_embedded.__file__).parent
    roots = (*jail.roots(), folder.parent)
    monkeypatch.setattr(jail, "roots", lambda: roots)
    for masked, count in (((folder,), "0"), ((), str(len(list(folder.iterdir()))))):
        spec = GuestSpec("x", tmp_path, masked=masked)
        code = f"import os; print(len(os.listdir({str(folder)!r})))"
        done = subprocess.run(arguments(spec, [*interpreter(), "-c", code]), capture_output=True, text=True, check=True)
        assert done.stdout.strip() == count


@pytest.fixture(scope="module")
def looks_alike(sandbox: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """A guest whose package has Python's start-up hooks, and modules named as those of torch, json and the harness."""
    folder = tmp_path_factory.mktemp("package")
    for name in ("sitecustomize.py", "usercustomize.py", "torch.py", "json.py", "imharness_submissions/__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("raise SystemExit('it ran')\n")
    guest = Guest(GuestSpec("x", folder))
    yield guest
    guest.kill()


def test_modules_of_a_package_never_stand_for_those_of_the_harness(looks_alike: Guest) -> None:
    """The package's folder comes last on the path, and only in a session: its hooks and look-alikes are never run."""
    assert looks_alike.open().request("look").facts["sees other processes"] is False


def test_a_control_group_is_named_only_where_it_holds_every_process(
    looks_alike: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = looks_alike
    guest.open()
    running = guest._jail
    assert running is not None
    if running.group is None:
        pytest.skip("this process may not create control groups")
    assert guest.level.endswith("+cgroup")
    processes = tree(running.process.pid)
    assert len(processes) >= 4, "bubblewrap twice, the first process and a session"
    assert running.group.holds(processes)
    assert not running.group.holds([*processes, os.getpid()])
    guest.kill()
    monkeypatch.setattr(ControlGroup, "around", lambda self, line: list(line))
    guest.open()
    assert "cgroup" not in guest.level, "it was not entered"
    guest.kill()


def test_an_official_run_needs_a_control_group(sandbox: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, memory is measured only at intervals, which is too late for the result of a season."""
    monkeypatch.setattr(ControlGroup, "create", lambda *limits: None)
    monkeypatch.setattr(jail, "unlimited", lambda: False)
    official = Guest(GuestSpec("x", tmp_path), secret="5" * 64)
    with pytest.raises(Unavailable, match="official runs"):
        official.open()
    assert official._jail is None
    other = Guest(GuestSpec("x", tmp_path))
    other.open()
    assert "cgroup" not in other.level
    other.kill()


def test_a_machine_that_cannot_keep_sessions_apart_starts_nothing(
    sandbox: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = jail._closed
    monkeypatch.setattr(jail, "_closed", lambda spec: _without_capability(closed(spec)))
    guest = Guest(GuestSpec("x", tmp_path))
    with pytest.raises(Unavailable, match="the sandbox did not start"):
        guest.open()
    guest.kill()


def _without_capability(line: list[str]) -> list[str]:
    position = line.index("--cap-add")
    return [*line[:position], *line[position + 2 :]]


def test_the_doctor_finds_nothing_of_the_outside_inside(
    sandbox: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where Python is a symbolic link through folders that the sandbox does not contain.

    This happens in virtual environments whose link contains ".." or leads through a folder of links.
    """
    (tmp_path / "links").mkdir()
    python = tmp_path / "links" / "python"
    python.symlink_to(tmp_path / "links" / ".." / "next")
    (tmp_path / "next").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(python))
    results: dict[str, bool] = {}
    look_inside = selftest.selftest

    def recorded() -> dict[str, bool]:
        results.update(look_inside())
        return results

    monkeypatch.setattr(selftest, "selftest", recorded)
    done = CliRunner().invoke(cli, ["doctor", "--json"])
    assert '"sandbox": "bubblewrap' in done.output
    assert "holds" in done.output
    assert not any(results.values()), results
    assert len(results) == 7
    assert look()["opens a network socket"], "the test can tell"


@pytest.mark.parametrize("trusted", [False, True])
def test_other_systems_say_in_one_line_that_they_run_no_packages(trusted, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Unavailable, match="only Linux can hold"):
        Guest(GuestSpec("acme", tmp_path, trusted=trusted)).open()
    assert verdict().startswith("none: packages of others run in processes that only Linux can hold")
    assert "\n" not in verdict()


def test_without_bubblewrap_untrusted_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="apt-get install bubblewrap"):
        require_sandbox()


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_the_filter_is_whole(machine: str, gpu: bool) -> None:
    """Every jump lands inside the program; the last line allows."""
    code = seccomp.program(machine, gpu=gpu)
    if machine == "riscv64":
        assert code == b""
        return
    lines = [code[i : i + 8] for i in range(0, len(code), 8)]  # bytes 2 and 3 are jump offsets; opcode 0x06 returns
    for index, line in enumerate(lines):
        assert index + 1 + max(line[2], line[3]) < len(lines) or line[0] == 0x06
    assert lines[-1] == bytes.fromhex("060000000000ff7f")
