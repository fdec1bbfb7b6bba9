"""The page for judging in a real browser: two people, a server that is killed, timed patches, and forged votes."""

import itertools
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import uvicorn
from playwright.sync_api import Browser, Page, expect
from tests.conftest import PATIENT_MS

from imharness.components.registry import installed
from imharness_annotation.app import application
from imharness_annotation.book import Book, Question
from imharness_annotation.patches import noticeable_questions
from imharness_annotation.sources import NONE, better_questions, png

CHOICES = ("brick <b>", "camera", "coins", NONE)


def book_of(file: Path, count: int = 4, votes: int = 2) -> Book:
    """Return a book of questions, all with the right answer "camera", each of which needs so many votes."""
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
    """Serve a book by the command in a process, which is killed at the end."""
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


@contextmanager
def served_here(file: Path) -> Iterator[int]:
    """Serve a book from a thread and yield the port; a process, as the command has, takes a second to start."""
    settings = uvicorn.Config(application(Book(file), ["127.0.0.1"]), port=0, log_level="warning", server_header=False)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


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
    page.wait_for_load_state("load")  # the script that listens for keys is loaded
    page.keyboard.press(key)


def judged(page: Page) -> str:
    return str(page.text_content("#count"))


def test_two_annotators_click_through_a_session_that_survives_a_kill(
    tmp_path: Path, port: int, browser: Browser
) -> None:
    file = tmp_path / "a.sqlite"
    book = book_of(file)
    people = {name: browser.new_context().new_page() for name in ("Ann", "Bob <script>")}
    with served(file, port) as server:
        maps = Path(f"/proc/{server.pid}/maps")
        assert not maps.exists() or "libtorch" not in maps.read_text(), "serving questions needs no torch"
        for name, page in people.items():
            page.set_default_timeout(PATIENT_MS)
            enter(page, port, name)
            assert judged(page) == "0 of 4"
        ann, bob = people.values()
        renamed = ann.context.request.get(f"http://127.0.0.1:{port}/judge", headers={"Host": "evil.example"})
        assert renamed.status == 400, "the command serves its own names alone"
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


def test_two_patches_are_shown_for_a_second_each_with_a_gap_between(tmp_path: Path, browser: Browser) -> None:
    """LPIPS, section 2.2: 1 second for each patch, 250 ms between; nobody can answer before."""
    file = tmp_path / "j.sqlite"
    images = installed().one("dataset", "thumbnails[size=72,per_photograph=1]").build(torch.device("cpu"))
    book = Book(file)
    book.fill("jnd", 1, noticeable_questions(images, 3), each=160)
    watch = """
        window.seen = [];
        addEventListener("DOMContentLoaded", () => new MutationObserver((changes) => {
            for (const change of changes) window.seen.push([performance.now(), change.target.className]);
        }).observe(document.querySelector(".timed"), {subtree: true, attributeFilter: ["class"]}));
    """
    with served_here(file) as port:
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENT_MS)
        enter(page, port, "Ann")
        page.add_init_script(watch)
        page.reload()
        answers = page.locator(".answers button")
        assert answers.first.is_disabled()
        assert page.locator("#undo").count() == 0
        page.wait_for_selector(".answers button:not(:disabled)")
        times, classes = zip(*page.evaluate("window.seen"), strict=True)
        assert classes == ("now", "", "now", "")
        first_patch, gap, again = (later - earlier for earlier, later in itertools.pairwise(times))
        for measured, meant in ((first_patch, 1000), (gap, 250), (again, 1000)):
            assert meant - 5 <= measured < meant + 400
        assert not page.locator("figure img").first.is_visible()
        page.locator(".answers button").first.click()
        note = page.locator("#told")
        expect(note).to_be_visible()
        (vote,) = book.votes()
        assert vote.training
        assert f"right answer was “{vote.truth}”, and yours was “{vote.answer}”" in note.inner_text()


def test_the_original_stands_beside_two_defended_images(tmp_path: Path, browser: Browser) -> None:
    file, clean = tmp_path / "b.sqlite", torch.rand(1, 3, 24, 24)
    Book(file).fill("better", 1, better_questions({"dataset": "d"}, {"a": clean, "b": clean / 2}, clean, ["x"]))
    with served_here(file) as port:
        page = browser.new_context().new_page()
        page.set_default_timeout(PATIENT_MS)
        enter(page, port, "Ann")
        assert page.locator("figcaption").all_inner_texts() == ["Original", "Left", "Right"]
        page.wait_for_load_state("load")
        assert page.locator("img").evaluate_all("all => all.map(i => i.naturalWidth)") == [24, 24, 24]
        assert "closer to the original" in page.inner_text("h1")


def test_another_page_cannot_vote(tmp_path: Path, browser: Browser) -> None:
    file = tmp_path / "a.sqlite"
    book = book_of(file)
    with served_here(file) as port:
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
    report = json.loads(result.stdout)
    assert report["votes"] == 4
    assert report["fleiss_kappa"] == pytest.approx(1.0)
    assert (report["judged"], report["recognised"]) == (2, 1)
