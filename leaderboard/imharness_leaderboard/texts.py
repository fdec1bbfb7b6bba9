"""Shows some pages of the documentation on the site, from their Markdown.

They are the rules of rankings, the glossary, what the papers claim, and the studies on real data. A link to another
page of the documentation stays if the site has that page; else its text stays without a link.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

PLACES = (Path(__file__).parent / "texts", Path(__file__).resolve().parents[2] / "docs")
"""Where the pages are: in an installed package, and in a copy of the repository."""
CLAIMS, STUDIES = "papers.md", "studies/index.md"
"""The pages of the documentation about what the papers claim, and about the studies on real data."""
ON_SITE = {
    "ranking.md": "methods.html",
    "glossary.md": "glossary.html",
    "concepts/statistics.md": "methods.html",
    CLAIMS: "claims.html",
    STUDIES: "real-data.html",
}
"""Page of the documentation -> the page of the site that shows the same; studies have one each."""
ORDINARY = {
    "budget",
    "component",
    "condition",
    "entry",
    "member",
    "profile",
    "track",
    "unit",
    "utility",
}
"""Terms that get no link: pages use them often, and nearly in their ordinary sense."""
_UNSEEN = re.compile(r"^(?:<!--.*?-->|```\{toctree\}.*?^```)[ \t]*\n|<!--.*?-->", re.DOTALL | re.MULTILINE)
"""Text of a page that readers do not see: comments, and the menu of the documentation."""
_TERM = re.compile(r"\*\*(?P<name>[^*]+?)\.\*\*\s*(?P<text>.+)", re.DOTALL)


class Term(NamedTuple):
    """A term of the glossary: its name, where its page has it, what it means as HTML and as plain text."""

    name: str
    section: str
    meaning: Markup
    plain: str

    @property
    def anchor(self) -> str:
        """The end of its address on the glossary's page."""
        return _anchor(self.name)

    @property
    def names(self) -> list[str]:
        """The words under which it is found, such as "BPDA", or "D" and "D^D"."""
        return self.name.split(" and ") if "^" in self.name else [self.name]


class Section(NamedTuple):
    """A part of a page: its heading, the end of its address, its text as HTML, and the level of its heading."""

    title: str
    anchor: str
    text: Markup
    level: int = 2


def _source(name: str) -> str:
    for folder in PLACES:
        if (folder / name).is_file():
            return _UNSEEN.sub("", (folder / name).read_text(encoding="utf-8"))
    raise FileNotFoundError(name)


def studies() -> dict[str, str]:
    """Return the pages of the studies on real data: that of the documentation -> that of the site, sorted by name."""
    folder, name = posixpath.split(STUDIES)
    files = {path.name for texts in PLACES for path in (texts / folder).glob("*.md")}
    return {f"{folder}/{file}": f"study-{file.removesuffix('.md')}.html" for file in sorted(files - {name})}


@cache
def sections(name: str) -> tuple[Section, ...]:
    """Return the parts of a page of the documentation, one for each heading, first that of the page's title."""
    tokens = _reader().parse(_source(name))
    section_list, title, level, at = list[Section](), "", 2, 0
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            if i > at or title:
                section_list.append(Section(title, _anchor(title), _html(tokens[at:i], name, title), level))
            title, level, at = tokens[i + 1].content, int(token.tag[1]), i + 3
    return (*section_list, Section(title, _anchor(title), _html(tokens[at:], name, title), level))


@cache
def glossary() -> tuple[Term, ...]:
    """Return the terms of the glossary in its order."""
    return tuple(_terms())


def _terms() -> Iterator[Term]:
    section = ""
    for block in re.split(r"\n\s*\n", _source("glossary.md")):
        if block.startswith("## "):
            section = block[3:].strip()
        elif match := _TERM.fullmatch(block.strip()):
            html = _html(_reader().parse(match["text"]), "glossary.md")
            yield Term(match["name"], section, html, Markup(html).striptags())


@cache
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _html(tokens: list[Token], page: str, title: str = "") -> Markup:
    """Return tokens as HTML, with links to pages of the site alone, and with tables that can be scrolled.

    `page`: the page of the documentation; `title`: the heading above the tokens. HTML within the Markdown is shown as
    text, except for superscripts and parts that can be folded.
    """
    for token in tokens:
        token.children = list(_linked(token.children or [], page)) if token.type == "inline" else token.children
    html, number = _reader().renderer.render(tokens, _reader().options, {}), count(1)
    is_folded = _FOLDED.search(html) is not None

    def scrolled(match: re.Match[str]) -> str:
        name, rows = f"Table {next(number)}, {title}", match[0].count("<tr>") - 1
        table = _SCROLLED.format(escape(name), match[1])
        return (
            table
            if is_folded or rows <= FOLDED
            else f"<details><summary>Table of {rows} rows</summary>{table}</details>"
        )

    html = _FOLDED.sub(r"<details><summary>\1</summary>\2</details>", html)
    html = re.sub(r' style="text-align:(\w+)"', r' class="\1"', html)  # pages refuse styles of elements
    html = _RAISED.sub(r"<sup>\1</sup>", html.replace("<pre>", '<pre tabindex="0">'))
    return Markup(re.sub("<table>(.*?)</table>", scrolled, html, flags=re.DOTALL))


FOLDED = 12
"""A table with more rows than this is opened by readers who want it, where the page does not fold its tables itself."""
_FOLDED = re.compile(
    r"<p>&lt;details&gt;&lt;summary&gt;(.*?)&lt;/summary&gt;</p>(.*?)<p>&lt;/details&gt;</p>", re.DOTALL
)
"""What a page of the documentation folds itself."""
_SCROLLED = '<div class="scroll" role="region" tabindex="0" aria-label="{}"><table class="plain">{}</table></div>'
_RAISED = re.compile(r"&lt;sup&gt;([\w, *]+)&lt;/sup&gt;")


def _linked(tokens: list[Token], page: str) -> Iterator[Token]:
    linked_flags: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            address = _on_site(str(token.attrs.get("href", "")), page)
            linked_flags.append(bool(address))
            token.attrs["href"] = address
        if token.type == "link_open" or token.type == "link_close":
            if linked_flags[-1]:
                yield token
            if token.type == "link_close":
                linked_flags.pop()
        else:
            yield token


def _on_site(address: str, page: str) -> str:
    """Return the address on the site of a link of the documentation; "" where the site does not have that page."""
    if address.startswith("https://"):
        return address
    file, _, fragment = address.partition("#")
    source = posixpath.normpath(posixpath.join(posixpath.dirname(page), file)) if file else page
    target = ON_SITE.get(source) or studies().get(source, "")
    return f"{target}#{fragment}" if target and fragment else target


_TAG = re.compile(r"(<(?:[^>\"']+|\"[^\"]*\"|'[^']*')*+>)")
_NAME = re.compile(r"</?([a-z0-9]*)")
_OPEN, _SHUT, _PLAIN = range(3)
"""Elements of running text; elements in which nothing is linked; and elements whose text stays as it is."""
_ROLES = {
    **dict.fromkeys(("p", "li", "dd", "figcaption"), _OPEN),
    **dict.fromkeys(("a", "button", "h1", "h2", "h3", "h4", "label", "nav", "summary"), _SHUT),
    **dict.fromkeys(("code", "option", "pre", "script", "svg", "title"), _PLAIN),
}
"""Name of an element -> its role."""


@cache
def _words() -> tuple[re.Pattern[str], dict[str, Term]]:
    """Return a pattern that finds any term that is linked, singular or plural, and the term of each word."""
    terms = {
        word.lower(): term
        for term in glossary()
        if term.name.lower() not in ORDINARY
        for name in term.names
        if len(name) > 1
        for word in (name, f"{name}s")
    }
    every = "|".join(re.escape(word) for word in sorted(terms, key=len, reverse=True))
    return re.compile(rf"(?<![\w^/-])(?:{every})(?![\w^/-])", re.IGNORECASE), terms


def finished(page: str, root: str) -> str:
    """Return the HTML of a page with links to the glossary and real superscripts.

    The first use of each term in running text is a link. D^D and R^D have a superscript wherever HTML is read.
    """
    pattern, terms = _words()
    before, start, body = page.partition("<main")
    main, end, after = body.partition("</main>")
    seen: set[str] = set()

    def link(match: re.Match[str]) -> str:
        term = terms[match[0].lower()]
        if term.name in seen:
            return match[0]
        seen.add(term.name)
        return f'<a class="term" href="{root}glossary.html#{term.anchor}">{match[0]}</a>'

    out, depth = [], [0, 0, 0]  # how many elements of each role are open
    for piece in _TAG.split(main):
        if piece.startswith("<"):
            tag_match = _NAME.match(piece)
            role = _ROLES.get(tag_match[1]) if tag_match is not None else None
            if role is not None and not piece.endswith("/>"):
                depth[role] += -1 if piece.startswith("</") else 1
        elif not depth[_PLAIN] and not piece.isspace():
            piece = pattern.sub(link, piece) if depth[_OPEN] and not depth[_SHUT] else piece
            piece = piece.replace("D^D", "D<sup>D</sup>").replace("R^D", "R<sup>D</sup>")
        out.append(piece)
    return before + start + "".join(out) + end + after
