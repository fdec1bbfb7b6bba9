"""Writes a sheet as LaTeX, Typst or Markdown, ready to paste. Its texts are shown as they are and never executed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from imharness.documents.findings import by_tier
from imharness.exports.layout import HEAD, NAME, Part, parts_of, wrapped
from imharness.exports.sheets import Cell, Line, Sheet
from imharness.reading.text import plain
from imharness.results.identity import digest
from imharness.results.labels import printed

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "`": r"\textasciigrave{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--",
    "—": "---", "−": "$-$", "×": r"$\times$",
    "±": r"$\pm$", "≈": r"$\approx$", "≠": r"$\neq$", "≤": r"$\leq$", "≥": r"$\geq$", "∞": r"$\infty$",
    "·": r"$\cdot$", "²": "$^2$", "³": "$^3$", "→": r"$\rightarrow$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\varepsilon$", "λ": r"$\lambda$",
    "μ": r"$\mu$", "µ": r"$\mu$", "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$", "Δ": r"$\Delta$",
}  # fmt: skip
_LATEX_HAS = "‐‒‘’“”†‡•…€™"
"""Signs beyond Latin that pdfLaTeX has."""
_LATEX_LACKS = "«»ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ\xad"
"""The letters of Latin-1 and Latin Extended-A that the default fonts of pdfLaTeX lack."""
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
_LINKED = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)")
"""Finds what Markdown would turn into a link."""
_NAMED = re.compile(r"(@|\\#)(?=\w)")
"""Finds what GitHub would turn into a mention or a reference to an issue."""


def latex_text(text: str) -> str:
    """Return a text that LaTeX prints as it is, as one line.

    Successive dashes do not join, and a bracket or star at the start does not belong to a command before it. A
    character that pdfLaTeX lacks becomes the nearest one that it has, or its number, as in [U+4E00].
    """
    escaped = "".join(_latex_sign(sign) for sign in plain(text).replace("--", "-\0-").replace("--", "-\0-"))
    escaped = escaped.replace("\0", "{}")
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped[:1] in ("[", "*") else escaped


def _latex_sign(sign: str) -> str:
    if sign in _LATEX:
        return _LATEX[sign]
    if ord(sign) < 0x80 or sign in _LATEX_HAS or (0xA0 < ord(sign) < 0x180 and sign not in _LATEX_LACKS):
        return sign
    near = unicodedata.normalize("NFKD", sign)
    signs = [character for character in near if ord(character) < 0x80 or character in _LATEX]
    return "".join(_LATEX.get(character, character) for character in signs) if signs else f"[U+{ord(sign):04X}]"


def latex(sheet: Sheet) -> str:
    """Return a sheet as LaTeX tables for the packages adjustbox and booktabs, which shrink to fit the page."""
    blocks = [_latex_part(piece) for piece in parts_of(sheet)]
    for tier, texts in _statements(sheet):
        items = [rf"\item {latex_text(text)}" for text in texts]
        blocks += [rf"\paragraph{{{latex_text(tier)}}}", r"\begin{itemize}", *items, r"\end{itemize}"]
    return "\n".join(["% Needs \\usepackage{adjustbox,booktabs}.", *blocks]) + "\n"


def _statements(sheet: Sheet) -> list[tuple[str, list[str]]]:
    """Return what the leaderboard says of a sheet, and findings by tier; labels lose first-party owners."""
    claim = [("What the leaderboard says", [sheet.claim])] if sheet.claim else []
    tiers = [
        (tier.capitalize(), [finding.text for finding in findings])
        for tier, findings in by_tier(sheet.findings).items()
    ]
    return [(tier, [printed(text) for text in texts]) for tier, texts in [*claim, *tiers]]


def _latex_part(piece: Part) -> str:
    esc, sheet = latex_text, piece.sheet
    heads = [_latex_lines(wrapped(text, NAME), "l") for text in _text_heads(sheet)]
    heads += [rf"\multicolumn{{1}}{{c}}{{{_latex_lines(wrapped(head, HEAD), 'c')}}}" for head in sheet.heads]
    alignment = "l" * len(_text_heads(sheet)) + "r" * len(sheet.columns)
    notes = [rf"\textsuperscript{{{letter}}} {esc(text)}" for letter, text in sheet.notes]
    notes += [esc(text) for text in sheet.remarks]
    below = [
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}",
        r"\footnotesize\raggedright",
        "\\par\n".join(notes),
        r"\end{minipage}",
    ]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{esc(sheet.caption)}}}",
            rf"\label{{tab:{_key(sheet)}{piece.key}}}",
            r"\small",
            r"\setlength{\tabcolsep}{3pt}",
            r"\begin{adjustbox}{max width=\linewidth, max totalheight=0.7\textheight}",
            rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}",
            r"\toprule",
            " & ".join(heads) + r" \\",
            r"\midrule",
            *(_latex_row(line, piece.below) + r" \\" for line in sheet.lines),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{adjustbox}",
            *(below if notes else []),
            r"\end{table}",
        ]
    )


def _latex_lines(lines: Sequence[str], side: str) -> str:
    return _stacked([latex_text(line) for line in lines], side)


def _stacked(texts: Sequence[str], side: str) -> str:
    joined = r"\\".join(texts)
    return joined if len(texts) == 1 else rf"\shortstack[{side}]{{{joined}}}"


def _latex_row(line: Line, below: bool) -> str:
    texts = [latex_text(text) for text in wrapped(line.name, NAME)]
    texts = [rf"\textbf{{{text}}}" for text in texts] if line.won else texts
    first = _stacked(texts, "l") + (rf"\textsuperscript{{{','.join(line.notes)}}}" if line.notes else "")
    return " & ".join(
        [
            first,
            *(_latex_lines(wrapped(facet, NAME), "l") for facet in line.facets),
            *(_latex_cell(cell, below) for cell in line.cells),
        ]
    )


def _latex_cell(cell: Cell, below: bool) -> str:
    text, low, high = (value.replace("-", "$-$").replace("<", "$<$") for value in (cell.text, cell.low, cell.high))
    styled = rf"\textbf{{{text}}}" if cell.best else text.replace("–", "--")
    marks = ["*"] if cell.tied else []
    marks += [",".join(cell.notes)] if cell.notes else []
    number = styled + "".join(rf"\textsuperscript{{{mark}}}" for mark in marks)
    if not low:
        return number
    interval = rf"{{\scriptsize [{low}, {high}]}}"
    return _stacked([number, interval], "r") if below else f"{number} {interval}"


def typst_text(text: str) -> str:
    """Return a text as a Typst string, in which nothing is markup."""
    return '"' + plain(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def typst(sheet: Sheet) -> str:
    """Return a sheet as Typst figures of tables with their notes below, which shrink to fit the page."""
    blocks = [_typst_part(piece) for piece in parts_of(sheet)]
    for tier, texts in _statements(sheet):
        blocks += [f"#strong({typst_text(tier)})", f"#list({', '.join(f'text({typst_text(text)})' for text in texts)})"]
    return "\n".join(blocks) + "\n"


def _typst_part(piece: Part) -> str:
    esc, sheet = typst_text, piece.sheet
    heads = [_typst_lines(wrapped(text, NAME)) for text in _text_heads(sheet)]
    heads += [_typst_lines(wrapped(head, HEAD)) for head in sheet.heads]
    alignment = ["left"] * len(_text_heads(sheet)) + ["right"] * len(sheet.columns)
    notes = [f'super({esc(letter)}) + " " + {esc(text)}' for letter, text in sheet.notes]
    notes += [esc(text) for text in sheet.remarks]
    return "\n".join(
        [
            "#figure(",
            "  kind: table,",
            f"  caption: text({esc(sheet.caption)}),",
            "  {",
            "    set text(size: 9pt)",
            "    let rows = table(",
            f"      columns: {len(heads)},",
            f"      align: ({', '.join(alignment)},),",
            "      stroke: none,",
            "      inset: (x: 2pt, y: 2.5pt),",
            "      table.hline(),",
            f"      table.header({', '.join(f'strong({head})' for head in heads)}),",
            "      table.hline(stroke: 0.5pt),",
            *(f"      {_typst_row(line, piece.below)}," for line in sheet.lines),
            "      table.hline(),",
            "    )",
            "    layout(page => scale(calc.min(100%, page.width / measure(rows).width * 100%), reflow: true, rows))",
            *(f"    block(width: 100%, align(left, text(size: 8pt, {note})))" for note in notes),
            "  },",
            f") <tab:{_key(sheet)}{piece.key}>",
        ]
    )


def _typst_lines(lines: Sequence[str]) -> str:
    texts = " + linebreak() + ".join(map(typst_text, lines))
    return texts if len(lines) == 1 else f"({texts})"


def _typst_row(line: Line, below: bool) -> str:
    name = _typst_lines(wrapped(line.name, NAME))
    styled = f"strong({name})" if line.won else name
    first = styled + (f" + super({typst_text(','.join(line.notes))})" if line.notes else "")
    cells = [_typst_cell(cell, below) for cell in line.cells]
    return ", ".join([first, *(_typst_lines(wrapped(facet, NAME)) for facet in line.facets), *cells])


def _typst_cell(cell: Cell, below: bool) -> str:
    styled = f"strong({typst_text(cell.text)})" if cell.best else typst_text(cell.text)
    marks = [mark for mark in ("*" if cell.tied else "", ",".join(cell.notes)) if mark]
    between = "linebreak()" if below else '" "'
    interval = [f"{between} + text(size: 0.8em, {typst_text(f'[{cell.low}, {cell.high}]')})"] if cell.low else []
    return " + ".join([styled, *(f"super({typst_text(mark)})" for mark in marks), *interval])


def markdown_text(text: str) -> str:
    """Return a text that GitHub's Markdown shows as it is, even in a table."""
    escaped = _MARKDOWN.sub(r"\\\1", plain(text))
    without_links = _LINKED.sub(r"\1\3\\\2\4", escaped)  # a backslash after "https" or "www"
    return _NAMED.sub(r"\1<!-- -->", without_links)  # an empty comment after "@" or "#"


def _paragraph(text: str) -> str:
    """Return a text as a paragraph that neither begins a list nor underlines the line before it."""
    return re.sub(r"^(?=[-+=])|^(\d+)(?=[.)])", r"\1\\", markdown_text(text.strip()))


def markdown(sheet: Sheet) -> str:
    """Return a sheet as a Markdown table with its caption above and its notes below."""
    esc = markdown_text
    heads = [*_text_heads(sheet), *sheet.heads]
    rules = [":---"] * len(_text_heads(sheet)) + ["---:"] * len(sheet.columns)
    rows = [[*map(esc, heads)], rules, *(_markdown_row(line) for line in sheet.lines)]
    notes = [f"{_raised(letter)} {esc(text)}" for letter, text in sheet.notes] + [
        _paragraph(text) for text in sheet.remarks
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    findings = [
        paragraph
        for tier, texts in _statements(sheet)
        for paragraph in (f"**{esc(tier)}**", "\n".join(f"- {_paragraph(text)}" for text in texts))
    ]
    return "\n\n".join([f"**{esc(sheet.caption)}**", table, *notes, *findings]) + "\n"


def _markdown_row(line: Line) -> list[str]:
    name = f"**{markdown_text(line.name)}**" if line.won else markdown_text(line.name)
    first = name + (_raised(",".join(line.notes)) if line.notes else "")
    return [first, *map(markdown_text, line.facets), *map(_markdown_cell, line.cells)]


def _markdown_cell(cell: Cell) -> str:
    styled = f"**{cell.text}**" if cell.best else cell.text
    notes = _raised(",".join(cell.notes)) if cell.notes else ""
    return styled + (r"\*" if cell.tied else "") + notes + (rf" \[{cell.low}, {cell.high}\]" if cell.low else "")


def _raised(text: str) -> str:
    return f"<sup>{text}</sup>"


def _text_heads(sheet: Sheet) -> Sequence[str]:
    return (sheet.entry, *sheet.facets)


def _key(sheet: Sheet) -> str:
    """Return a name of the table for references, which has only letters, digits and dashes."""
    words = [sheet.track.rpartition("/")[2], sheet.id]
    name = "-".join(re.sub(r"[^A-Za-z0-9]+", "-", word).strip("-") for word in words if word)
    return name.strip("-") or digest([sheet.track, sheet.id])[:8]
