"""Scripts for clusters are run with fake commands of the cluster, and all calls of `harness` are valid."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import click
import pytest
from tests.typed_commands import ROOT, blocks, commands, read

SLURM = ROOT / "deploy" / "slurm" / "run.sbatch"
PAGE = "docs/howto/machines.md"
PORT = 20000 + 1234567 % 5000 * 2
"""The port that the script derives from the number of the job, 1234567."""
STAND_INS = {
    "scontrol": "printf 'node1\\nnode2\\nnode3\\n'",
    "srun": 'echo "srun $*" >> log; while [[ $1 == --* ]]; do shift; done; "$@"',
    "hostname": "echo '10.0.0.7 fe80::1'",
    "python3": """[[ $* != "-c import grpc" || -n ${GRPC:-} ]]""",
    "ray": """[[ $RAY_AUTH_MODE == token && ${#RAY_AUTH_TOKEN} == 32 ]] && echo "ray $*" >> log
[[ -z ${RAY_REFUSES:-} ]]""",
    "harness": """echo "harness $*" >> log
until (( $(grep -c '^ray start' log) >= EXPECTED )); do sleep 0.05; done
trap 'echo "stopped, and everything finished is there" >> log; exit 130' INT
[[ -z ${UNTIL_STOPPED:-} ]] || { echo waits >> log; for n in {1..6000}; do sleep 0.05; done; }
exit ${HARNESS_EXIT:-0}""",
}
"""Name of a command -> a script in its place, which writes its call into the file log."""


@pytest.mark.parametrize("page", [PAGE, "docs/stores.md"])
def test_every_command_of_a_page_is_one_the_command_line_takes(page: str) -> None:
    all_commands = [words for block in blocks(page) for words in commands(block)]
    assert all_commands
    for words in all_commands:
        read(words)


def test_a_wrong_command_is_noticed() -> None:
    (words,) = commands("ray exec x 'harness run --all --executer ray' & # as told")
    with pytest.raises(click.NoSuchOption):
        read(words)
    with pytest.raises(AssertionError, match="no command runs"):
        read(["harness", "runs"])


def test_every_cluster_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"deploy/[\w./-]*\w", (ROOT / PAGE).read_text()))
    assert named == {str(path.relative_to(ROOT)) for path in (ROOT / "deploy").rglob("*") if path.is_file()}


def prepared(folder: Path, **environment: str) -> tuple[Path, dict[str, str]]:
    """Write the scripts of `STAND_INS`; return the script of Slurm and the environment of a job."""
    tools = folder / "bin"
    tools.mkdir()
    for name, line in STAND_INS.items():
        (tools / name).write_text(f"#!/bin/bash\n{line}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    job = {
        "SLURM_JOB_ID": "1234567",
        "SLURM_JOB_NODELIST": "node[1-3]",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_CPUS_PER_TASK": "16",
        "SLURM_MEM_PER_NODE": "32768",
        "SLURM_SUBMIT_DIR": str(folder),
        "EXPECTED": "2",
    }
    return SLURM, {**os.environ, **job, "PATH": f"{tools}:{os.environ['PATH']}", **environment}


def dry_run(folder: Path, *words: str, **environment: str) -> tuple[int, list[str]]:
    """Run the script of Slurm with the fake commands; return its exit code and the calls it made, sorted."""
    script, settings = prepared(folder, **environment)
    done = subprocess.run(["bash", str(script), *words], cwd=folder, env=settings, timeout=400, check=False)
    return done.returncode, sorted((folder / "log").read_text(encoding="utf-8").splitlines())


def test_the_script_for_slurm_starts_a_cluster_and_a_run(tmp_path: Path) -> None:
    code, calls = dry_run(tmp_path, "--all", "--limit", "2")
    alone = "--include-dashboard false"
    node = (
        "--num-cpus 16 --num-gpus 0 --memory 34359738368 --object-store-memory 100000000 --disable-usage-stats --block"
    )
    head = f"ray start --head --node-ip-address 10.0.0.7 --port {PORT} {alone} {node}"
    other = f"ray start --address 10.0.0.7:{PORT} {node}"
    run = f"--executor ray --ray-address 10.0.0.7:{PORT} --gpus-per-worker 0 --progress plain"
    assert code == 0
    assert calls == sorted(
        [
            "srun --nodes=1 --ntasks=1 --nodelist=node1 hostname --ip-address",
            f"srun --nodes=1 --ntasks=1 --nodelist=node1 {head}",
            head,
            f"ray status --address 10.0.0.7:{PORT}",
            f"srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --exclude=node1 {other}",
            other,
            f"harness run {run} --store {tmp_path}/store --site {tmp_path}/site --all --limit 2",
        ]
    )
    read(next(call for call in calls if call.startswith("harness")).split())


def test_the_script_for_slurm_ends_as_the_run_does_and_takes_gpus_and_a_bucket(tmp_path: Path) -> None:
    settings = {"HARNESS_EXIT": "1", "STORE": "s3://b/p", "GPUS_PER_WORKER": "0.5", "SLURM_GPUS_ON_NODE": "4"}
    code, calls = dry_run(tmp_path, "--track", "iqa", SLURM_JOB_NUM_NODES="1", EXPECTED="1", **settings)
    assert code == 1
    (run,) = [call for call in calls if call.startswith("harness")]
    assert "--gpus-per-worker 0.5 " in run
    assert "--store s3://b/p " in run
    assert sum("ray start" in call and not call.startswith("srun") for call in calls) == 1
    assert any("--num-gpus 4" in call for call in calls)


def test_the_script_for_slurm_ends_where_the_head_cannot_start(tmp_path: Path) -> None:
    code, calls = dry_run(tmp_path, "--all", RAY_REFUSES="1")
    assert code == 1
    assert any(call.startswith("ray start --head") for call in calls)
    assert not any(call.startswith("harness") for call in calls)


def test_the_signal_before_the_time_limit_reaches_the_run_and_the_script_waits_for_it(tmp_path: Path) -> None:
    """Slurm sends SIGINT to the shell of the script alone; the run stops, and its exit code is the script's."""
    script, environment = prepared(tmp_path, EXPECTED="1", SLURM_JOB_NUM_NODES="1", UNTIL_STOPPED="1")
    process = subprocess.Popen(["bash", str(script), "--all"], cwd=tmp_path, env=environment)
    log = tmp_path / "log"
    end = time.monotonic() + 300
    while "waits" not in (log.read_text(encoding="utf-8") if log.exists() else "") and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 130
    assert "stopped, and everything finished is there" in log.read_text(encoding="utf-8")


def test_two_jobs_on_one_node_take_other_ports(tmp_path: Path) -> None:
    """With gRPC the head opens a second port; without it the script must not name one, as the calls above show."""
    ports = []
    for job in ("7", "8"):
        (tmp_path / job).mkdir()
        _, calls = dry_run(tmp_path / job, "--all", SLURM_JOB_ID=job, SLURM_JOB_NUM_NODES="1", EXPECTED="1", GRPC="1")
        (head,) = [call for call in calls if call.startswith("ray start --head")]
        ports += re.findall(r"port (\d+)", head)
    assert len({*ports}) == len(ports) == 4


def test_the_script_for_slurm_asks_for_what_it_uses() -> None:
    settings = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.+)$", SLURM.read_text(), re.M))
    assert settings.keys() >= {"nodes", "cpus-per-task", "mem", "time"}
    assert settings["ntasks-per-node"] == "1"
    assert settings["signal"] == "B:INT@120"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_script_for_slurm_passes_shellcheck() -> None:
    subprocess.run(["shellcheck", str(SLURM)], check=True)
