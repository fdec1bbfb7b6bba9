"""Writes the leaderboards of a store as a Hugging Face dataset repository: Parquet, a card, and Croissant metadata.

Croissant: https://docs.mlcommons.org/croissant/docs/croissant-spec.html, version 1.0; the card:
https://huggingface.co/docs/hub/datasets-cards.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from imharness.documents.findings import first_sentences
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.rankings import Ranking
from imharness.documents.tables import Row, Value
from imharness.errors import UsageError
from imharness.exports.markup import markdown_text
from imharness.reading.text import plain
from imharness.results.storage import sha256_of

ADDRESS = re.compile(r"hf://datasets/([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})", re.ASCII)
LICENCE, LICENCE_URL = "apache-2.0", "https://spdx.org/licenses/Apache-2.0"
TITLE = "Leaderboard of image privacy and image-quality robustness"
ABOUT = (
    "Rankings of attacks, defenses, metrics and membership-inference evaluators by image-privacy-harness: every number "
    "of every table, with its 95% interval."
)
"""What the dataset is, for its metadata and its card."""
_RANKED = ("rank", "worst", "gain", "p", "unaware", "aware", "utility", "behind", "coverage")
"""The columns of rankings that the file of rankings has."""
_TYPES = {pa.string(): "sc:Text", pa.float64(): "sc:Float", pa.int64(): "sc:Integer", pa.bool_(): "sc:Boolean"}
"""Type in Parquet -> type in Croissant."""


@dataclass(frozen=True)
class File:
    """A Parquet file of the repository.

    Attributes:
        name: its name, without folder and extension.
        about: what a row is, such as "an entry of a ranking".
        fields: column -> its type, and what it means in a sentence.
        rows: the rows, column -> value; a column that a row lacks is null.
    """

    name: str
    about: str
    fields: Mapping[str, tuple[pa.DataType, str]]
    rows: Sequence[Mapping[str, Any]]

    @property
    def path(self) -> str:
        """The path of the file in the repository."""
        return f"data/{self.name}.parquet"

    def content(self) -> bytes:
        """Return the content of the file."""
        schema = pa.schema([(name, kind) for name, (kind, _) in self.fields.items()])
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(list(self.rows), schema), out, compression="zstd")
        return out.getvalue()


def repository_in(address: str) -> str:
    """Return ``OWNER/NAME`` of ``hf://datasets/OWNER/NAME``; raises `UsageError` for another address."""
    matched = ADDRESS.fullmatch(address)
    if matched is None or ".." in address or "--" in address:
        raise UsageError(f"{address} does not name a dataset repository; write hf://datasets/OWNER/NAME.")
    return matched[1]


def dataset_files(leaderboards: Sequence[Leaderboard], repository: str, release: str) -> dict[str, bytes]:
    """Return path -> content of the files in the repository of a release."""
    files = [rankings_of(leaderboards), findings_of(leaderboards), numbers_of(leaderboards), entries_of(leaderboards)]
    contents = {file.path: file.content() for file in files}
    facts = croissant(leaderboards, files, contents, repository, release)
    return contents | {
        "README.md": card(leaderboards, files, repository, release).encode(),
        "croissant.json": (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode(),
    }


def rankings_of(leaderboards: Sequence[Leaderboard]) -> File:
    """Return the file of rankings, with a row for each entry of each ranking."""
    fields = {"track": (pa.string(), "Track."), "table": (pa.string(), "Ranking."), "entry": (pa.string(), "Entry.")}
    for key in _RANKED:
        fields[key] = (
            pa.float64(),
            f"The ranking's column {key}; `numbers` has its label and says which direction is better.",
        )
        fields |= {f"{key}_{end}": (pa.float64(), f"The {end} end of its 95% interval.") for end in ("low", "high")}
    fields |= {
        "winner": (pa.bool_(), "Whether it is the winner."),
        "against": (pa.string(), "Against no defense: better, undecided or worse."),
        "control": (pa.string(), "What control it is; a control never wins. Empty for an entry."),
        "complete": (pa.bool_(), "Whether it was measured in every setting."),
        "may_be_best": (pa.bool_(), "Whether it may win and no such entry is shown to be better."),
        "gate": (pa.string(), "Whether it keeps what a winner must: passes, fails, doubtful, undecided, not measured."),
        "flags": (pa.string(), "Why its protection is only an upper bound."),
    }
    rows = []
    for leaderboard in leaderboards:
        for ranking in leaderboard.rankings:
            ranked_rows = next((table.rows for table in leaderboard.tables if table.id == ranking.table), ())
            rows += [{"track": leaderboard.track, **_ranking_facts(ranking, row)} for row in ranked_rows]
    return File("rankings", "an entry of a ranking", fields, rows)


def _ranking_facts(ranking: Ranking, row: Row) -> dict[str, Any]:
    """Return a row of the file of rankings, without its track."""
    facts: dict[str, Any] = {"table": ranking.table, "entry": row.label, "winner": row.label == ranking.winner}
    facts["may_be_best"] = row.label in ranking.may_be_best
    for key in _RANKED:
        value = row.values.get(key) or Value()
        facts |= {key: value.value, f"{key}_low": value.low, f"{key}_high": value.high}
    standing = ranking.places.get(row.label)
    if standing is not None:
        facts |= {"control": standing.control, "complete": standing.complete, "gate": standing.gate}
        facts["against"] = standing.against.verdict if standing.against else ""
        facts["flags"] = "; ".join(standing.flags)
    return facts


def findings_of(leaderboards: Sequence[Leaderboard]) -> File:
    """Return the file of findings, with a row for every sentence that a ranking states."""
    fields = {
        "track": (pa.string(), "Track."),
        "table": (pa.string(), "Ranking."),
        "tier": (pa.string(), "shown, ruled out or open."),
        "kind": (pa.string(), "What kind of sentence it is."),
        "entry": (pa.string(), "Of whom it is said."),
        "text": (pa.string(), "The sentence."),
        "numbers": (pa.string(), "What it is made of, as JSON."),
    }
    rows = [
        {
            "track": leaderboard.track,
            "table": ranking.table,
            "tier": finding.tier,
            "kind": finding.kind,
            "entry": finding.entry,
            "text": finding.text,
            "numbers": finding.model_dump_json(exclude={"tier", "kind", "entry", "text"}),
        }
        for leaderboard in leaderboards
        for ranking in leaderboard.rankings
        for finding in ranking.findings
    ]
    return File("findings", "a sentence that a ranking states", fields, rows)


def numbers_of(leaderboards: Sequence[Leaderboard]) -> File:
    """Return the file of numbers, with a row for every number of every table."""
    fields = {
        "track": (pa.string(), "Track."),
        "table": (pa.string(), "Table."),
        "title": (pa.string(), "Title of the table."),
        "entry": (pa.string(), "Entry of the row."),
        "facets": (pa.string(), "Facets of the row, as JSON."),
        "column": (pa.string(), "Key of the column."),
        "label": (pa.string(), "Label of the column."),
        "description": (pa.string(), "What the column is."),
        "better": (pa.string(), "higher, lower, or empty."),
        "value": (pa.float64(), "The number; null if there is none."),
        "low": (pa.float64(), "The low end of its 95% interval."),
        "high": (pa.float64(), "The high end of it."),
        "n": (pa.int64(), "Number of units behind it."),
        "clusters": (pa.int64(), "Number of sources of these units."),
        "missing": (pa.string(), "Why there is no number."),
    }
    rows = [
        {
            "track": leaderboard.track,
            "table": table.id,
            "title": table.title,
            "entry": row.label,
            "column": column.key,
            "label": column.label,
            "description": column.description,
            "better": column.better,
            "facets": json.dumps(dict(row.facets), ensure_ascii=False),
            **(row.values.get(column.key) or Value(missing="not measured")).model_dump(),
        }
        for leaderboard in leaderboards
        for table in leaderboard.tables
        for row in table.rows
        for column in table.columns
    ]
    return File("numbers", "a number of a table", fields, rows)


def entries_of(leaderboards: Sequence[Leaderboard]) -> File:
    """Return the file of entries, with a row for every component that took part and its origin."""
    about = {
        "kind": "What it is: attack, defense, metric and so on.", "id": "Its id, owner/method.",
        "label": "Its id with the parameters that differ from their defaults.", "version": "Version of its numbers.",
        "summary": "What it does.", "package": "The package that it comes from.", "package_version": "Version of it.",
        "author": "Author of the package.", "licence": "Licence of the package.", "paper": "Where it was published.",
        "paper_url": "Address of the paper.",
    }  # fmt: skip
    fields = {"track": (pa.string(), "Track."), **{name: (pa.string(), text) for name, text in about.items()}}
    rows = [
        {"track": leaderboard.track, **{k: getattr(entry, k) for k in about}}
        for leaderboard in leaderboards
        for entry in leaderboard.entries
    ]
    return File("entries", "a component that took part", fields, rows)


def croissant(
    leaderboards: Sequence[Leaderboard],
    files: Sequence[File],
    contents: Mapping[str, bytes],
    repository: str,
    release: str,
) -> dict[str, Any]:
    """Return the metadata as JSON-LD in the format Croissant 1.0."""
    home, cited = f"https://huggingface.co/datasets/{repository}", re.sub(r"[^A-Za-z0-9]+", "-", repository)
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": repository.partition("/")[2],
        "description": ABOUT,
        "url": home,
        "license": LICENCE_URL,
        **_version(release),
        "datePublished": max((leaderboard.finished for leaderboard in leaderboards), default="")[:10],
        "creator": {"@type": "sc:Organization", "name": "The image-privacy-harness authors"},
        "citeAs": f"@misc{{{cited}, title={{{TITLE}}}, url={{{home}}}, note={{{release}}}}}",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": file.path,
                "name": file.path,
                "contentUrl": f"{home}/resolve/{release}/{file.path}",
                "contentSize": f"{len(contents[file.path])} B",
                "encodingFormat": "application/x-parquet",
                "sha256": sha256_of(contents[file.path]),
            }
            for file in files
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": file.name,
                "name": file.name,
                "description": f"Each row is {file.about}.",
                "field": [
                    {
                        "@type": "cr:Field",
                        "@id": f"{file.name}/{name}",
                        "name": name,
                        "description": about,
                        "dataType": _TYPES[kind],
                        "source": {"fileObject": {"@id": file.path}, "extract": {"column": name}},
                    }
                    for name, (kind, about) in file.fields.items()
                ],
            }
            for file in files
        ],
    }


def _version(release: str) -> dict[str, str]:
    """Return the version as Croissant requires it, MAJOR.MINOR.PATCH, if the release's name is up to three numbers."""
    if not re.fullmatch(r"\d+([.-]\d+){0,2}", release, re.ASCII):
        return {}
    numbers = [int(digits) for digits in re.split("[.-]", release)]
    return {"version": ".".join(map(str, [*numbers, 0, 0][:3]))}


def card(leaderboards: Sequence[Leaderboard], files: Sequence[File], repository: str, release: str) -> str:
    """Return the dataset card: its YAML header, who won, what the files hold, and how the numbers were made."""
    rows = sum(len(file.rows) for file in files)
    size = next((name for name, most in _SIZES if rows < most), "n>1T")
    configs = list[str]()
    for position, file in enumerate(files):
        configs.append(f"- config_name: {file.name}")
        configs += ["  default: true"] if position == 0 else []
        configs += ["  data_files:", "  - split: train", f"    path: {file.path}"]
    header = [
        "---",
        f"license: {LICENCE}",
        f"pretty_name: {json.dumps(TITLE)}",
        "language:",
        "- en",
        "tags:",
        "- benchmark",
        "- leaderboard",
        "- robustness",
        "- privacy",
        "- image-quality-assessment",
        "size_categories:",
        f"- {size}",
        "configs:",
        *configs,
        "---",
    ]
    esc = markdown_text
    headlines = list[str]()
    for leaderboard in leaderboards:
        for ranking in leaderboard.rankings:
            where = f"({esc(leaderboard.track)}, {esc(ranking.table)})"
            headlines.append(f"- **{esc(leaderboard.title)}** {where}: {esc(ranking.claim)}")
            sentences = first_sentences(ranking.findings, "in the file findings")
            headlines += [f"  - {esc(text)}" for text in sentences]
    run_lines = [
        f"- {esc(leaderboard.track)}: `{_code(leaderboard.command)}`, profile {esc(leaderboard.profile)}, "
        f"seed {leaderboard.seed}, "
        f"{leaderboard.tasks_done:,} tasks, {leaderboard.tasks_failed:,} failed, "
        f"{leaderboard.tasks_missing:,} parts missing, "
        f"{esc(leaderboard.finished)}"
        for leaderboard in leaderboards
    ]
    fields = list[str]()
    for file in files:
        fields += ["", f"### {file.name}", "", f"Each row is {file.about}.", ""]
        fields += ["| column | what it is |", "| :--- | :--- |"]
        fields += [f"| {esc(name)} | {esc(about)} |" for name, (_, about) in file.fields.items()]
    load = f'load_dataset("{repository}", "rankings", split="train", revision="{release}")'
    return "\n".join(
        [
            *header,
            "",
            f"# {TITLE}",
            "",
            f"{ABOUT} This is release {esc(release)}.",
            "",
            "## What the leaderboards say",
            "",
            *headlines,
            "",
            "## Load it",
            "",
            "```python",
            "from datasets import load_dataset",
            "",
            load,
            "```",
            "",
            "## Files",
            *fields,
            "",
            "## How the numbers were made",
            "",
            *run_lines,
            "",
            "`croissant.json` says the same for programs, with the sha256 of each file.",
            "",
        ]
    )


def _code(text: str) -> str:
    """Return a text that can stand between backquotes."""
    return plain(text).replace("`", "'")


_SIZES = (
    ("n<1K", 10**3), ("1K<n<10K", 10**4), ("10K<n<100K", 10**5), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7),
    ("10M<n<100M", 10**8), ("100M<n<1B", 10**9), ("1B<n<10B", 10**10),
)  # fmt: skip
_CONTEXT = {
    "@language": "en", "@vocab": "https://schema.org/", "citeAs": "cr:citeAs", "column": "cr:column",
    "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty", "extract": "cr:extract",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "field": "cr:field", "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject", "fileSet": "cr:fileSet",
    "format": "cr:format", "includes": "cr:includes", "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath",
    "key": "cr:key", "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path",
    "recordSet": "cr:recordSet", "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated",
    "replace": "cr:replace", "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/", "separator": "cr:separator", "source": "cr:source",
    "subField": "cr:subField", "transform": "cr:transform",
}  # fmt: skip
