"""Scripts for clusters are run with stand-ins for the cluster's commands; all calls of `harness` are right."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from tests.typed_commands import ROOT, blocks, commands, read

SLURM = ROOT / "deploy" / "slurm" / "run.sbatch"
PAGE = "docs/many-machines.md"
STAND_INS = {
    "scontrol": "printf 'node1\\nnode2\\nnode3\\n'",
    "srun": 'echo "srun $*" >> log; while [[ $1 == --* ]]; do shift; done; "$@"',
    "hostname": "echo '10.0.0.7 fe80::1'",
    "ray": '[[ $RAY_AUTH_MODE == token && ${#RAY_AUTH_TOKEN} == 32 ]] && echo "ray $*" >> log',
    "harness": """echo "harness $*" >> log
until (( $(grep -c '^ray start' log) >= EXPECTED )); do sleep 0.05; done
exit ${HARNESS_EXIT:-0}""",
}


@pytest.mark.parametrize("page", [PAGE, "docs/stores.md"])
def test_every_command_of_a_page_is_one_the_command_line_takes(page: str) -> None:
    found = [words for block in blocks(page) for words in commands(block)]
    assert len(found) >= 2
    for words in found:
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


def dry_run(folder: Path, *words: str, **environment: str) -> tuple[int, list[str]]:
    """Run the script of Slurm with stand-ins; return its exit code and the calls it made, sorted."""
    tools = folder / "bin"
    tools.mkdir()
    for name, line in STAND_INS.items():
        (tools / name).write_text(f"#!/bin/bash\n{line}\n")
        (tools / name).chmod(0o755)
    job = {
        "SLURM_JOB_NODELIST": "node[1-3]",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_CPUS_PER_TASK": "16",
        "SLURM_MEM_PER_NODE": "32768",
        "SLURM_SUBMIT_DIR": str(folder),
        "EXPECTED": "2",
    }
    path = f"{tools}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(SLURM), *words],
        cwd=folder,
        env={**os.environ, **job, "PATH": path, **environment},
        timeout=400,
        check=False,
    )
    return done.returncode, sorted((folder / "log").read_text().splitlines())


def test_the_script_for_slurm_starts_a_cluster_and_a_run(tmp_path: Path) -> None:
    code, calls = dry_run(tmp_path, "--all", "--limit", "2")
    node = (
        "--num-cpus 16 --num-gpus 0 --memory 34359738368 --object-store-memory 100000000 --disable-usage-stats --block"
    )
    head = f"ray start --head --node-ip-address 10.0.0.7 --port 6379 --include-dashboard false {node}"
    other = f"ray start --address 10.0.0.7:6379 {node}"
    run = "--executor ray --ray-address 10.0.0.7:6379 --gpus-per-worker 0 --progress plain"
    assert code == 0
    assert calls == sorted(
        [
            "srun --nodes=1 --ntasks=1 --nodelist=node1 hostname --ip-address",
            f"srun --nodes=1 --ntasks=1 --nodelist=node1 {head}",
            head,
            "ray status --address 10.0.0.7:6379",
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


def test_the_script_for_slurm_asks_for_what_it_uses() -> None:
    asked = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.+)$", SLURM.read_text(), re.M))
    assert asked.keys() >= {"nodes", "cpus-per-task", "mem", "time"}
    assert asked["ntasks-per-node"] == "1"
    assert asked["signal"] == "B:INT@120"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_script_for_slurm_passes_shellcheck() -> None:
    subprocess.run(["shellcheck", str(SLURM)], check=True)
