"""A sheet as LaTeX, Typst or Markdown, ready to paste. Whatever stands in it is shown as it is, and never run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from imharness.results.identity import digest
from imharness_exports.sheets import Cell, Line, Sheet
from imharness_files.text import plain

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--",
    "—": "---", "−": "$-$", "×": r"$\times$",
    "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$", "∞": r"$\infty$",
    "·": r"$\cdot$", "²": "$^2$", "³": "$^3$", "→": r"$\rightarrow$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\varepsilon$", "λ": r"$\lambda$",
    "μ": r"$\mu$", "µ": r"$\mu$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$", "Δ": r"$\Delta$",
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
_LINKED = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")
"""What Markdown would make a link of by itself."""
_NAMED = re.compile(r"(@|\\#)(?=\w)")
"""What GitHub makes a mention of, or a reference to an issue."""


def latex_text(text: str) -> str:
    """Return a text that LaTeX sets as it is, as one line.

    Of several dashes none join, and a bracket or star at the start belongs to no command before it.
    """
    escaped = "".join(_LATEX.get(sign, sign) for sign in plain(text).replace("--", "-\0-").replace("--", "-\0-"))
    escaped = escaped.replace("\0", "{}")
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped[:1] in ("[", "*") else escaped


def latex(sheet: Sheet) -> str:
    """Return a sheet as a LaTeX table by the packages booktabs and threeparttable."""
    esc = latex_text
    heads = [*map(esc, _text_heads(sheet)), *(rf"\multicolumn{{1}}{{c}}{{{esc(head)}}}" for head in sheet.heads)]
    alignment = "l" * len(_text_heads(sheet)) + "r" * len(sheet.columns)
    rows = [_latex_row(line) for line in sheet.lines]
    notes = [rf"\item[{letter}] {esc(text)}" for letter, text in sheet.notes]
    notes += [rf"\item {esc(text)}" for text in sheet.remarks]
    parts = [
        r"% Needs \usepackage{booktabs} and \usepackage{threeparttable}.", r"\begin{table}", r"\centering",
        r"\begin{threeparttable}", rf"\caption{{{esc(sheet.caption)}}}", rf"\label{{tab:{_key(sheet)}}}",
        rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule",
        *(row + r" \\" for row in rows), r"\bottomrule", r"\end{tabular}",
        *([r"\begin{tablenotes}", r"\footnotesize", *notes, r"\end{tablenotes}"] if notes else []),
        r"\end{threeparttable}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _latex_row(line: Line) -> str:
    name = rf"\textbf{{{latex_text(line.name)}}}" if line.won else latex_text(line.name)
    first = name + (rf"\tnote{{{','.join(line.notes)}}}" if line.notes else "")
    return " & ".join([first, *map(latex_text, line.facets), *map(_latex_cell, line.cells)])


def _latex_cell(cell: Cell) -> str:
    text, low, high = (part.replace("-", "$-$") for part in (cell.text, cell.low, cell.high))
    shown = rf"\textbf{{{text}}}" if cell.best else text.replace("–", "--")
    marks = ["*"] if cell.tied else []
    marks += [",".join(cell.notes)] if cell.notes else []
    interval = rf" {{\scriptsize [{low}, {high}]}}" if low else ""
    return shown + "".join(rf"\tnote{{{mark}}}" for mark in marks) + interval


def typst_text(text: str) -> str:
    """Return a text as a string of Typst, in which nothing is markup."""
    return '"' + plain(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def typst(sheet: Sheet) -> str:
    """Return a sheet as a Typst figure of a table, with its notes below."""
    esc = typst_text
    heads = [*_text_heads(sheet), *sheet.heads]
    alignment = ["left"] * len(_text_heads(sheet)) + ["right"] * len(sheet.columns)
    notes = [f'super({esc(letter)}) + " " + {esc(text)}' for letter, text in sheet.notes]
    notes += [esc(text) for text in sheet.remarks]
    parts = [
        "#figure(", "  kind: table,", f"  caption: text({esc(sheet.caption)}),", "  {", "    table(",
        f"      columns: {len(heads)},", f"      align: ({', '.join(alignment)},),", "      stroke: none,",
        "      table.hline(),",
        f"      table.header({', '.join(f'strong({esc(head)})' for head in heads)}),",
        "      table.hline(stroke: 0.5pt),",
        *(f"      {_typst_row(line)}," for line in sheet.lines), "      table.hline(),", "    )",
        *(f"    block(width: 100%, align(left, text(size: 0.8em, {note})))" for note in notes),
        "  },", f") <tab:{_key(sheet)}>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _typst_row(line: Line) -> str:
    name = f"strong({typst_text(line.name)})" if line.won else typst_text(line.name)
    first = name + (f" + super({typst_text(','.join(line.notes))})" if line.notes else "")
    return ", ".join([first, *map(typst_text, line.facets), *map(_typst_cell, line.cells)])


def _typst_cell(cell: Cell) -> str:
    shown = f"strong({typst_text(cell.text)})" if cell.best else typst_text(cell.text)
    marks = [mark for mark in ("*" if cell.tied else "", ",".join(cell.notes)) if mark]
    interval = [f'" " + text(size: 0.8em, {typst_text(f"[{cell.low}, {cell.high}]")})'] if cell.low else []
    return " + ".join([shown, *(f"super({typst_text(mark)})" for mark in marks), *interval])


def markdown_text(text: str) -> str:
    """Return a text that Markdown, as GitHub has it, shows as it is, in a table, too."""
    return _NAMED.sub(r"\1<!-- -->", _LINKED.sub(r"\1\3\\\2\4", _MARKDOWN.sub(r"\\\1", plain(text))))


def markdown(sheet: Sheet) -> str:
    """Return a sheet as a Markdown table with its caption above and its notes below."""
    esc = markdown_text
    heads = [*_text_heads(sheet), *sheet.heads]
    rules = [":---"] * len(_text_heads(sheet)) + ["---:"] * len(sheet.columns)
    rows = [[*map(esc, heads)], rules, *(_markdown_row(line) for line in sheet.lines)]
    notes = [f"{_raised(letter)} {esc(text)}" for letter, text in sheet.notes] + [esc(text) for text in sheet.remarks]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join([f"**{esc(sheet.caption)}**", table, *notes]) + "\n"


def _markdown_row(line: Line) -> list[str]:
    name = f"**{markdown_text(line.name)}**" if line.won else markdown_text(line.name)
    first = name + (_raised(",".join(line.notes)) if line.notes else "")
    return [first, *map(markdown_text, line.facets), *map(_markdown_cell, line.cells)]


def _markdown_cell(cell: Cell) -> str:
    shown = f"**{cell.text}**" if cell.best else cell.text
    notes = _raised(",".join(cell.notes)) if cell.notes else ""
    return shown + (r"\*" if cell.tied else "") + notes + (rf" \[{cell.low}, {cell.high}\]" if cell.low else "")


def _raised(text: str) -> str:
    return f"<sup>{text}</sup>"


def _text_heads(sheet: Sheet) -> Sequence[str]:
    return (sheet.entry, *sheet.facets)


def _key(sheet: Sheet) -> str:
    """Return a name of the table for references: letters, digits and dashes."""
    words = [sheet.track.rpartition("/")[2], sheet.id]
    name = "-".join(re.sub(r"[^A-Za-z0-9]+", "-", word).strip("-") for word in words if word)
    return name.strip("-") or digest([sheet.track, sheet.id])[:8]
