"""`ih.audit` with several processes: the answers are those of one process, and no model is trained twice."""

import os
import runpy
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.forking import ending

import imharness as ih
from imharness.errors import UsageError
from imharness.running.subprocesses import can_copy
from imharness_membership.notebook.trained import Workers, workers_of

pytestmark = pytest.mark.skipif(not can_copy(), reason="processes cannot be copied on this system")
ATTACKS = ["lira", "rmia"]
SCRIPT = """
import sys, time
import numpy as np
import imharness as ih

log, folder = sys.argv[1], sys.argv[2]
rng = np.random.default_rng(0)
inputs, labels = rng.random((200, 1)) * 200, rng.integers(0, 3, 200)

def train(indices, seed):
    time.sleep(0.4)
    with open(log, "a") as lines:
        lines.write(f"{seed}\\n")
    near = np.exp(-np.abs(inputs - inputs[indices, 0][None])) @ np.eye(3)[labels[indices]] + 0.01
    return lambda rows: near / near.sum(axis=1, keepdims=True)

for workers in map(int, sys.argv[3:]):
    ih.audit(train=train, data=(inputs, labels), references=8, cache=folder, workers=workers, progress=False,
             evaluators=["rmia"])
"""


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 64)).astype(np.float32), rng.integers(0, 4, 400)


def network(inputs: np.ndarray, labels: np.ndarray, lock: Any = None):
    """A training function whose sums are long enough to depend on the number of threads."""

    def train(indices: np.ndarray, seed: int) -> torch.nn.Module:
        with lock or threading.Lock():
            draws = torch.Generator().manual_seed(seed)
            model = torch.nn.Sequential(torch.nn.Linear(64, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))
            for parameter in model.parameters():
                parameter.data.normal_(0, 0.1, generator=draws)
            steps = torch.optim.SGD(model.parameters(), lr=0.3)
            for _ in range(20):
                steps.zero_grad()
                outputs = model(torch.as_tensor(inputs[indices]))
                torch.nn.functional.cross_entropy(outputs, torch.as_tensor(labels[indices])).backward()
                steps.step()
        return model

    return train


def kept(folder: Path) -> dict[str, bytes]:
    return {file.name: np.load(file)["probabilities"].tobytes() for file in folder.glob("*.npz")}


def test_two_workers_give_byte_equal_answers_to_one(tmp_path: Path) -> None:
    inputs, labels = data()
    options = {"data": (inputs, labels), "references": 4, "progress": False, "evaluators": ATTACKS}
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        one = ih.audit(train=network(inputs, labels), cache=tmp_path / "one", **options)
        two = ih.audit(train=network(inputs, labels), cache=tmp_path / "two", workers=2, device="cpu", **options)
    finally:
        torch.set_num_threads(before)
    assert len(kept(tmp_path / "one")) == 5
    assert kept(tmp_path / "one") == kept(tmp_path / "two")
    assert one.table() == two.table()
    assert one.worst.auc.value > 0.6


def test_models_are_trained_anew_without_a_folder_and_for_other_data(tmp_path: Path) -> None:
    inputs, labels = data()
    options = {"references": 4, "progress": False, "evaluators": ATTACKS}
    calls = []

    def train(indices: np.ndarray, seed: int) -> torch.nn.Module:
        calls.append(seed)
        return network(inputs, labels)(indices, seed)

    for cache, rows, trainings in (
        (None, inputs, 5),
        (None, inputs, 5),
        (tmp_path, inputs, 5),
        (tmp_path, inputs, 0),
        (tmp_path, torch.as_tensor(inputs), 0),
        (tmp_path, inputs + 1, 5),
        (tmp_path, inputs[:, ::-1].copy(), 5),
    ):
        calls.clear()
        ih.audit(train=train, data=(rows, labels), cache=cache, **options)
        assert len(calls) == trainings
    ih.audit(train=train, data=(inputs, labels), workers=2, device="cpu", **options)


def script(tmp_path: Path, *workers: int) -> int:
    """Start `SCRIPT`, which audits once for each number of workers, and return its process.

    It is a copy of this process, which has imported what the script needs.
    """
    (tmp_path / "audit_it.py").write_text(SCRIPT)
    with warnings.catch_warnings(action="ignore"):  # about other threads, which a copy does not have
        child = os.fork()
    if child == 0:
        with ending():
            sys.argv = [*map(str, (tmp_path / "audit_it.py", tmp_path / "log", tmp_path / "kept", *workers))]
            runpy.run_path(sys.argv[0], run_name="__main__")
            raise SystemExit(0)
    return child


def trained(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text().split() if (tmp_path / "log").exists() else []


def test_an_audit_that_is_killed_goes_on_and_trains_no_kept_model_again(tmp_path: Path) -> None:
    first = script(tmp_path, 2)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("kept/*.npz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    time.sleep(1)  # workers end with the killed process and train nothing more
    there, before = len(list(tmp_path.glob("kept/*.npz"))), trained(tmp_path)
    time.sleep(1)
    assert trained(tmp_path) == before
    assert 3 <= there < 9
    assert os.waitpid(script(tmp_path, 2, 1), 0)[1] == 0  # one audit with two workers, then one with a single worker
    after = trained(tmp_path)[len(before) :]
    assert len(after) == 9 - there
    assert len(set(after)) == len(after)
    assert set(before) | set(after) == set(trained(tmp_path))
    assert len(set(trained(tmp_path))) == 9


def test_what_a_training_raises_is_told_and_models_that_are_done_are_kept(tmp_path: Path) -> None:
    inputs, labels = data()
    good = network(inputs, labels)

    def fails(indices: np.ndarray, seed: int) -> torch.nn.Module:
        if (tmp_path / "wrong").exists():
            raise ValueError("no learning rate")
        return good(indices, seed)

    options = {"data": (inputs, labels), "references": 4, "progress": False, "cache": tmp_path / "kept", "workers": 2}
    (tmp_path / "wrong").touch()
    with pytest.raises(UsageError, match=r"train: (target|reference 0): ValueError: no learning rate; workers=1 shows"):
        ih.audit(train=fails, **options)
    (tmp_path / "wrong").unlink()
    assert ih.audit(train=fails, evaluators=ATTACKS, **options).details.references == 4
    with pytest.raises(UsageError, match="its worker ended"):
        ih.audit(train=lambda indices, seed: os._exit(1), **options | {"cache": tmp_path / "other"})


def test_workers_are_spread_over_devices_and_what_does_not_fit_is_named() -> None:
    assert workers_of(3, ["cuda:0", "cuda:1"]) == Workers(3, ("cuda:0", "cuda:1"))
    for words, message in (
        ((0, None), "workers: expected a number from 1"),
        ((1, "tpu"), "device: expected cpu, cuda"),
    ):
        with pytest.raises(UsageError, match=message):
            workers_of(*words)
