"""The templates of the pages, and the functions that they call.

Templates that this process has compiled are kept: compiling them takes longer than rendering a small site.
"""

from __future__ import annotations

import types

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

from imharness.documents import naming
from imharness.exports import marks
from imharness_leaderboard import (
    addresses,
    citations,
    drawing_files,
    names,
    published,
    ranking_script,
    rankings,
    tables,
    wording,
)
from imharness_leaderboard.adaptive_effect import COSTS
from imharness_leaderboard.entries import ranked_variants, standing_word
from imharness_leaderboard.numbers import forms_of
from imharness_leaderboard.picture import THEMES
from imharness_leaderboard.ranking_rows import group_titles


class Compiled(BytecodeCache):
    """Keeps the code of templates in memory, by their names and contents, for all builds of a process."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], types.CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._codes[bucket.key, bucket.checksum] = bucket.code


COMPILED = Compiled()


def environment(**shared: object) -> jinja2.Environment:
    """Return the templates; `shared` are variables that every template of a build can use."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("imharness_leaderboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=COMPILED,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["code"] = wording.with_code
    for module, functions in (
        (
            addresses,
            (
                "track_page",
                "table_page",
                "studies_page",
                "findings_page",
                "gallery_page",
                "published_page",
                "data_file",
                "comparison_file",
            ),
        ),
        (tables, ("shown", "spread", "why", "shade", "marks_of", "facets_of", "breadth", "headline", "legend")),
        (rankings, ("interval_text", "worst_words")),
        (ranking_script, ("script_facts",)),
        (drawing_files, ("drawings_of", "front_note", "front_title", "source_line")),
        (citations, ("compute_again",)),
        (
            names,
            ("head_of", "in_names", "plural", "short_titles", "spelled_measure", "table_title", "title_with_names"),
        ),
        (naming, ("brief",)),
        (wording, ("breaking", "facet_text", "moment", "partial")),
        (marks, ("places_of", "proxies_of")),
    ):
        templates.globals.update({name: getattr(module, name) for name in functions})
    templates.globals.update(published.NAMES)
    templates.globals.update(
        themes=list(THEMES),
        forms_of=forms_of,
        ranked_variants=ranked_variants,
        standing_word=standing_word,
        standing_in_words=marks.standing_of,
        shown_value=tables.shown,
        costs_words=COSTS,
        group_titles=group_titles,
        **shared,
    )
    return templates
