"""A file server on this machine, which can break connections off in the middle of a file."""

import http.server

from tests.small_asset import CONTENT, asset

from imharness.contracts.assets import Asset


class Server(http.server.ThreadingHTTPServer):
    """Serves `content` at every address; each number in `breaks` ends one connection after so many bytes.

    `ranges`: whether it answers requests for a range of bytes; `asked`: the ranges of all requests.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.breaks, self.ranges, self.asked = CONTENT, list[int](), True, list[str]()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/weights.bin"

    def asset(self, **changes: object) -> Asset:
        return asset().model_copy(update={"address": self.address, **changes})


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        self.server.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        content = self.server.content[start:]
        if start and not content:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            whole = len(self.server.content)
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.breaks.pop(0)] if self.server.breaks else content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
