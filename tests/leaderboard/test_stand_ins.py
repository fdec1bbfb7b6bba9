"""A small network in place of a published one is called a stand-in in every file of a table."""

import csv
import json
from pathlib import Path

from imharness.documents.tables import Row, Value
from imharness_leaderboard.citations import data_line
from imharness_leaderboard.folder import SiteFolder
from imharness_leaderboard.numbers import write_tables

from .conftest import sample_leaderboard
from .contested import report

SMALL, PUBLISHED = "harness/real-esrgan[backbone=embedded]", "harness/real-esrgan"


def test_every_file_of_a_table_names_stand_ins(tmp_path: Path) -> None:
    main = sample_leaderboard().tables[0]
    rows = tuple(Row(label=label, values={"d": Value(value=1.0)}) for label in (PUBLISHED, SMALL, "harness/flip"))
    table = main.model_copy(update={"rows": rows, "not_worse": {}, "title": "Defenses", "caption": f"As {SMALL}."})
    site = SiteFolder(tmp_path)
    write_tables(site, sample_leaderboard(tables=(table,), comparisons=(), charts=()))
    site.finish()
    folder = tmp_path / "data" / "acme--evil"
    lines = list(csv.DictReader((folder / "main.csv").read_text(encoding="utf-8").splitlines()))
    assert [line["stand_in"] for line in lines] == ["", "stand-in", ""]
    assert json.loads((folder / "main.json").read_text(encoding="utf-8"))["standing"]["stand_in"][1] == "stand-in"
    assert r"real-esrgan (stand-in) &" in (folder / "main.tex").read_text(encoding="utf-8")
    assert "backbone" not in (folder / "main.tex").read_text(encoding="utf-8").partition("tabular")[2]


def test_the_demo_mark_belongs_to_the_tracks_whose_data_stand_in() -> None:
    original = report()
    demo = sample_leaderboard(tables=tuple(original.tables), rankings=tuple(original.rankings), title="Demo", charts=())
    ranking = original.rankings[0].model_copy(update={"proxies": ()})
    real = sample_leaderboard(tables=tuple(original.tables), rankings=(ranking,), title="Digits", charts=())
    assert data_line([demo]) == (True, "Demo: stand-in data, not citable.")
    assert data_line([demo, real]) == (True, "Demo: stand-in data, not citable, in Demo; citable: Digits.")
    assert data_line([real])[0] is False
