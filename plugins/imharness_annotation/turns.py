"""Decides whose votes count, and which question a person is asked next.

All votes are kept in memory, so that no page has to read them from the file.
"""

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
    """The facts of a question that decide when it is asked.

    Attributes:
        originals: the original images that it shows; a person judges each original only once. Empty: no such limit.
        truth: the right answer; "" if opinions are asked for.
        decoy: whether the question tests the person.
        choices: the possible answers.
        has_left: whether it shows a left image.
        has_reference: whether it shows a reference.
        training: whether it is for practice, and its votes never count.
    """

    originals: frozenset[str]
    truth: str
    decoy: bool
    choices: tuple[str, ...]
    has_left: bool
    has_reference: bool = False
    training: bool = False


class Turns:
    """The questions and votes of a book.

    Args:
        items: number of a question -> its facts.
        needed: the votes that a question needs.
        cutoff: the share of decoys that a person must answer right for their votes to count.
        votes: (number of the question, annotator, answer).
        each: the most questions that a person is asked, not counting decoys and training; 0: all.
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
        self._counted: Counter[int] = Counter()  # number of a question -> its votes by people who pass the decoys
        for annotator in self._answers:
            self._count(annotator, 1)
        self._order = lru_cache(ORDERS)(self._ordered)
        self._latest: tuple[str | None, list[int]] = (None, [])  # the last annotator of `ahead`, and what it returned

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
        """Compute what `ahead` returns.

        1. Of all questions in the person's own order, take each decoy, and each other question that lacks votes, shows
           no original that the person has judged, and is within the person's limit.
        2. If no question but decoys is open, the person is done: nothing is returned. A person with a limit who has
           answered a question still gets the remaining decoys.
        3. If people have a limit, shuffle decoys and questions, so that the decoys do not all come last.
        4. Put training first, then the first decoys.
        """
        items, decoys, answers = self.items, self._decoys, self._answers.get(annotator, {})
        order, first_decoys = self._order(annotator)
        seen = {original for number in answers.keys() - decoys.keys() for original in items[number].originals}
        asked_before = {*first_decoys, *self._training}
        answered = len(answers.keys() - decoys.keys() - set(self._training))
        remaining = self._each - answered if self._each else len(items)
        further, has_open_questions = [], False
        for number in order:
            if number in answers or number in asked_before:
                continue
            originals = items[number].originals
            if originals and not originals.isdisjoint(seen):
                continue
            if number in decoys:
                further.append(number)
            elif self._counted[number] < self._needed and remaining > 0:
                further.append(number)
                seen |= originals
                has_open_questions, remaining = True, remaining - 1
        if not has_open_questions and not (self._each and answered):
            return []
        if self._each:
            further.sort(key=lambda number: _drawn(f"{annotator}\x1famong", number))
        return [number for number in [*self._training, *first_decoys] if number not in answers] + further

    def _ordered(self, annotator: str) -> tuple[list[int], list[int]]:
        """Return all questions in an annotator's own order, and the decoys that come before them."""
        order = sorted(self.items, key=lambda number: _drawn(annotator, number))
        grouped: dict[str, list[int]] = defaultdict(list)
        for number in order:
            if number in self._decoys:
                grouped[self._decoys[number]].append(number)
        first = {number for numbers in grouped.values() for number in numbers[:FIRST]}
        return order, [number for number in order if number in first]

    def _count(self, annotator: str, sign: int) -> None:
        """Add the votes of a person to those that count (`sign` 1) or subtract them (-1), if the person passes."""
        answers = self._answers.get(annotator, {})
        if not self._fails(answers):
            for number in answers:
                self._counted[number] += sign

    def _fails(self, answers: Mapping[int, str]) -> bool:
        """Return whether a person with these answers has not passed the decoys, see `left_out`."""
        seen_decoys = [number for number in answers if number in self._decoys]
        if {self._decoys[number] for number in seen_decoys} != set(self._decoys.values()):
            return True
        right = sum(answers[number] == self._decoys[number] for number in seen_decoys)
        return bool(seen_decoys) and right / len(seen_decoys) < self._cutoff


def _drawn(who: str, number: int) -> bytes:
    """Return the sort key of a question in a person's own random order: a digest of both."""
    return hashlib.sha256(f"{who}\x1f{number}".encode()).digest()
