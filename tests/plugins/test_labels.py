"""Labels of columns follow one rule: they begin small, as parts of a sentence do, but for abbreviations and names."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("Bradley-Terry", "Kendall", "Kruskal", "Pearson", "Spearman", "Wilcoxon")


def labels() -> list[tuple[str, str]]:
    """Return where a column is declared, and the beginning of its label as far as it is written there."""
    labels_found = []
    files = [file for folder in ("core", "plugins", "leaderboard") for file in (ROOT / folder).rglob("*.py")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Column", "ColumnSpec"):
                named = [word.value for word in node.keywords if word.arg == "label"]
                for value in [*named, *node.args[1:2]][:1]:
                    first = value.values[0] if isinstance(value, ast.JoinedStr) else value
                    if isinstance(first, ast.Constant):
                        labels_found.append((f"{file.name}:{node.lineno}", str(first.value)))
    return labels_found


def test_labels_of_columns_begin_small_but_for_abbreviations_and_names() -> None:
    declared = labels()
    assert len(declared) > 40
    for where, label in declared:
        word = re.split(r"[\s,]", label)[0]
        assert not re.fullmatch(r"[A-Z][a-z].*", word) or word in NAMES, (where, label)
