"""The calls of Ray: a connection, the room for workers on each node, and the workers themselves."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable, Iterable
from typing import Any

from imharness.errors import HarnessError, Unavailable
from imharness_ray.actor import actor_class
from imharness_ray.settings import RaySettings

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Environment variables that Ray reads when it is imported.

The first two stop its usage reports, and its output between the lines of the harness. The last two keep workers in this
environment: Ray then does not hide GPUs from workers that need none, and does not start workers by `uv run`.
"""
PATIENT = {
    "RAY_prestart_worker_first_driver": "0",  # each worker has its own environment: it could not use these
    "RAY_gcs_server_port_wait_time_s": "300",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_health_check_failure_threshold": "20",
}
"""Longer time limits: a busy machine is slow to start processes and to answer, and Ray gives up after 30 to 60 s."""
for name, value in {**QUIET, **PATIENT}.items():
    os.environ.setdefault(name, value)

try:
    import ray
except ImportError:
    raise Unavailable("executor ray needs Ray", "pip install 'image-privacy-harness[ray]'") from None

LOCAL = "local"
REACH_S = 10.0
"""The time within which the first node of a cluster must answer, s."""
STARTS = 3
"""The number of attempts to start a cluster on this machine: Ray gives a node 30 s, which no setting changes."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
OBJECTS = 100_000_000
"""The memory for Ray's objects on this machine, bytes: tasks and results are small, and rows go into the store."""


class Node:
    """A node of the cluster that is alive. `room`: how many workers it has room for when nothing else runs on it."""

    def __init__(self, facts: dict[str, Any], settings: RaySettings) -> None:
        self.id, self.host = str(facts["NodeID"]), str(facts["NodeManagerHostname"])
        has = facts["Resources"]
        room = [has.get("CPU", 0.0), has.get("memory", 0.0) / _bytes(settings)]
        if settings.gpus_per_worker:
            room.append(has.get("GPU", 0.0) / settings.gpus_per_worker)
        self.room = int(min(room) + 1e-9)


class Cluster:
    """A connection to a Ray cluster: to an existing one, or to one on this machine that it starts for this run.

    `grows`: whether nodes may be added later.
    """

    def __init__(self, settings: RaySettings) -> None:
        self.grows = True
        self._settings, self._started = settings, not ray.is_initialized()
        self._actor: Any = ray.remote(actor_class())
        if self._started:
            logging.getLogger("ray").setLevel(logging.ERROR)
            address = settings.ray_address or os.environ.get("RAY_ADDRESS") or LOCAL
            self.grows = address != LOCAL
            _reach(address)
            for remaining in reversed(range(STARTS if address == LOCAL else 1)):
                try:
                    _connect(address)
                    break
                except Exception as error:  # Ray raises the base class itself where a node takes too long
                    ray.shutdown()
                    if not remaining:
                        raise HarnessError(f"no Ray cluster at {address}: {_line(error)}") from None

    @property
    def needs(self) -> str:
        """The resources of a node that a worker needs, in words."""
        gpus, memory = self._settings.gpus_per_worker, self._settings.memory_per_worker
        return "a core, " + (f"{gpus:g} GPU, " if gpus else "") + f"{memory:g} GB of memory"

    def nodes(self) -> list[Node]:
        """Return the nodes that are alive."""
        return [Node(facts, self._settings) for facts in ray.nodes() if facts["Alive"]]

    def start(self, without: Iterable[str]) -> Any:
        """Start a worker on any node except these, as soon as one has room; its libraries use one thread each."""
        nodes = ", ".join(sorted(without))
        return self._actor.options(
            num_cpus=1,
            num_gpus=self._settings.gpus_per_worker,
            memory=_bytes(self._settings),
            max_restarts=0,
            runtime_env={"env_vars": dict.fromkeys(THREADS, "1")},
            label_selector={"ray.io/node-id": f"!in({nodes})"} if nodes else None,
        ).remote()

    def call(self, method: Any, then: Callable[[Any], None], **arguments: Any) -> None:
        """Call a method of a worker; `then` gets the finished future, in a thread of Ray."""
        method.remote(**arguments).future().add_done_callback(then)

    def end(self, actor: Any) -> None:
        """End a worker, whatever it is doing."""
        if ray.is_initialized():
            ray.kill(actor)

    def close(self) -> None:
        """Leave the cluster; end it if it was started for this run."""
        if self._started:
            ray.shutdown()


def _reach(address: str) -> None:
    """Raise `HarnessError` if nothing listens at an address such as 10.0.0.1:6379: Ray would wait for minutes."""
    match = re.fullmatch(r"(?:ray://)?(?P<host>[^/]+):(?P<port>\d{1,5})", address)
    if match is None:
        return
    try:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), REACH_S).close()
    except (OSError, OverflowError) as error:
        raise HarnessError(f"no Ray cluster at {address}: {_line(error)}") from None


def _connect(address: str) -> None:
    options = {"include_dashboard": False, "object_store_memory": OBJECTS} if address == LOCAL else {}
    ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)


def _bytes(settings: RaySettings) -> int:
    return int(settings.memory_per_worker * 1e9)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
