"""The page answers every request, wrong ones too, and nobody gets in, or stays in, without a right."""

import asyncio
import os
import re
import stat
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from click.testing import CliRunner
from tests.plugins.annotation.test_browser import book_of

from imharness_annotation.app import BODY, application
from imharness_annotation.book import Book
from imharness_annotation.command import annotate


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return book_of(tmp_path / "votes.sqlite")


def awaited(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return a coroutine's result, computed in another thread, as this one may have a running event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


class Visitor:
    """A browser without a window: keeps cookies and follows where it is sent."""

    def __init__(self, book: Book) -> None:
        self._transport = httpx.ASGITransport(application(book, ["testserver"]), raise_app_exceptions=False)
        self.cookies = httpx.Cookies()

    def get(self, path: str) -> httpx.Response:
        return self._ask("GET", path)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self._ask("POST", path, **body)

    def _ask(self, method: str, path: str, **body: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self._transport, base_url="http://testserver", cookies=self.cookies, follow_redirects=True
            ) as there:
                response = await there.request(method, path, **body)
                self.cookies = there.cookies
                return response

        return awaited(ask())


@pytest.fixture
def client(book: Book) -> Visitor:
    return Visitor(book)


def token(client: Visitor) -> str:
    match = re.search(r'name="token" value="([^"]+)"', client.get("/").text)
    assert match is not None
    return match[1]


def entered(client: Visitor, name: str = "Ada") -> str:
    key = token(client)
    assert client.post("/enter", data={"name": name, "token": key}).status_code == 200
    return key


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/image/{'9' * 400}/right", 404),
        ("/image/-1/right", 404),
        ("/image/1/middle", 404),
        ("/image/99999999999999999999/right", 404),
        ("/static/..%2fapp.py", 404),
        ("/nothing", 404),
        ("/image/1/%ff", 404),
        ("/vote", 405),
    ],
)
def test_what_is_not_there_is_not_found(client: Visitor, path: str, status: int) -> None:
    entered(client)
    assert client.get(path).status_code == status


@pytest.mark.parametrize("item", ["", "x", "9" * 5000, "99999999999999999999", "-1", "1.5", "1_0", "\u0661", "nan"])
def test_a_vote_on_no_question_is_refused(client: Visitor, item: str) -> None:
    key = entered(client)
    response = client.post("/vote", data={"token": key, "item": item, "answer": "camera"})
    assert response.status_code == 400, response.text


@pytest.mark.parametrize("name", ["A\ud800da", "A\x00da", "A\x1b[2Jda", "A\u202eda", "A\u2028da", " \u200b "])
def test_a_name_is_plain_text(client: Visitor, book: Book, name: str) -> None:
    key = token(client)
    body = f"token={key}&name=".encode() + b"".join(b"%%%02x" % b for b in name.encode("utf-8", "surrogatepass"))
    response = client.post("/enter", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert response.status_code in (200, 400)
    assert client.get("/judge").status_code == 200
    client.post("/vote", data={"token": key, "item": "1", "answer": "camera"})
    assert all(vote.annotator.isprintable() and vote.annotator.strip() for vote in book.votes())


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
        (b"", "multipart/form-data"),
        (b"\xff=\xfe&&&==%zz", "application/x-www-form-urlencoded"),
        (b"{}", "application/json"),
        (b"a=1&" * 2000, "application/x-www-form-urlencoded"),
        (
            b'--x\r\nContent-Disposition: form-data; name="token"; filename="a"\r\n\r\nz\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/enter", "/vote", "/undo", "/leave"])
def test_a_body_that_is_no_form_is_refused(client: Visitor, path: str, content: bytes, kind: str) -> None:
    entered(client)
    response = client.post(path, content=content, headers={"Content-Type": kind})
    assert response.status_code in (400, 403, 413, 415), response.text
    assert "Traceback" not in response.text


def asked(book: Book, headers: list[tuple[bytes, bytes]], chunks: int = 400) -> tuple[int, int]:
    """Post up to `chunks` MiB, one at a time, to the application; return the status and how many MiB it read."""
    taken, status = 0, 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": b"x" * (1 << 20), "more_body": taken < chunks}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/vote",
        "raw_path": b"/vote",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"testserver"), (b"content-type", b"application/x-www-form-urlencoded"), *headers],
        "scheme": "http",
        "server": ("testserver", 80),
        "client": ("127.0.0.1", 1),
        "http_version": "1.1",
    }
    awaited(application(book, ["testserver"])(scope, receive, send))  # type: ignore[arg-type]
    return status, taken


def test_a_large_body_is_not_read(book: Book, client: Visitor) -> None:
    """Without a session nothing is read; with one, and without a stated length, a few KiB are."""
    assert asked(book, []) == (403, 0)
    entered(client)
    cookie = (b"cookie", f"annotate={client.cookies['annotate']}".encode())
    assert asked(book, [cookie, (b"content-length", str(400 << 20).encode())]) == (413, 0)
    status, taken = asked(book, [cookie])
    assert status == 413
    assert taken <= BODY // (1 << 20) + 1


def test_a_cookie_is_worthless_after_its_owner_has_left(client: Visitor, book: Book) -> None:
    key = entered(client)
    cookie = client.cookies["annotate"]
    assert client.post("/leave", data={"token": key}).status_code == 200
    client.cookies = httpx.Cookies({"annotate": cookie})
    assert "Ada" not in client.get("/judge").text
    assert client.get("/image/1/right").status_code == 403
    assert client.post("/vote", data={"token": key, "item": "1", "answer": "camera"}).status_code == 403
    assert book.votes() == []


def test_an_answer_that_is_no_choice_is_refused(client: Visitor) -> None:
    key = entered(client)
    assert client.post("/vote", data={"token": key, "item": "1", "answer": "x" * 3000}).status_code == 400


def test_others_on_the_machine_cannot_read_the_file(tmp_path: Path) -> None:
    """It holds the secret that signs sessions; an older file is closed, too, with what SQLite writes beside it."""
    old = tmp_path / "old.sqlite"
    before = os.umask(0)
    try:
        old.touch(0o666)
        for file in (tmp_path / "new.sqlite", old):
            book_of(file)
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.glob(f"{file.name}*")}
            assert set(modes.values()) == {0o600}, modes
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("host", "address", "local"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.2", "127.0.0.2", True),
        ("localhost", "localhost", True),
        ("::1", "[::1]", True),
        ("0.0.0.0", "0.0.0.0", False),
        ("192.0.2.7", "192.0.2.7", False),
    ],
)
def test_only_an_address_that_others_reach_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, address: str, local: bool
) -> None:
    """What only this machine reaches answers to its own names alone; pages of other hosts cannot reach it."""
    book_of(tmp_path / "votes.sqlite")
    served = []
    monkeypatch.setattr(uvicorn, "run", lambda application, **options: served.append((application, options["host"])))
    outcome = CliRunner().invoke(annotate, ["--file", str(tmp_path / "votes.sqlite"), "--host", host])
    assert outcome.exit_code == 0, outcome.output
    assert ("anybody" not in outcome.output) == local
    assert f"http://{address}:8571/" in outcome.output
    ((application_of_book, at),) = served
    (trusted,) = [each for each in application_of_book.user_middleware if "allowed_hosts" in each.kwargs]
    assert at == host
    assert ("*" not in trusted.kwargs["allowed_hosts"]) == local
    assert {address, "localhost"} <= {*trusted.kwargs["allowed_hosts"]} or not local
