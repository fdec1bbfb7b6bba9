"""How far a run is, as a page for Prometheus: text in format 0.0.4 at ``/metrics``.

Names follow Prometheus' conventions (https://prometheus.io/docs/practices/naming/): base units, counters end in
``_total``. Counters count only the tasks that this run computed, not those that had a result before.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from imharness.errors import UsageError
from imharness.results.version import __version__
from imharness.running.schedule.state import RunState
from imharness.running.views import Nothing

CONTENT = "text/plain; version=0.0.4; charset=utf-8"
LOOPBACK = "127.0.0.1"
_PLACE = re.compile(r"(?:(?P<host>[^\s:/]+):)?(?P<port>\d{1,5})")
Sample = tuple[Mapping[str, str], float]


class Metrics(Nothing):
    """Serves the last state that it was shown, in a thread of its own, until it is closed.

    Args:
        place: a port that only this machine can reach, or ``HOST:PORT``; port 0 means any free one.

    Raises:
        UsageError: `place` is neither, or it is not possible to listen there.
    """

    every_s = 1.0

    def __init__(self, place: str) -> None:
        found = _PLACE.fullmatch(place)
        if found is None or int(found["port"]) > 65535:
            raise UsageError(f"--metrics-port: {place!r} is neither a port nor HOST:PORT.")
        self._state: RunState | None = None
        try:
            self._server = _Server((found["host"] or LOOPBACK, int(found["port"])), self)
        except OSError as error:
            raise UsageError(f"--metrics-port: cannot listen on {place}: {error.strerror}.") from None
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def show(self, state: RunState) -> None:
        self._state = state

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def text(self) -> str:
        """Return the page."""
        return "" if self._state is None else "".join(f"{line}\n" for line in lines_of(self._state))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], metrics: Metrics) -> None:
        self.metrics = metrics
        super().__init__(address, _Page)

    def server_bind(self) -> None:
        """Bind without asking a name server for the name of this machine, which takes long if none answers."""
        TCPServer.server_bind(self)


class _Page(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        here = self.path.partition("?")[0] == "/metrics"
        content = self.server.metrics.text().encode() if here else b"see /metrics\n"
        self.send_response(200 if here else 404)
        self.send_header("Content-Type", CONTENT if here else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def lines_of(state: RunState) -> Iterator[str]:
    """Yield the lines of the page: help, type and samples of each metric."""
    started, updated = (datetime.fromisoformat(text).timestamp() for text in (state.started, state.updated))
    tracks, none = state.tracks.items(), dict[str, str]()
    running = [({"track": track}, float(sum(own.track == track for own in state.running))) for track in state.tracks]
    about = {"version": __version__, "host": state.host, "run": state.id}
    yield from _metric("info", "gauge", "The run and its version; always 1.", [(about, 1)])
    yield from _metric("start_time_seconds", "gauge", "When the run started, Unix time.", [(none, started)])
    yield from _metric("updated_time_seconds", "gauge", "When these numbers were taken, Unix time.", [(none, updated)])
    yield from _metric(
        "cells",
        "gauge",
        "Cells of the run, including those that had a result before.",
        [({"track": track}, part.total) for track, part in tracks],
    )
    yield from _metric(
        "cells_finished",
        "gauge",
        "Cells that have a result, including those that had one before.",
        [({"track": track}, part.done) for track, part in tracks],
    )
    yield from _metric("cells_running", "gauge", "Cells that are being computed.", running)
    yield from _metric(
        "cells_done_total", "counter", "Cells that this run computed.", [(none, state.done - state.reused)]
    )
    yield from _metric("cells_failed_total", "counter", "Cells that failed in this run.", [(none, state.failed)])
    if state.left_s is not None:
        bound = ("left_at_least_seconds", "goes on at least")
        name, how = bound if state.at_least else ("left_seconds", "is expected to go on")
        yield from _metric(name, "gauge", f"How long the run {how}.", [(none, state.left_s)])


def _metric(name: str, kind: str, about: str, samples: Sequence[Sample]) -> Iterator[str]:
    whole = f"harness_run_{name}"
    yield f"# HELP {whole} {about}"
    yield f"# TYPE {whole} {kind}"
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{whole}{{{inside}}} {float(value)!r}" if inside else f"{whole} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
