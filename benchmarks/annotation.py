"""Two hundred people judge for five minutes on one server: requests per second, waiting times, errors, lost votes.

A judge is a thread that behaves as a browser does: it loads the page, both images, thinks for one to five seconds and
answers; at times it answers twice, as by a double click, or takes an answer back. What the server acknowledged is then
compared with its file.
"""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from benchmarks.timing import Line
from imharness_annotation.book import Book, Question
from imharness_annotation.sources import LEFT, RIGHT, png

JUDGES, SECONDS, QUESTIONS, VOTES = 200, 300.0, 2000, 20
THINKING_S = (1.0, 5.0)
SIDE = 128
"""Height and width of the images, px."""
TWICE, BACK, RIGHTLY = 0.03, 0.02, 0.95
"""Shares of answers that are sent twice, that are taken back, and that are right for decoys."""
P99_MS = 250.0
TOKEN = re.compile(r'name="token" value="([^"]+)"')
ITEM = re.compile(r'name="item" value="(\d+)"')


@dataclass
class Load:
    """What judges saw: seconds of every request, errors, and the votes that the server acknowledged."""

    waits: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    acknowledged: dict[tuple[str, str], str] = field(default_factory=dict)
    uncertain: set[tuple[str, str]] = field(default_factory=set)
    """Votes whose request got no answer; they may be in the file or not."""
    seconds: float = 0.0


def lines() -> list[Line]:
    """Return requests per second, waiting times, errors, and votes that are lost or there twice."""
    with tempfile.TemporaryDirectory() as folder:
        file = filled(Path(folder) / "votes.sqlite", QUESTIONS, VOTES)
        load = judged(file, JUDGES, SECONDS)
        wrong = differences(load, file)
    p50, p99 = np.percentile(np.array(load.waits), (50, 99)) * 1000
    who = f"{JUDGES} judges for {load.seconds:.0f} s, {len(load.acknowledged):,} votes on {QUESTIONS:,} questions"
    return [
        Line(f"{who}: requests per second", f"{len(load.waits) / load.seconds:.0f}", "> 0", bool(load.waits)),
        Line("waiting time, p50", f"{p50:.1f} ms", "", True),
        Line("waiting time, p99", f"{p99:.1f} ms", f"<= {P99_MS:g} ms", p99 <= P99_MS),
        Line("errors", f"{len(load.errors)} {load.errors[:1] or ''}", "0", not load.errors),
        Line("votes lost, changed or there twice", f"{len(wrong)}", "0", not wrong),
    ]


def filled(file: Path, questions: int, votes: int) -> Path:
    """Return a file that asks which of two images is better; one question in ten is a decoy."""
    rng = np.random.default_rng(0)
    images = [png(rng.integers(0, 255, (3, SIDE, SIDE), dtype=np.uint8)) for _ in range(20)]
    question_list = [
        Question(
            f"q{i}",
            {"dataset": "d", "attack": "a", "metric": "m", "name": f"n{i}", "left": "x", "right": "y"},
            (LEFT, RIGHT),
            LEFT if i % 10 == 0 else "",
            i % 10 == 0,
            images[i % 20],
            images[(i + 7) % 20],
        )
        for i in range(questions)
    ]
    Book(file).fill("better", votes, question_list)
    return file


def judged(file: Path, judges: int, seconds: float) -> Load:
    """Serve a file, and let judges answer for so many seconds, each in a thread of its own."""
    load = Load()
    with _served(file) as port:
        start = time.perf_counter()
        people = [threading.Thread(target=_judge, args=(port, n, start + seconds, load)) for n in range(judges)]
        for person in people:
            person.start()
        for person in people:
            person.join()
        load.seconds = time.perf_counter() - start
    return load


def differences(load: Load, file: Path) -> list[str]:
    """Return the votes that the file lacks, has twice, or has otherwise than the server acknowledged them."""
    votes = Book(file).votes()
    stored = {(vote.annotator, vote.key): vote.answer for vote in votes}
    wrong = [f"{who} {key} is there twice" for who, key in stored if len(votes) > len(stored)]
    for vote in stored.keys() | load.acknowledged.keys():
        if vote not in load.uncertain and stored.get(vote) != load.acknowledged.get(vote):
            wrong.append(f"{vote} is {stored.get(vote)} and not {load.acknowledged.get(vote)}")
    return wrong


@contextmanager
def _served(file: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-c", "from imharness.cli import main; main()", "annotate"]
    server = subprocess.Popen([*command, "--file", str(file), "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        server.wait()


class _Browser:
    """One connection that is kept, with its cookie; every request is timed."""

    def __init__(self, port: int, load: Load) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)
        self._load = load
        self._cookie = ""

    def get(self, path: str) -> str:
        return self._ask("GET", path)

    def post(self, path: str, **form: str) -> str:
        return self._ask("POST", path, urlencode(form))

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: str | None = None) -> str:
        headers = {"Cookie": self._cookie} | ({"Content-Type": "application/x-www-form-urlencoded"} if body else {})
        start = time.perf_counter()
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        self._load.waits.append(time.perf_counter() - start)
        self._cookie = answer.getheader("Set-Cookie", self._cookie).partition(";")[0]
        if answer.status not in (200, 303):
            raise HTTPException(f"{method} {path}: {answer.status}")
        return text.decode(errors="replace")


def _judge(port: int, number: int, end: float, load: Load) -> None:
    """Judge until the end, as one person; most answers are right, so that the votes count."""
    rng, name = random.Random(number), f"judge {number}"
    time.sleep(rng.uniform(0, THINKING_S[1]))
    browser, token = _Browser(port, load), ""
    while time.perf_counter() < end:
        try:
            if not token:
                token = _found(TOKEN, browser.get("/"))
                browser.post("/enter", name=name, token=token)
            item = _found(ITEM, browser.get("/judge"))
            for side in (LEFT, RIGHT):
                browser.get(f"/image/{item}/{side}")
            time.sleep(rng.uniform(*THINKING_S))
            vote, answer = (name, f"q{int(item) - 1}"), LEFT if rng.random() < RIGHTLY else RIGHT
            load.uncertain.add(vote)
            for _ in range(2 if rng.random() < TWICE else 1):
                browser.post("/vote", token=token, item=item, answer=answer)
            load.acknowledged[vote] = answer
            if rng.random() < BACK:
                browser.post("/undo", token=token)
                del load.acknowledged[vote]
            load.uncertain.discard(vote)
        except (OSError, HTTPException) as error:
            load.errors.append(f"{type(error).__name__}: {error}")
            browser.close()
    browser.close()


def _found(pattern: re.Pattern[str], page: str) -> str:
    """Return what a page holds; raises `HTTPException`."""
    match = pattern.search(page)
    if match is None:
        raise HTTPException(f"the page has no {pattern.pattern}")
    return match[1]
