"""Work in a process of its own: what ends its process, or hangs, has no answer, and the other items have theirs."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from imharness.running.subprocesses import each_aside, in_copies, in_copy


def answers_for(facts: Mapping[str, Any]) -> Callable[[str], str]:
    def answer(item: str) -> str:
        if item == "ends":
            os._exit(3)
        if item == "hangs":
            time.sleep(600)
        return f"{facts['verb']} {item}"

    return answer


def test_an_item_that_ends_its_process_or_hangs_takes_no_other_with_it() -> None:
    items = ["one", "ends", "two", "hangs", "three"]
    answers = list(each_aside(f"{__name__}:answers_for", {"verb": "saw"}, items, limit_s=20))
    assert [answer.item for answer in answers] == items
    assert [answer.result for answer in answers] == ["saw one", None, "saw two", None, "saw three"]
    assert [answer.ended for answer in answers] == ["", "the worker ended with code 3", "", "took longer than 20 s", ""]


def test_a_copy_of_the_process_answers_and_changes_nothing_here() -> None:
    seen = ["before"]

    def more() -> list[str]:
        seen.append("in the copy")
        return seen

    assert in_copy(more, limit_s=20).result == ["before", "in the copy"]
    assert seen == ["before"]


def test_a_copy_that_ends_or_hangs_has_no_answer() -> None:
    assert in_copy(lambda: os._exit(3), limit_s=20).ended == "the copy of the process ended"
    assert in_copy(lambda: time.sleep(600), limit_s=0.2).ended == "took longer than 0.2 s"


def test_copies_answer_each_item_and_no_more_of_them_run_at_once_than_there_are_workers() -> None:
    seen = ["before"]

    def act(item: str) -> tuple[list[str], float, float]:
        if item == "ends":
            os._exit(3)
        started = time.monotonic()
        seen.append(item)
        time.sleep(0.2)
        return seen, started, time.monotonic()

    answers = {answer.item: answer for answer in in_copies(act, ["one", "ends", "two", "three", "four"], workers=2)}
    assert answers.pop("ends").ended == "the copy of the process ended"
    assert {item: answer.result[0] for item, answer in answers.items()} == {item: ["before", item] for item in answers}
    times = [answer.result[1:] for answer in answers.values()]
    assert max(sum(a < end and b > start for a, b in times) for start, end in times) <= 3  # both, and one that begins
    assert len({start for start, _ in times}) == 4
    assert seen == ["before"]


def test_copies_end_when_nobody_asks_for_more(tmp_path: Path) -> None:
    def act(item: str) -> None:
        (tmp_path / item).write_text(str(os.getpid()))
        while item == "first" and not (tmp_path / "second").exists():
            time.sleep(0.02)
        time.sleep(0.3 if item == "first" else 600)

    answers = in_copies(act, ["first", "second"], workers=2)
    assert next(answers).item == "first"
    answers.close()
    for item in ("first", "second"):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / item).read_text()), 0)
