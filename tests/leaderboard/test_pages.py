"""The pages show what the leaderboards hold, escaped, as valid HTML, and load nothing from elsewhere."""

import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import html5lib
import numpy as np
import pyarrow.parquet as pq
import pytest

from imharness.documents.tables import ColumnSpec, Value
from imharness.errors import StoreError
from imharness.exports import sheet_of
from imharness.exports.marks import Marks
from imharness.reading.credits import credits
from imharness.results.store import Store
from imharness.results.version import SCHEMA
from imharness_leaderboard.addresses import slug
from imharness_leaderboard.folder import SiteFolder
from imharness_leaderboard.numbers import write_comparisons
from imharness_leaderboard.pages import build_site
from imharness_leaderboard.scores import Scores
from imharness_leaderboard.tables import headline, marks_of, shade

from .browsing import words_of
from .conftest import ENTRIES, EVIL, many, paired, sample_leaderboard, save
from .contested import LEVELS, STRENGTHS, report


def pages(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.html")}


def test_every_kind_of_page_is_there(built: Path) -> None:
    names = set(pages(built))
    assert {
        "index.html",
        "acme--evil.html",
        "plain.html",
        "methods.html",
        "compare.html",
        "changes.html",
        "data.html",
        "credits.html",
        "acme--evil/main.html",
        "acme--evil/wins.html",
        "acme--evil/conditions-defense.html",
        "acme--evil/gallery.html",
        "entries/defense-acme--blur.html",
    } <= names
    assert sum(name.startswith("entries/") for name in names) == len(ENTRIES) + len(LEVELS) + len(STRENGTHS)


def test_every_page_leads_to_the_credits_of_photographs_and_weights(built: Path) -> None:
    credits_page = unescape(pages(built)["credits.html"])
    for one in credits():
        licence = f"{one.licence}, {one.terms}" if one.terms else one.licence
        assert {one.title, one.attribution, licence} <= set(re.findall(r">([^<]+)(?:</a>)?</t[dh]>", credits_page))
    assert all("credits.html" in text for text in pages(built).values())


def test_everything_is_escaped(built: Path) -> None:
    for name, text in pages(built).items():
        assert EVIL not in text, name
        assert 'onmouseover="alert' not in text
        assert "javascript:" not in text
        assert not re.search(r"<script>|</script>alert", text.replace('<script src="', ""))
    assert "&lt;script&gt;" in pages(built)["acme--evil.html"]


def test_every_page_is_valid_html_and_loads_nothing_from_elsewhere(built: Path) -> None:
    for name, text in pages(built).items():
        assert not re.search(r'(src|action)="(https?:)?//', text)
        assert "default-src 'none'" in text
        try:
            tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
        except html5lib.html5parser.ParseError as error:
            pytest.fail(f"{name}: {error}")
        for element in tree.iter():
            assert element.tag != "style"
            assert not [name for name in element.attrib if name == "style" or name.startswith("on")]
            assert element.tag != "script" or "src" in element.attrib


def test_ids_are_unique_and_links_lead_somewhere(built: Path) -> None:
    for name, text in pages(built).items():
        ids = re.findall(r'\bid="([^"]+)"', text)
        assert len(ids) == len(set(ids)), name
        for link in re.findall(r'(?:href|src)="([^"#]+)"', text):
            if not link.startswith("https://"):  # of entries, and of pages of the documentation
                assert ((built / name).parent / link.partition("?")[0]).exists(), f"{name}: {link}"


@pytest.mark.parametrize(
    ("value", "step"),
    [
        *((Value(value=x), step) for x, step in ((-1, 0), (0, 0), (5, 2), (10, 5), (20, 10), (60, 10))),
        (Value(), 0),
        (None, 0),
    ],
)
def test_a_heat_map_has_ten_steps_of_colour_up_to_its_largest_number(value: Value | None, step: int) -> None:
    table = report().tables[0].model_copy(update={"shading": 20.0})
    assert shade(value, table) == step
    assert shade(value, table.model_copy(update={"shading": None})) == 0


def test_numbers_come_with_interval_n_and_reasons(built: Path) -> None:
    text = pages(built)["acme--evil.html"]
    assert ">1.250<" in text
    assert "1.000 – 1.500, n 7" in text
    assert "first 3 images" in text
    assert "not shown to be worse" in text
    assert f'title="{EVIL.replace("<", "&lt;").replace(">", "&gt;").replace(chr(39), "&#39;")}">–' in text


def test_the_first_page_names_winners_with_a_sentence() -> None:
    assert headline(sample_leaderboard()) == {
        "label": "acme/blur",
        "entry": "defense",
        "text": "D 1.250, 95% interval 1.000 to 1.500; not shown to be worse: acme/blur[radius=2].",
    }
    clear = sample_leaderboard(tables=(sample_leaderboard().tables[0].model_copy(update={"not_worse": {"d": ()}}),))
    assert "shown to be better than every other defense" in headline(clear)["text"]
    empty = sample_leaderboard().tables[0].rows[0].model_copy(update={"values": {"d": Value(missing="why")}})
    assert (
        headline(sample_leaderboard(tables=(sample_leaderboard().tables[0].model_copy(update={"rows": (empty,)}),)))
        is None
    )


def test_the_first_page_names_the_rows_that_the_table_marks() -> None:
    """A comparison may have entries without a row in the table, such as variants that were not chosen."""
    main = sample_leaderboard().tables[0].model_copy(update={"not_worse": {"d": ("acme/gone", *ENTRIES[1:3])}})
    marks = marks_of(sample_leaderboard(tables=(main,)), main)
    marked = [row.label for row in main.rows if marks.of(row, main.columns[0])]
    assert marked == list(ENTRIES[:3])
    assert headline(sample_leaderboard(tables=(main,)))["text"].endswith(
        "; not shown to be worse: acme/blur[radius=2] and acme/none."
    )


def test_n_is_shown_as_units_and_what_they_come_from(built: Path) -> None:
    column = ColumnSpec(key="d", label="D", description="", unit="image", cluster_unit="photograph")
    assert column.count(Value(value=1.0, n=36, clusters=4)) == "36 images of 4 photographs"
    assert column.count(Value(value=1.0, n=1, clusters=1)) == "1 image of 1 photograph"
    assert column.count(Value(value=1.0)) == ""
    split = ColumnSpec(key="d", label="D", description="", unit="split", cluster_unit="split")
    assert split.count(Value(value=1.0, n=12, clusters=12)) == "12 splits"
    assert ColumnSpec(key="d", label="D", description="").count(Value(value=1.0, n=3, clusters=2)) == "n 3 of 2 sources"
    text = words_of(pages(built)["plain.html"])
    assert "1.000 – 1.500, 7 images of 3 photographs" in text
    assert (
        "Simultaneous 95% intervals of the differences between all rows over photographs, each with the mean over its "
        "images." in text
    )
    assert "between all rows over paired images." in words_of(pages(built)["acme--evil.html"])
    lines = (built / "data" / "plain" / "main.csv").read_text().splitlines()
    assert lines[0].startswith("defense,facet family,D,D low,D high,D n,D clusters,")
    assert lines[1].startswith("acme/blur,filter,1.25,1.0,1.5,7,3,")
    stored = json.loads((built / "data" / "plain" / "main.json").read_text())
    assert stored["rows"][0]["values"]["d"]["clusters"] == 3
    index = json.loads((built / "data" / "plain" / "wins.vectors.json").read_text())
    assert len(index["clusters"]) == len(index["units"]) == 15
    assert index["alphas"][:5] == [None] * 5


def test_the_best_number_is_the_one_the_ranking_puts_first() -> None:
    main = sample_leaderboard().tables[0]
    marks = Marks(main)
    assert [marks.best(column) for column in main.columns] == [1.25, 2.0]
    assert Marks(main).best(main.columns[0].model_copy(update={"better": ""})) is None
    assert Marks(main.model_copy(update={"rows": main.rows[1:]})).best(main.columns[1]) is None


def test_pages_and_exports_mark_the_same_numbers() -> None:
    original = report()
    leaderboard = sample_leaderboard(tables=tuple(original.tables), rankings=tuple(original.rankings), charts=())
    for table in leaderboard.tables:
        marks, sheet = marks_of(leaderboard, table), sheet_of(table, leaderboard)
        displayed = [[marks.of(row, column) for column in table.columns] for row in table.rows]
        assert displayed == [[cell.mark for cell in line.cells] for line in sheet.lines]
    marked = {
        row.label
        for row in leaderboard.tables[0].rows
        if marks_of(leaderboard, leaderboard.tables[0]).of(row, leaderboard.tables[0].columns[1])
    }
    controls = {label for label, position in leaderboard.rankings[0].places.items() if position.control}
    assert marked
    assert controls
    waiting = leaderboard.model_copy(update={"waiting": 3})
    assert not any(
        marks_of(waiting, table).of(row, column)
        for table in waiting.tables
        for row in table.rows
        for column in table.columns
    )


def test_every_number_is_a_file(built: Path) -> None:
    table = pq.read_table(built / "data" / "acme--evil" / "main.parquet").to_pydict()
    assert table["defense"] == list(ENTRIES)
    assert table["D"] == [1.25, 2.25, 3.25, 4.25]
    assert table["D n"] == [7] * 4
    lines = (built / "data" / "acme--evil" / "main.csv").read_text().splitlines()
    assert lines[1].startswith("acme/blur,filter,1.25,1.0,1.5,7")
    results = json.loads((built / "data" / "results.json").read_text())
    assert results["schema_version"] == SCHEMA
    schema = json.loads((built / "data" / "results.schema.json").read_text())
    allowed = set(schema["$defs"]["Leaderboard"]["properties"])
    assert all(set(b) <= allowed for b in results["leaderboards"])


def test_vectors_are_the_stored_scores(built: Path) -> None:
    folder = built / "data" / "acme--evil"
    index = json.loads((folder / "wins.vectors.json").read_text())
    comparison, numbers = paired().stored()
    for i, name in enumerate(index["files"]):
        np.testing.assert_array_equal(np.frombuffer((folder / name).read_bytes(), "<f4"), numbers[i])
    assert index["starts"] == comparison.starts()
    assert index["pairs"] == len(comparison.entries) * (len(comparison.entries) - 1)
    assert index["pairwise_alpha"] == comparison.pairwise_alpha
    assert [index["units"][i] for i in index["unit_sets"][0]] == list(comparison.unit_sets[0])


def test_scores_that_need_it_are_published_with_64_bits(tmp_path: Path) -> None:
    leaderboard = sample_leaderboard()
    comparison, numbers = paired().stored()
    far = numbers.astype(np.float64) + 1e6
    site = SiteFolder(tmp_path)
    write_comparisons(site, leaderboard, [Scores(leaderboard, comparison, far)], "pool")
    site.finish()
    (index,) = tmp_path.rglob("*.vectors.json")
    for i, name in enumerate(json.loads(index.read_text())["files"]):
        assert name.endswith(".f64")
        np.testing.assert_array_equal(np.frombuffer((index.parent / name).read_bytes(), "<f8"), far[i])


def test_a_spreadsheet_is_given_no_formula(tmp_path: Path) -> None:
    table = sample_leaderboard().tables[0]
    table = table.model_copy(update={"rows": (table.rows[0].model_copy(update={"label": "=1+1"}),)})
    save(Store(tmp_path / "store"), sample_leaderboard(tables=(table,)))
    build_site(tmp_path / "store", tmp_path / "site")
    assert (tmp_path / "site" / "data" / "acme--evil" / "main.csv").read_text().splitlines()[1].startswith("'=1+1,")


def test_names_of_files_are_safe_and_apart() -> None:
    labels = ["a/b", "a--b", "A/b", "a/b[c=1]", "a/b[c=2]", "../../x", "", EVIL, "x" * 300, "a/b/c"]
    names = [slug(label) for label in labels]
    assert len(set(names)) == len(labels)
    assert all(re.fullmatch(r"[a-z0-9._-]{1,80}", name) and not name.startswith(".") for name in names)


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()
    }


def test_the_same_store_gives_the_same_bytes_and_touches_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    save(store, sample_leaderboard(store))
    build_site(tmp_path / "store", tmp_path / "site")
    before = state(tmp_path / "site")
    build_site(tmp_path / "store", tmp_path / "site")
    assert state(tmp_path / "site") == before
    build_site(tmp_path / "store", tmp_path / "other")
    assert {n: b for n, (b, _) in state(tmp_path / "other").items()} == {n: b for n, (b, _) in before.items()}


def test_what_is_gone_from_the_store_is_gone_from_the_site_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    save(store, sample_leaderboard(store))
    save(store, sample_leaderboard(track="acme/second", title="Second"))
    build_site(tmp_path / "store", tmp_path / "site")
    (tmp_path / "site" / "mine.html").write_text("kept")
    (tmp_path / "store" / "leaderboards" / "acme--second.json").unlink()
    build_site(tmp_path / "store", tmp_path / "site")
    assert not (tmp_path / "site" / "acme--second.html").exists()
    assert not (tmp_path / "site" / "acme--second").exists()
    assert (tmp_path / "site" / "mine.html").read_text() == "kept"


def test_a_damaged_leaderboard_is_named_and_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    save(store, sample_leaderboard(store))
    save(store, sample_leaderboard(track="acme/second", title="Second"))
    path = tmp_path / "store" / "leaderboards" / "acme--second.json"
    path.write_bytes(path.read_bytes()[:5000])
    result = build_site(tmp_path / "store", tmp_path / "site")
    assert any("acme/second" in line and "its seal does not fit" in line for line in result.problems)
    assert not (tmp_path / "site" / "acme--second.html").exists()
    path.with_name("acme--evil.json").write_text("{}")
    with pytest.raises(StoreError, match="acme/evil"):
        build_site(tmp_path / "store", tmp_path / "site")


def test_damaged_vectors_and_images_are_named_and_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    save(store, sample_leaderboard(store))
    (vectors,) = (tmp_path / "store" / "leaderboards").glob("acme--evil.*.safetensors")
    vectors.write_bytes(vectors.read_bytes()[:-4] + b"oops")
    (image,) = (tmp_path / "store" / "artifacts").glob("*/*.safetensors")
    image.write_bytes(b"\0" * image.stat().st_size)
    result = build_site(tmp_path / "store", tmp_path / "site")
    assert any("cannot run the tests themselves" in line and "damaged" in line for line in result.problems)
    assert any("acme/blur" in line and "damaged" in line for line in result.problems)
    assert not (tmp_path / "site" / "images").exists()
    assert not list((tmp_path / "site" / "data").rglob("*.f32"))


def test_tables_of_another_version_are_marked_stale(tmp_path: Path) -> None:
    save(Store(tmp_path / "store"), sample_leaderboard(scored_by={"image-privacy-harness": "0.0.1"}))
    result = build_site(tmp_path / "store", tmp_path / "site")
    assert any("made by image-privacy-harness 0.0.1" in line for line in result.problems)
    assert (
        "<strong>Stale:</strong> made by image-privacy-harness 0.0.1" in (tmp_path / "site/acme--evil.html").read_text()
    )


def test_a_store_without_tables_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run `harness run --all` first"):
        build_site(tmp_path / "nothing", tmp_path / "site")


def test_a_table_without_rows_says_so(tmp_path: Path) -> None:
    save(
        Store(tmp_path / "store"),
        sample_leaderboard(tables=(sample_leaderboard().tables[0].model_copy(update={"rows": ()}), many(3))),
    )
    build_site(tmp_path / "store", tmp_path / "site")
    assert "No rows yet" in (tmp_path / "site" / "acme--evil.html").read_text()


def test_building_the_site_loads_no_torch(tmp_path: Path) -> None:
    save(Store(tmp_path / "store"), sample_leaderboard())
    code = (
        "import sys\nfrom pathlib import Path\nfrom imharness_leaderboard.pages import build_site\n"
        f"build_site(Path({str(tmp_path / 'store')!r}), Path({str(tmp_path / 'site')!r}))\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
