"""Work in a process of its own: what ends its process, or hangs, has no answer, and the other items have theirs."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from imharness.running.aside import each_aside


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
