"""Leaderboards for the tests of exports: one with every kind of mark, and one whose texts are markup and formulas."""

from tests.leaderboard import contested

from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value

EVIL = (
    '=HYPERLINK("http://evil.test") </table> \\end{table}\\input{/etc/passwd} %$#_^~{}& `x` [a](http://b.test) '
    '| "]) #panic() *x* __y__ $z$ --- @ <script> ::error::'
)
"""A text that acts in HTML, LaTeX, Markdown, Typst, spreadsheets and logs unless it is escaped."""


def sample_leaderboard(**changes: object) -> Leaderboard:
    """Return a leaderboard that the policy ranks: see `tests.leaderboard.contested`."""
    report = contested.report()
    facts: dict[str, object] = {
        "track": "acme/contest",
        "title": "Contest",
        "measures": "",
        "profile": "p",
        "seed": 0,
        "limit": 12,
        "command": "harness run",
        "finished": "2026-01-02T03:04:05+00:00",
        "missing": (),
        "tasks_done": 7,
        "tasks_failed": 0,
        "tasks_missing": 0,
        "tables": report.tables,
        "rankings": report.rankings,
        "versions": {},
        "sources": "0" * 64,
    }
    return Leaderboard(**(facts | changes))


def evil() -> Leaderboard:
    """Return a leaderboard whose texts are `EVIL`; labels of rows begin with signs that act at the start of a cell."""
    columns = (
        ColumnSpec(key="d", label=EVIL, description=EVIL, better="lower"),
        ColumnSpec(key="e", label="second", description="", better="higher", decimals=2),
    )
    rows = tuple(
        Row(
            label=f"{lead}{EVIL}",
            values={"d": Value(value=-1.25, low=-2.0, high=0.0, n=3), "e": Value(missing=EVIL)},
            facets={EVIL: f"{lead}{i}"},
        )
        for i, lead in enumerate(["", "", "[x]", "*", "-", "+", "@", "\t", "＝", "--", "a\nb"])
    )
    table = Table(
        id="m]a/i\\n", title=EVIL, caption=EVIL, entry=EVIL, columns=columns, rows=rows, ranked_by="d", note=EVIL
    )
    return sample_leaderboard(title=EVIL, tables=(table,), rankings=(), tasks_failed=1)
