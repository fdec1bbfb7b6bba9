"""Variables are named by the noun that is meant: sixteen words that fit anything are refused, and so is "board"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("core", "plugins", "leaderboard", "submissions", "tests", "benchmarks", "docs", ".ci")
WORDS = {
    "found", "own", "told", "said", "asked", "given", "known", "held",
    "place", "part", "parts", "shown", "made", "work", "kept", "left",
    "board", "boards",
}  # fmt: skip
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def bound(tree: ast.AST, in_class: bool = False) -> Iterator[tuple[str, int]]:
    """Yield the names of variables and parameters below a node; fields of classes are names of columns, too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and not in_class:
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno
        yield from bound(node, isinstance(node, ast.ClassDef) or (in_class and not isinstance(node, FUNCTIONS)))


def test_no_variable_has_a_name_that_fits_anything() -> None:
    files = [file for folder in PLACES for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 900
    vague = [
        f"{file.relative_to(ROOT)}:{line} {name}"
        for file in files
        for name, line in bound(ast.parse(file.read_bytes()))
        if name in WORDS
    ]
    assert vague == []


def bound_in_script(text: str) -> set[str]:
    """Return the names that a script binds, and those of parameters of functions."""
    code = re.sub(r"^ *(//|/?\*).*$", "", text, flags=re.MULTILINE)
    lists = re.findall(r"\b(?:const|let) ([^;]*?)(?: of |;)", code)
    names = {name for each in lists for name in re.findall(r"(\w+) *(?:=(?!>)|$)|[\[{,:] *(\w+) *(?=[,}\]])", each)}
    arrows = re.findall(r"(\w+) *=>", code) + re.findall(r"\(([^()]*)\) *(?:=>|\{)", code)
    return {word for pair in names for word in pair} | {word for each in arrows for word in re.findall(r"\w+", each)}


def test_no_variable_of_a_script_of_the_site_has_such_a_name() -> None:
    files = sorted((ROOT / "leaderboard/imharness_leaderboard/static").glob("*.js"))
    assert len(files) > 10
    vague = {file.name: bound_in_script(file.read_text(encoding="utf-8")) & WORDS for file in files}
    assert {name: words for name, words in vague.items() if words} == {}
    text = "const found = 1, { own } = f;\nlet said;\nfor (const [key, told] of x) y.map((kept) => kept);\nf(made) {}"
    assert bound_in_script(text) & WORDS == {"found", "own", "said", "told", "kept", "made"}


def bound_in_template(text: str) -> set[str]:
    """Return the names that a template of a page binds: in loops and assignments, and the parameters of its macros."""
    lists = re.findall(r"{%-? *(?:set|for) +([^=%]*?) *(?:=| in )", text) + re.findall(
        r"{%-? *macro \w+\(([^)]*)\)", text
    )
    return {word for names in lists for word in re.findall(r"(?<![\w.=])(\w+)", names)}


def test_no_variable_of_a_template_has_such_a_name() -> None:
    files = [
        file for folder in ("core", "plugins", "leaderboard") for file in (ROOT / folder).rglob("templates/*.html")
    ]
    assert len(files) > 30
    vague = {file.name: bound_in_template(file.read_text(encoding="utf-8")) & WORDS for file in files}
    assert {name: words for name, words in vague.items() if words} == {}
    text = "{% for key, found in a if own %}{% set told, ns.said = f(kept=1) %}{% macro m(shown, level=3) %}{{ held }}"
    assert bound_in_template(text) & WORDS == {"found", "told", "shown"}


def test_every_way_to_bind_a_name_is_seen() -> None:
    text = """
def f(own, *given, **kept):
    for found in own:
        with open(found) as held: pass
    (told, *said), asked = 1, 2
    try: pass
    except E as known: pass
    match own:
        case [place, *parts]: pass
    return [part for part in parts if (work := part)], lambda left, *board, **boards: left
class C:
    shown: int = 0
"""
    assert {name for name, _ in bound(ast.parse(text))} == WORDS - {"shown", "made"}
