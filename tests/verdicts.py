"""Finds contradictions in what a ranking says of two entries: one difference has the same verdict everywhere."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from imharness.cli.standings import names_in
from imharness.documents.comparisons import Comparison
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.naming import in_names
from imharness.documents.pairwise import pairwise_intervals
from imharness.documents.rankings import Place, Ranking
from imharness.documents.report import TrackReport
from imharness.documents.stored import read_leaderboard, read_numbers
from imharness.documents.tables import Row, Table
from imharness.exports.dataset import rankings_of
from imharness.exports.sheets import sheet_of
from imharness.ranking.leaderboard import PUBLIC
from imharness.results.store import Store
from imharness.statistics.differences import Differences

Paired = tuple[Comparison, np.ndarray]
LONGEST = 20
"""The most words of a headline."""


def of_report(report: TrackReport) -> list[str]:
    """Return the contradictions in all rankings of a report, each with the table of its ranking."""
    stored = {paired.id: paired.stored() for paired in report.comparisons}
    return list(_of(report.rankings, report.tables, stored))


def of_leaderboard(store: Store, track: str) -> list[str]:
    """Return the contradictions in all rankings of the leaderboard that a store has of a track."""
    leaderboard = read_leaderboard(store, track)
    assert leaderboard is not None
    numbers = read_numbers(store, leaderboard)
    stored = {index.id: (index, numbers[index.id]) for index in leaderboard.comparisons}
    return list(_of(leaderboard.rankings, leaderboard.tables, stored))


def _of(rankings: Sequence[Ranking], tables: Sequence[Table], stored: Mapping[str, Paired]) -> Iterator[str]:
    by_id = {table.id: table for table in tables}
    for ranking in rankings:
        index, numbers = stored[ranking.comparison]
        pairs = pairwise_intervals(index, numbers)
        for line in contradictions(ranking, by_id[ranking.table], pairs, index.entries):
            yield f"{ranking.table}: {line}"
        for label in by_id[ranking.table].not_worse.get(index.column, ()) if ranking.winner else ():
            if ranking.stated(ranking.winner, label) == ranking.winner:
                yield f"{ranking.table}: {label}: has a star, and is shown to be worse than the winner"


def contradictions(ranking: Ranking, table: Table, pairs: Differences, entries: tuple[str, ...]) -> Iterator[str]:
    rows = {row.label: row for row in table.rows}
    at = {label: i for i, label in enumerate(entries)}
    for label, position in ranking.places.items():
        for line in (
            *_of_best(ranking, label, position, rows[label]),
            *_of_none(ranking, label, position, rows[label]),
            *_of_pairs(ranking, label, position, pairs, at),
            *_of_sentences(ranking, label, position),
            *_of_entry(ranking, label, position, rows[label]),
        ):
            yield f"{label}: {line}"
    yield from _of_headline(ranking, table)


def _of_best(ranking: Ranking, label: str, position: Place, row: Row) -> Iterator[str]:
    """Yield contradictions about who may be best, ranks, the distance to the first, and the winner."""
    rank, behind = row.values["rank"], row.values["behind"]
    if (label in ranking.may_be_best or label == ranking.first) and not position.eligible:
        yield "may be best, and cannot win"
    if label in ranking.may_be_best:
        if rank.low not in (None, 1):
            yield f"may be best, and its rank is {rank.low} at least"
        if position.against is not None and position.against.verdict == "worse":
            yield "may be best, and is worse than no defense"
        if ranking.winner and label != ranking.winner:
            yield "may be best beside a winner"
    if label == ranking.winner:
        if (rank.value, rank.low or 1, rank.high or 1) != (1, 1, 1):
            yield f"wins, and its rank is {rank.value} [{rank.low}, {rank.high}]"
        if position.against is not None and position.against.verdict != "better":
            yield "wins, and is not said to be better than no defense"
    elif ranking.winner and rank.low == 1:
        yield "another one wins, and its rank may be 1"
    if label in ranking.not_behind and ranking.winner:
        yield "is not separated from a winner"
    if label in ranking.not_behind and not position.control and rank.low not in (None, 1) and position.eligible:
        yield "is not separated from the first, and its rank excludes 1"
    if rank.low == 1 and behind.low is not None and behind.low > 0:
        yield "its rank may be 1, and it is shown to be behind"


def _of_none(ranking: Ranking, label: str, position: Place, row: Row) -> Iterator[str]:
    """Yield contradictions about the verdict against no defense: its interval, the column and the comparison."""
    against = position.against
    if against is None:
        return
    low, high = against.low, against.high
    if low is not None and high is not None:
        agrees = {"better": low >= 0 and high > 0, "worse": high <= 0 and low < 0, "undecided": low <= 0 <= high}
        if not agrees[against.verdict]:
            yield f"is {against.verdict} with an interval of [{low}, {high}]"
        ends = sorted((abs(low), abs(high)))
        gain = row.values["gain"]
        if gain.low is None or gain.high is None or sorted((abs(gain.low), abs(gain.high))) != ends:
            yield "the column and the ranking have different intervals against no defense"
    if against.verdict == "better" and against.value <= 0:
        yield "is better, and not ahead"
    if ranking.stated(label, ranking.baseline) != {"better": label, "worse": ranking.baseline}.get(against.verdict, ""):
        yield "a comparison of the two says something else"


def _of_pairs(ranking: Ranking, label: str, position: Place, pairs: Differences, at: dict[str, int]) -> Iterator[str]:
    """Yield contradictions between a verdict and the differences of all pairs, which a reader of two entries sees."""
    for other in at:
        stated = ranking.stated(label, other)
        if label not in at or other == label or stated is None:
            continue
        i, j = at[label], at[other]
        better = label if pairs.better[i, j] else other if pairs.better[j, i] else stated
        if better != stated:
            yield f"all pairs show that {better} is better than {label if better == other else other}, not {stated!r}"


def _of_sentences(ranking: Ranking, label: str, position: Place) -> Iterator[str]:
    """Yield contradictions between the sentences about an entry and its verdict and intervals."""
    kinds = {
        finding.kind: finding
        for finding in ranking.findings
        if finding.entry == label and (finding.kind != "worse" or ranking.baseline in finding.against)
    }
    verdict = position.against.verdict if position.against is not None else ""
    for kind, word in (("better", "better"), ("worse", "worse"), ("undecided", "undecided")):
        silent = kind == "better" and bool(position.flags)
        if (kind in kinds) != (verdict == word) and not silent:
            yield f"a sentence {'says' if kind in kinds else 'does not say'} {kind}, the verdict is {verdict}"
    for finding in ranking.findings:
        if finding.entry != label or finding.kind in ("may be best", "broken"):
            continue
        ends = [(n.low, n.high) for n in (*finding.against.values(), *finding.facts.values()) if n.low is not None]
        holds = [low <= 0 <= high for low, high in ends if high is not None]
        if finding.tier == "open" and not all(holds):
            yield f"what is open has an interval without 0: {finding.text}"
        if finding.tier != "open" and any(low < 0 < high for low, high in ends if high is not None):
            yield f"what is {finding.tier} has an interval with 0: {finding.text}"


def _of_entry(ranking: Ranking, label: str, position: Place, row: Row) -> Iterator[str]:
    """Yield contradictions in the headline of an entry: its verdict, its costs, its number and its length."""
    if bool(position.control) == bool(position.headline):
        yield f"its headline is {position.headline}"
    if position.control:
        return
    for text in (line.replace(f" ({PUBLIC})", "") for line in position.headline):
        if len(text.split()) > LONGEST + 10 * ("threshold" in text or "settings that count" in text):
            yield f"its headline has {len(text.split())} words: {text}"
    text, verdict = " ".join(position.headline), position.against.verdict if position.against else ""
    if position.complete and (number := row.values["worst"].value) is not None:
        if not any(f"{scale * number:.{d}f}" in text for d in (1, 2) for scale in (1, 100)):
            yield f"its headline lacks its number: {text}"
        if (
            not position.able
            and position.gate != "not measured"
            and not position.flags
            and "costs too much" not in text
        ):
            yield f"its headline does not say what bars it: {text}"
    for word in ("better", "worse"):
        if f"is {word} than" in text and verdict != word:
            yield f"its headline says {word}, the verdict is {verdict!r}"
    if "looks strong" in text and verdict == "better" and not (position.broken and position.broken.attack):
        yield f"its headline doubts what is shown: {text}"


def _of_headline(ranking: Ranking, table: Table) -> Iterator[str]:
    """Yield contradictions in the headline of a ranking: its outcome, bound, numbers and length."""
    able = [position for position in ranking.places.values() if position.eligible]
    if (ranking.outcome == "winner") != bool(ranking.winner):
        yield f"the headline says {ranking.outcome}, the winner is {ranking.winner!r}"
    best = [ranking.places[label].against for label in ranking.may_be_best]
    if ranking.outcome == "bound" and any(against is not None and against.verdict == "better" for against in best):
        yield "the headline gives a bound, and one that may be best is better than no defense"
    worst = {row.label: row.values["worst"].value for row in table.rows}
    column = next(column for column in table.columns if column.key == "worst")
    scale, plain = 100 if "%" in ranking.claim and column.limits == (0.0, 1.0) else 1, worst.get(ranking.baseline)
    if ranking.outcome == "bound" and (number := re.search(r"more than ([\d.]*\d)", ranking.claim)):
        ends = [position.against.high for position in able if position.against is not None]
        most = max((end for end in ends if end is not None), default=0.0)
        if plain is not None and column.limits is not None:
            most = min(most, column.limits[1] - plain if column.better == "higher" else plain - column.limits[0])
        if scale * most > float(number[1]) * (1 + 1e-6):
            yield f"the bound {number[1]} is less than the end of an interval, {scale * most}"
    words = ranking.claim.replace(f" ({PUBLIC})", "").split()
    if not words or len(words) > LONGEST:
        yield f"the headline has {len(words)} words"

    def named(*labels: str) -> bool:
        numbers = [scale * number for label in labels if (number := worst.get(label)) is not None]
        return not numbers or any(f"{number:.{d}f}" in ranking.claim for number in numbers for d in (1, 2))

    plain_place = ranking.places.get(ranking.baseline)
    lacks_none = plain_place is not None and not plain_place.complete
    if lacks_none and (ranking.winner or (ranking.outcome == "leader" and "is incomplete" not in ranking.claim)):
        yield f"the undefended entry is incomplete, and the headline does not say so: {ranking.claim}"
    if ranking.outcome in ("winner", "leader") and not (
        named(ranking.first, *ranking.may_be_best) and (lacks_none or named(ranking.baseline))
    ):
        yield f"the headline lacks a number: {ranking.claim}"
    if ranking.outcome == "worse" and not named(ranking.first):
        yield f"the headline lacks the number of the first: {ranking.claim}"


def in_words(leaderboard: Leaderboard, ranking: Ranking, texts: list[str]) -> list[str]:
    """Return what exports and the terminal say otherwise than the ranking. `texts`: what the terminal prints."""
    table = next(table for table in leaderboard.tables if table.id == ranking.table)
    claim, screen = in_names(ranking.claim, names_in(table)), " ".join(" ".join(texts).split())
    lines = [] if claim in screen else [f"no {claim!r} in the terminal"]
    marked = [text for text in texts if "WINNER" in text]
    if bool(marked) != bool(ranking.winner):
        lines.append(f"the terminal marks {marked}")
    for facts in rankings_of([leaderboard]).rows:
        if facts["table"] != ranking.table:
            continue
        position = ranking.places[str(facts["entry"])]
        verdict = position.against.verdict if position.against else ""
        exported = facts["winner"], facts["may_be_best"], facts["against"]
        wanted = facts["entry"] == ranking.winner, facts["entry"] in ranking.may_be_best, verdict
        if exported != wanted:
            lines.append(f"the export says {exported} of {facts['entry']}, the ranking {wanted}")
    sheet = sheet_of(table, leaderboard)
    if (sheet.claim, sheet.findings) != (ranking.claim, ranking.findings):
        lines.append("the exported sheet has another headline or other sentences")
    return lines
