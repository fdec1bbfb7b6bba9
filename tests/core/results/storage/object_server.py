"""An object server on this machine, and a proxy before it whose connections fail as a test asks."""

from __future__ import annotations

import http.client
import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUCKET = "bucket"
SLOW_DOWN = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>'
FAILED = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>We failed.</Message></Error>'
FAULTS = ("late", "failed", "slow down", "reset before", "reset after", "half a request", "half an answer")
"""What can happen to a request: it is answered 0.2 s late; it is answered with an error 500 or 503; the connection
is reset before or after the server gets it; half of its body is read, or half of the answer is sent, before a reset."""


class BadConnection(ThreadingHTTPServer):
    """A proxy of the server at port `behind`; requests whose number is a multiple of `every` meet the next of `faults`.

    With `every` 0 no request meets a fault. `met` counts how often each fault happened, and `requests` has the lines of
    all requests.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.behind, self.every, self.faults = port, 0, FAULTS
        self.met = dict.fromkeys(FAULTS, 0)
        self.requests: list[str] = []
        self._count, self._lock = itertools.count(1), threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: connections break on purpose here."""

    def fault(self, line: str) -> str:
        """Count a request and return the fault that it meets, "" for none."""
        with self._lock:
            self.requests.append(line)
            number = next(self._count)
            if not self.every or number % self.every:
                return ""
            fault_kind = self.faults[number // self.every % len(self.faults)]
            self.met[fault_kind] += 1
            return fault_kind


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BadConnection

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _pass_on(self) -> None:
        fault = self.server.fault(f"{self.command} {self.path}")
        if fault == "half a request":
            half = int(self.headers.get("Content-Length", 0)) // 2
            chunked = self.command == "PUT" and not half  # the length is not known beforehand
            self.rfile.read(10 if chunked else half)
            self._reset()
            return
        body = self._body()
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        if fault == "late":
            time.sleep(0.2)
        if fault in ("failed", "slow down"):
            status, content = (500, FAILED) if fault == "failed" else (503, SLOW_DOWN)
            self._answer(status, content, {})
            return
        if fault == "reset before":
            self._reset()
            return
        behind = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=30)
        behind.request(self.command, self.path, body, headers)
        answer = behind.getresponse()
        content = answer.read()
        behind.close()
        if fault == "reset after":
            self._reset()
            return
        self._answer(answer.status, content, dict(answer.getheaders()), half=fault == "half an answer")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer(self, status: int, content: bytes, headers: dict[str, str], *, half: bool = False) -> None:
        self.send_response_only(status)
        forwarded = {k: v for k, v in headers.items() if k.lower() not in ("transfer-encoding", "connection")}
        if self.command != "HEAD":
            forwarded = {k: v for k, v in forwarded.items() if k.lower() != "content-length"} | {
                "Content-Length": str(len(content))
            }
        for name, value in forwarded.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if half else content)
        if half:
            self._reset()

    def _reset(self) -> None:
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on


def free_port() -> int:
    """Return a port at which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def object_server() -> Iterator[BadConnection]:
    """Yield a proxy, without faults yet, of a moto server that has one empty bucket, `BUCKET`."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    connection = BadConnection(port)
    threading.Thread(target=connection.serve_forever, daemon=True).start()
    try:
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.request("PUT", f"/{BUCKET}")
        assert client.getresponse().status == 200
        yield connection
    finally:
        connection.shutdown()
        connection.server_close()
        server.stop()
