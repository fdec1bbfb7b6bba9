"""Two people judge in a real browser; the server is killed in between, and nothing is lost."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect
from tests.conftest import PATIENT_MS

from imharness_annotation.book import Book, Question
from imharness_annotation.sources import NONE, png

CHOICES = ("brick <b>", "camera", "coins", NONE)


def book_of(file: Path, count: int = 4, votes: int = 2) -> Book:
    book = Book(file)
    rng = np.random.default_rng(0)
    questions = [
        Question(
            key=f"q{i}",
            facts={"dataset": "d", "attack": "a", "model": "m", "defense": f"g{i}", "name": f"n{i}"},
            choices=CHOICES,
            truth="camera",
            decoy=False,
            left=None,
            right=png(rng.integers(0, 255, (3, 32, 32), dtype=np.uint8)),
        )
        for i in range(count)
    ]
    assert book.fill("class", votes, questions) == count
    return book


@contextmanager
def served(file: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "from imharness.cli import main; main()", "annotate", "--file", str(file)]
    server = subprocess.Popen([*command, "--port", str(port)])
    for _ in range(1200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60)
            break
        except OSError:
            time.sleep(0.1)
    try:
        yield server
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def enter(page: Page, port: int, name: str) -> None:
    page.goto(f"http://127.0.0.1:{port}/")
    page.fill("#name", name)
    page.press("#name", "Enter")
    page.wait_for_selector("#count")


def press(page: Page, key: str) -> None:
    page.wait_for_load_state("load")  # the script that hears keys is there
    page.keyboard.press(key)


def judged(page: Page) -> str:
    return str(page.text_content("#count"))


def test_two_annotators_click_through_a_session_that_survives_a_kill(
    tmp_path: Path, port: int, browser: Browser
) -> None:
    file = tmp_path / "a.sqlite"
    book = book_of(file)
    people = {name: browser.new_context().new_page() for name in ("Ann", "Bob <script>")}
    with served(file, port):
        for name, page in people.items():
            page.set_default_timeout(PATIENT_MS)
            enter(page, port, name)
            assert judged(page) == "0 of 4"
        ann, bob = people.values()
        assert bob.text_content("header span") == "Bob <script>"
        assert ann.locator("img").evaluate("image => image.naturalWidth") == 32
        ann.get_by_role("button", name="camera").click()
        expect(ann.locator("#count")).to_have_text("1 of 4")
        press(bob, "2")
        expect(bob.locator("#count")).to_have_text("1 of 4")
        press(bob, "u")
        expect(bob.locator("#count")).to_have_text("0 of 4")
        press(bob, "1")
        expect(bob.locator("#count")).to_have_text("1 of 4")
    assert [(v.annotator, v.answer) for v in book.votes()] == [("Ann", "camera"), ("Bob <script>", "brick <b>")]
    with served(file, port):
        ann.goto(f"http://127.0.0.1:{port}/judge")
        assert judged(ann) == "1 of 4"
        for done in (2, 3):
            press(ann, "2")
            expect(ann.locator("#count")).to_have_text(f"{done} of 4")
        ann.get_by_role("button", name=NONE).click()
        ann.wait_for_selector("text=All judged")
    assert len(book.votes()) == 5


def test_another_page_cannot_vote(tmp_path: Path, port: int, browser: Browser) -> None:
    file = tmp_path / "a.sqlite"
    book = book_of(file)
    with served(file, port):
        context = browser.new_context()
        page = context.new_page()
        enter(page, port, "Ann")
        forged = context.request.post(
            f"http://127.0.0.1:{port}/vote", form={"token": "guess", "item": "1", "answer": "camera"}
        )
        assert forged.status == 403
        renamed = context.request.get(f"http://127.0.0.1:{port}/judge", headers={"Host": "evil.example"})
        assert renamed.status == 400
        token = page.get_attribute(".answers input[name=token]", "value")
        unknown = context.request.post(
            f"http://127.0.0.1:{port}/vote", form={"token": str(token), "item": "1", "answer": "anything"}
        )
        assert unknown.status == 400
    assert book.votes() == []


def test_the_report_counts_what_was_said(tmp_path: Path, harness_here) -> None:
    file = tmp_path / "a.sqlite"
    book = book_of(file, count=2)
    for name in ("Ann", "Bob"):
        for item in (1, 2):
            book.vote(item, name, "camera" if item == 1 else "coins")
    assert book.following("Cleo") is None
    result = harness_here("annotate", "report", "--json", "--file", str(file), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["votes"] == 4
    assert found["fleiss_kappa"] == pytest.approx(1.0)
    assert (found["judged"], found["recognised"]) == (2, 1)
