"""Work in a process of its own: what ends its process, or hangs, has no answer, and the other items have theirs."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from imharness.running.aside import each_aside, in_copy


def work(facts: Mapping[str, Any]) -> Callable[[str], str]:
    def answer(item: str) -> str:
        if item == "ends":
            os._exit(3)
        if item == "hangs":
            time.sleep(600)
        return f"{facts['said']} {item}"

    return answer


def test_an_item_that_ends_its_process_or_hangs_takes_no_other_with_it() -> None:
    items = ["one", "ends", "two", "hangs", "three"]
    found = list(each_aside(f"{__name__}:work", {"said": "saw"}, items, limit_s=20))
    assert [answer.item for answer in found] == items
    assert [answer.found for answer in found] == ["saw one", None, "saw two", None, "saw three"]
    assert [answer.ended for answer in found] == ["", "the worker ended with code 3", "", "took longer than 20 s", ""]


def test_a_copy_of_the_process_answers_and_changes_nothing_here() -> None:
    seen = ["before"]

    def more() -> list[str]:
        seen.append("in the copy")
        return seen

    assert in_copy(more, limit_s=20).found == ["before", "in the copy"]
    assert seen == ["before"]


def test_a_copy_that_ends_or_hangs_has_no_answer() -> None:
    assert in_copy(lambda: os._exit(3), limit_s=20).ended == "the copy of the process ended"
    assert in_copy(lambda: time.sleep(600), limit_s=0.2).ended == "took longer than 0.2 s"
