"""How far a run is, for Prometheus, which the package prometheus_client, an extra, serves.

Names follow Prometheus' conventions (https://prometheus.io/docs/practices/naming/): base units, counters end in
``_total``. Counters count only the tasks that this run computed, not those that had a result before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from imharness.errors import UsageError
from imharness.results.version import __version__
from imharness.running.schedule.state import RunState
from imharness.running.views import Nothing

LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:(?P<host>[^\s:/]+):)?(?P<port>\d{1,5})")


class Metrics(Nothing):
    """Serves the last state that it was shown, in a thread of its own, until it is closed.

    Args:
        address: a port that only this machine can reach, or ``HOST:PORT``; port 0 means any free one.

    Raises:
        UsageError: `address` is neither, or it is not possible to listen there.
    """

    every_s = 1.0

    def __init__(self, address: str) -> None:
        match = _ADDRESS.fullmatch(address)
        if match is None or int(match["port"]) > 65535:
            raise UsageError(f"--metrics-port: {address!r} is neither a port nor HOST:PORT.")
        self._state: RunState | None = None
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, _ = start_http_server(int(match["port"]), match["host"] or LOOPBACK, registry)
        except OSError as error:
            raise UsageError(f"--metrics-port: cannot listen on {address}: {error.strerror}.") from None
        self.host, self.port = self._server.server_address[:2]

    def show(self, state: RunState) -> None:
        self._state = state

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def collect(self) -> Iterator[Metric]:
        """Yield what the run knows of itself; nothing before it has started."""
        state = self._state
        if state is None:
            return
        about = _gauge("info", "The run and its version; always 1.", "version", "host", "run")
        about.add_metric([__version__, state.host, state.id], 1)
        yield about
        for name, text, when in (
            ("start", "When the run started, Unix time.", state.started),
            ("updated", "When these numbers were taken, Unix time.", state.updated),
        ):
            yield _gauge(f"{name}_time_seconds", text, value=datetime.fromisoformat(when).timestamp())
        tasks = _gauge("tasks", "Tasks of the run, including those that had a result before.", "track")
        done = _gauge("tasks_finished", "Tasks that have a result, including those that had one before.", "track")
        busy = _gauge("tasks_running", "Tasks that are being computed.", "track")
        for track, progress in state.tracks.items():
            tasks.add_metric([track], progress.total)
            done.add_metric([track], progress.done)
            busy.add_metric([track], sum(task.track == track for task in state.running))
        yield from (tasks, done, busy)
        computed = state.done - state.reused
        yield CounterMetricFamily("harness_run_tasks_done", "Tasks that this run computed.", value=computed)
        yield CounterMetricFamily("harness_run_tasks_failed", "Tasks that failed in this run.", value=state.failed)
        if state.left_s is not None:
            bound = ("left_at_least_seconds", "goes on at least")
            name, how = bound if state.at_least else ("left_seconds", "is expected to go on")
            yield _gauge(name, f"How long the run {how}.", value=state.left_s)


def _gauge(name: str, text: str, *labels: str, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"harness_run_{name}", text, value=value, labels=labels or None)
