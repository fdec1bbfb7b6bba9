"""Workers on GPUs: how many start on which, what happens where memory is short, and that no result can depend on it."""

import logging
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from imharness.cli import cli
from imharness.errors import UsageError
from imharness.running import local
from imharness.running.device import device_name, recorded_name, synchronise
from imharness.running.devices import GIB, free_bytes, with_room
from imharness.running.executor import WorkerConfig, open_executor

ROOM = {"cuda:0": 80 * GIB, "cuda:1": 80 * GIB}
"""Free memory of each simulated GPU, bytes."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[WorkerConfig]:
    """The configurations of workers that would start on a machine with two GPUs that are simulated."""
    configs: list[WorkerConfig] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        local.LocalWorkers, "_start", lambda workers, config: configs.append(config) or SimpleNamespace()
    )
    monkeypatch.setattr(with_room, "__kwdefaults__", with_room.__kwdefaults__ | {"free": lambda devices: ROOM})
    return configs


def devices(started: list[WorkerConfig], **settings: Any) -> list[str]:
    started.clear()
    open_executor("store", **settings)
    return [config.device for config in started]


def test_every_gpu_gets_as_many_workers_as_were_asked_for(started: list[WorkerConfig]) -> None:
    assert devices(started) == ["cuda:0", "cuda:1"]
    assert devices(started, settings={"workers_per_gpu": 3}) == ["cuda:0", "cuda:1"] * 3
    assert devices(started, devices=["cuda:1"], settings={"workers_per_gpu": 2}) == ["cuda:1"] * 2
    assert devices(started, workers=5) == ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]
    both = {"workers": 3, "workers_per_gpu": 2}
    assert devices(started, workers=3, settings=both) == ["cuda:0", "cuda:1", "cuda:0"]
    assert devices(started, devices=["cpu"], workers=2, settings={"workers_per_gpu": 4}) == ["cpu", "cpu"]


def test_workers_differ_in_their_device_alone(started: list[WorkerConfig]) -> None:
    seen = set()
    for settings in ({}, {"workers": 7}, {"settings": {"workers_per_gpu": 4}}, {"devices": ["cpu"], "workers": 3}):
        devices(started, **settings)
        seen |= {replace(config, device="") for config in started}
    assert len(seen) == 1


def test_a_gpu_without_room_gets_fewer_workers_and_one_line_says_so(started, monkeypatch, caplog) -> None:
    monkeypatch.setitem(ROOM, "cuda:1", int(3.1 * GIB))
    with caplog.at_level(logging.WARNING):
        assert devices(started, settings={"workers_per_gpu": 4}) == ["cuda:0", "cuda:1", "cuda:0", "cuda:0", "cuda:0"]
    assert [record.getMessage() for record in caplog.records] == [
        "cuda:1 has 3.1 GiB free: 1 of 4 workers starts there, each needs 2 GiB"
    ]


def test_without_room_anywhere_nothing_starts(started, monkeypatch) -> None:
    monkeypatch.setitem(ROOM, "cuda:0", GIB)
    monkeypatch.setitem(ROOM, "cuda:1", 0)
    with pytest.raises(UsageError, match=r"cuda:0 has 1.0 GiB free: 0 of 1 workers start there.*cuda:1 has 0.0 GiB"):
        devices(started)
    assert started == []


def test_what_cannot_be_asked_is_no_reason_to_start_fewer() -> None:
    assert with_room(["cuda:0"], workers_per_gpu=2, free=lambda gpus: {}) == (["cuda:0", "cuda:0"], [])


def test_the_command_takes_it_for_local_workers_alone(tmp_path: Path) -> None:
    words = ["run", "--all", "--store", str(tmp_path / "store"), "--workers-per-gpu"]
    other = CliRunner().invoke(cli, [*words, "2", "--executor", "in-process"], standalone_mode=False)
    assert str(other.exception) == "--workers-per-gpu is an option of --executor local"
    wrong = CliRunner().invoke(cli, [*words, "0"], standalone_mode=False)
    assert "--workers-per-gpu: Input should be greater than or equal to 1" in str(wrong.exception)


def test_the_gpu_of_a_mac_is_used_where_it_is_named(started: list[WorkerConfig], monkeypatch) -> None:
    """It is not chosen by itself, as it has no float64; it shares the machine's memory, so nobody asks for its room.

    Its workers let PyTorch compute on the CPU what it cannot on that device, unless the user forbids it.
    """
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"device 'mps' is not on this machine"):
        devices(started, devices=["mps"])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(with_room, "__kwdefaults__", with_room.__kwdefaults__ | {"free": free_bytes})
    assert set(devices(started)) == {"cpu"}
    monkeypatch.setenv(local.FALLBACK, "0")
    assert devices(started, devices=["mps"]) == ["mps"]
    assert os.environ.pop(local.FALLBACK) == "0"
    assert set(devices(started)) == {"cpu"}
    assert local.FALLBACK not in os.environ
    assert devices(started, devices=["mps"]) == ["mps"]
    assert os.environ[local.FALLBACK] == "1"
    assert device_name(torch.device("mps")) == f"GPU of {device_name(torch.device('cpu'))}"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "ACME GPU")
    assert recorded_name(torch.device("cuda")) == "ACME GPU (streams: SplitMix64)"
    assert all(recorded_name(torch.device(name)) == device_name(torch.device(name)) for name in ("mps", "cpu"))
    waited: list[str] = []
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    synchronise(torch.device("mps"))
    assert waited == ["mps"]
