"""Whose votes count, and what a person is asked next; kept in memory, so that no page has to read all votes."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

FIRST = 2
"""Decoys of each truth that a person answers before anything else."""
ORDERS = 1000
"""The number of people whose order of questions is remembered."""


@dataclass(frozen=True)
class Item:
    """What the order of questions needs to know of one. `originals`: those it shows; a person judges each only once."""

    originals: frozenset[str]
    truth: str
    decoy: bool
    choices: tuple[str, ...]
    has_left: bool
    has_reference: bool = False
    training: bool = False


class Turns:
    """The questions and votes of a book; `votes` are (item, annotator, answer).

    `each`: the most questions that a person is asked, decoys and training apart; 0: all.
    """

    def __init__(
        self,
        items: Mapping[int, Item],
        needed: int,
        cutoff: float,
        votes: Iterable[tuple[int, str, str]],
        each: int = 0,
    ) -> None:
        self.items = items
        self._needed, self._cutoff, self._each = needed, cutoff, each
        self._decoys = {number: item.truth for number, item in items.items() if item.decoy and not item.training}
        self._training = [number for number, item in items.items() if item.training]
        self._answers: dict[str, dict[int, str]] = defaultdict(dict)
        for number, annotator, answer in votes:
            self._answers[annotator][number] = answer
        self._counted: Counter[int] = Counter()
        for annotator in self._answers:
            self._count(annotator, 1)
        self._order = lru_cache(ORDERS)(self._ordered)
        self._latest: tuple[str | None, list[int]] = (None, [])

    def change(self, annotator: str, number: int, answer: str | None) -> None:
        """Take note of an answer that was written, or taken back (None)."""
        self._latest = (None, [])
        self._count(annotator, -1)
        if answer is None:
            self._answers[annotator].pop(number, None)
        else:
            self._answers[annotator][number] = answer
        self._count(annotator, 1)

    def left_out(self) -> frozenset[str]:
        """Return the people who have not passed the decoys; their votes do not count.

        To pass, a person must have answered decoys of every truth that the book has decoys of, so that nobody passes
        with one answer to everything, and must have answered right as large a share as the cut-off. Without decoys
        nobody is left out.
        """
        return frozenset(who for who, answers in self._answers.items() if answers and self._fails(answers))

    def answered(self, annotator: str) -> int:
        """Return how many questions a person has answered."""
        return len(self._answers.get(annotator, ()))

    def ahead(self, annotator: str) -> list[int]:
        """Return the questions that this annotator will be asked, in their order.

        Training comes first, in the order of the book. Then there are decoys, and questions that still lack votes that
        count. Two decoys of each truth come first, and the others stand among the questions. Where a person is asked
        only some questions, they see all decoys. Of the reconstructions of one original, a person judges one, because
        the first helps to recognise the next; decoys use up no original.
        """
        if self._latest[0] != annotator:
            self._latest = annotator, self._open_questions(annotator)
        return self._latest[1]

    def _open_questions(self, annotator: str) -> list[int]:
        items, decoys, mine = self.items, self._decoys, self._answers.get(annotator, {})
        order, first = self._order(annotator)
        seen = {original for number in mine.keys() - decoys.keys() for original in items[number].originals}
        ahead = [number for number in first if number not in mine]
        apart, open_questions = {*first, *self._training}, False
        answered = len(mine.keys() - decoys.keys() - set(self._training))
        remaining = self._each - answered if self._each else len(items)
        further = []
        for number in order:
            if number in mine or number in apart:
                continue
            originals = items[number].originals
            if originals and not originals.isdisjoint(seen):
                continue
            if number in decoys:
                further.append(number)
            elif self._counted[number] < self._needed and remaining > 0:
                further.append(number)
                seen |= originals
                open_questions, remaining = True, remaining - 1
        if not open_questions and not (self._each and answered):
            return []
        if self._each:
            further.sort(key=lambda number: _drawn(f"{annotator}\x1famong", number))
        return [*(number for number in self._training if number not in mine), *ahead, *further]

    def _ordered(self, annotator: str) -> tuple[list[int], list[int]]:
        """Return all questions in an annotator's own order, and the decoys that come before them."""
        order = sorted(self.items, key=lambda number: _drawn(annotator, number))
        grouped: dict[str, list[int]] = defaultdict(list)
        for number in order:
            if number in self._decoys:
                grouped[self._decoys[number]].append(number)
        first = {number for numbers in grouped.values() for number in numbers[:FIRST]}
        return order, [number for number in order if number in first]

    def _count(self, annotator: str, by: int) -> None:
        answers = self._answers.get(annotator, {})
        if not self._fails(answers):
            for number in answers:
                self._counted[number] += by

    def _fails(self, answers: Mapping[int, str]) -> bool:
        seen_decoys = [number for number in answers if number in self._decoys]
        if {self._decoys[number] for number in seen_decoys} != set(self._decoys.values()):
            return True
        right = sum(answers[number] == self._decoys[number] for number in seen_decoys)
        return bool(seen_decoys) and right / len(seen_decoys) < self._cutoff


def _drawn(who: str, number: int) -> bytes:
    """Return by what a person's order of questions is sorted."""
    return hashlib.sha256(f"{who}\x1f{number}".encode()).digest()
