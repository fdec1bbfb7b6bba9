"""The pages of the documentation that the site shows: who wins, and the glossary, from the Markdown that the docs have.

A link to another page of the documentation stays where the site has that page, and is plain text elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

PLACES = (Path(__file__).parent / "texts", Path(__file__).resolve().parents[2] / "docs")
"""Where the pages are: in an installed package, and in a copy of the repository."""
ON_SITE = {"ranking.md": "methods.html", "glossary.md": "glossary.html", "concepts/statistics.md": "methods.html"}
"""Page of the documentation -> the page of the site that shows the same."""
ORDINARY = {
    "budget",
    "component",
    "condition",
    "contract",
    "entry",
    "member",
    "profile",
    "row",
    "step",
    "store",
    "track",
    "unit",
    "utility",
}
"""Terms that pages use so often, and so nearly as everybody does, that no link helps."""
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
        return self.name.split(" and ") if self.name == "D and D^D" else [self.name]


class Section(NamedTuple):
    """A part of a page: its heading, the end of its address, and its text as HTML."""

    title: str
    anchor: str
    text: Markup


def _source(name: str) -> str:
    for folder in PLACES:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise FileNotFoundError(name)


@cache
def sections(name: str) -> tuple[Section, ...]:
    """Return the parts of a page of the documentation; the first one, without a heading, is what stands above them."""
    tokens = _reader().parse(_source(name))
    found, title, at = [], "", 0
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            found += [Section(title, _anchor(title), _html(tokens[at:i], name))] if i > at else []
            title, at = tokens[i + 1].content, i + 3
    return (*found, Section(title, _anchor(title), _html(tokens[at:], name)))


@cache
def glossary() -> tuple[Term, ...]:
    """Return the terms of the glossary in its order."""
    return tuple(_terms())


def _terms() -> Iterator[Term]:
    section = ""
    for block in re.split(r"\n\s*\n", _source("glossary.md")):
        if block.startswith("## "):
            section = block[3:].strip()
        elif found := _TERM.fullmatch(block.strip()):
            html = _html(_reader().parse(found["text"]), "glossary.md")
            yield Term(found["name"], section, html, Markup(html).striptags())


@cache
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _html(tokens: list[Token], page: str) -> Markup:
    """Return tokens as HTML, with links that lead to pages of the site alone."""
    for token in tokens:
        token.children = list(_linked(token.children or [], page)) if token.type == "inline" else token.children
    return Markup(_reader().renderer.render(tokens, _reader().options, {}))


def _linked(tokens: list[Token], page: str) -> Iterator[Token]:
    kept: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            address = _on_site(str(token.attrs.get("href", "")), page)
            kept.append(bool(address))
            token.attrs["href"] = address
        if token.type == "link_open" or token.type == "link_close":
            if kept[-1]:
                yield token
            if token.type == "link_close":
                kept.pop()
        else:
            yield token


def _on_site(address: str, page: str) -> str:
    """Return where a link of the documentation leads on the site; empty where the site does not have that page."""
    if address.startswith("https://"):
        return address
    file, _, part = address.partition("#")
    target = ON_SITE.get(file or page, "")
    return f"{target}#{part}" if target and part else target


_TAG = re.compile(r"(<(?:[^>\"']+|\"[^\"]*\"|'[^']*')*+>)")
_NAME = re.compile(r"</?([a-z0-9]*)")
_OPEN, _SHUT, _PLAIN = range(3)
_ROLES = {
    **dict.fromkeys(("p", "li", "dd", "figcaption"), _OPEN),
    **dict.fromkeys(("a", "button", "h1", "h2", "h3", "h4", "label", "nav", "summary"), _SHUT),
    **dict.fromkeys(("code", "option", "pre", "script", "svg", "title"), _PLAIN),
}
"""Elements of running text; those in which nothing is linked; and those whose text stays as it is."""


@cache
def _words() -> tuple[re.Pattern[str], dict[str, Term]]:
    """Return a pattern that finds any term that is linked, singular or plural, and the term of each word."""
    known = {
        word.lower(): term
        for term in glossary()
        if term.name.lower() not in ORDINARY
        for name in term.names
        if len(name) > 1
        for word in (name, f"{name}s")
    }
    every = "|".join(re.escape(word) for word in sorted(known, key=len, reverse=True))
    return re.compile(rf"(?<![\w^/-])(?:{every})(?![\w^/-])", re.IGNORECASE), known


def finished(page: str, root: str) -> str:
    """Return the HTML of a page with links to the glossary and real superscripts.

    The first use of each term in running text is a link. D^D is written with a superscript wherever HTML is read.
    """
    pattern, known = _words()
    before, start, body = page.partition("<main")
    main, end, after = body.partition("</main>")
    seen: set[str] = set()

    def link(found: re.Match[str]) -> str:
        term = known[found[0].lower()]
        if term.name in seen:
            return found[0]
        seen.add(term.name)
        return f'<a class="term" href="{root}glossary.html#{term.anchor}">{found[0]}</a>'

    out, depth = [], [0, 0, 0]
    for part in _TAG.split(main):
        if part.startswith("<"):
            found = _NAME.match(part)
            role = _ROLES.get(found[1]) if found is not None else None
            if role is not None and not part.endswith("/>"):
                depth[role] += -1 if part.startswith("</") else 1
        elif not depth[_PLAIN] and not part.isspace():
            part = pattern.sub(link, part) if depth[_OPEN] and not depth[_SHUT] else part
            part = part.replace("D^D", "D<sup>D</sup>")
        out.append(part)
    return before + start + "".join(out) + end + after
