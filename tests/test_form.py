"""The form of the code: the formatter lays out everything but tables of data."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (".ci", "benchmarks", "core", "docs", "leaderboard", "plugins", "submissions", "tests")
MARK = "# fmt: " + "skip"
MOST = 40
"""The most tables of data that may keep the layout of their author."""
DATA = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.Constant, ast.UnaryOp, ast.USub, ast.BinOp, ast.operator, ast.Load)


def is_data(node: ast.AST) -> bool:
    """Say whether an expression is a literal: nothing in it is looked up, and only numbers are computed."""
    return all(isinstance(item, DATA) for item in ast.walk(node))


def tables(source: str) -> set[int]:
    """Return the last lines of assignments whose value is a literal, or a set or dict made of one."""
    lines = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            value = node.value.args[0] if isinstance(node.value, ast.Call) and node.value.args else node.value
            if is_data(value):
                lines.add(node.end_lineno or 0)
    return lines


def marked(source: str) -> set[int]:
    return {number for number, line in enumerate(source.splitlines(), 1) if line.endswith(MARK)}


def test_only_tables_of_data_keep_a_layout_of_their_own() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 900
    lines = {file: marked(file.read_text(encoding="utf-8")) for file in files}
    wrong = {file: numbers - tables(file.read_text(encoding="utf-8")) for file, numbers in lines.items() if numbers}
    assert {file: numbers for file, numbers in wrong.items() if numbers} == {}
    assert 0 < sum(map(len, lines.values())) <= MOST


def test_a_marked_call_is_noticed() -> None:
    source = f"SIZES = [1, 2]  {MARK}\nx = f(1,\n      2)  {MARK}\ny = g(  h)  {MARK}\n"
    assert marked(source) - tables(source) == {4}
    assert tables("a = [b]\n") == set()
