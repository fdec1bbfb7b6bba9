"""`Result`, what an evaluation returns: its tables and rows, its text, page, picture and data frame."""

from pathlib import Path

import numpy as np
import pytest

from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.errors import UsageError
from imharness.exports import latex, markdown, sheet_of
from imharness.notebook.load import joined
from imharness.notebook.result import Result
from imharness.notebook.writing import WIDEST, leading
from imharness.results.sweeps import Missing

TABLE = Table(
    id="main",
    title="Defenses <b>",
    caption="50% of _all_ & more",
    entry="defense",
    ranked_by="d",
    columns=(
        ColumnSpec(key="d", label="D|", description="distance", better="lower", decimals=2),
        ColumnSpec(key="ms", label="time", description="ms", decimals=1),
    ),
    rows=(
        Row(label="mine<script>", values={"d": Value(value=0.25, low=0.125, high=0.5, n=8), "ms": Value(value=3.0)}),
        Row(label="harness/jpeg", values={"d": Value(value=0.5), "ms": Value(missing="not timed")}),
    ),
)


@pytest.fixture
def result() -> Result:
    rows = {"evaluate": lambda: {"name": np.array(["a", "b"]), "score": np.array([1.0, 2.0])}}
    return Result(
        "a test",
        [TABLE],
        rows,
        failed={"attack x": "boom\n  here"},
        missing=[Missing(what="lpips", reason="no weights", remedy="harness assets fetch")],
    )


def test_a_result_gives_tables_and_rows_by_name_and_says_which_names_there_are(result: Result) -> None:
    assert list(result.tables) == ["main"]
    assert result.table().labels == ("mine<script>", "harness/jpeg")
    np.testing.assert_array_equal(result.table("main").column("ms"), [3.0, np.nan])
    assert result.rows("evaluate")["score"].tolist() == [1.0, 2.0]
    assert result.rows()["name"].tolist() == ["a", "b"]
    with pytest.raises(UsageError, match=r"table: no table is called 'mian'\. Did you mean 'main'"):
        result.table("mian")
    with pytest.raises(UsageError, match="step: no step is called 'attack'"):
        result.rows("attack")
    with pytest.raises(UsageError, match="has no table"):
        Result("nothing").table()


def test_a_result_shows_itself_as_a_short_table_with_what_failed(result: Result) -> None:
    text = repr(result)
    assert "mine<script>  0.25 [0.12, 0.50]  ━" in text
    assert max(map(len, text.splitlines())) <= WIDEST
    assert "a: No number: not timed." in text
    assert "attack x: boom here" in text
    assert "lpips" in text


def test_what_is_shown_in_a_notebook_is_escaped(result: Result) -> None:
    page = result._repr_html_()
    assert "<script>" not in page
    assert "mine&lt;script&gt;" in page
    assert "Defenses &lt;b&gt;" in page
    assert "<b>0.25" in page


def test_latex_and_markdown_are_those_of_the_exports(result: Result) -> None:
    assert result.to_latex() == latex(sheet_of(TABLE))
    assert result.to_markdown("main", columns=["d"], caption="short") == markdown(
        sheet_of(TABLE, columns=["d"], caption="short")
    )


def test_a_picture_is_svg_of_the_ranked_column_and_the_same_every_time(result: Result) -> None:
    picture = result.plot()
    assert picture.svg == result.plot("main", "d").svg
    assert "mine&lt;script&gt;" in picture.svg
    assert "<script>" not in picture.svg
    with pytest.raises(UsageError, match="column: no column is called 'dd'"):
        result.plot(column="dd")


def test_a_picture_is_saved_in_the_format_that_its_name_says(result: Result, tmp_path: Path) -> None:
    picture = result.plot()
    begins = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    for form, begin in begins.items():
        picture.save(tmp_path / f"p.{form}")
        assert (tmp_path / f"p.{form}").read_bytes().startswith(begin)
    with pytest.raises(UsageError, match=r"path: 'p\.jpg' does not end in one of \.svg, \.pdf, \.png"):
        picture.save(tmp_path / "p.jpg")
    assert not (tmp_path / "p.jpg").exists()


def test_a_picture_of_a_ranking_shows_what_was_measured_and_places_are_whole() -> None:
    columns = (
        ColumnSpec(key="rank", label="rank", description="", better="lower", decimals=0),
        ColumnSpec(key="worst", label="pairs reversed %", description="", better="lower", decimals=1),
    )
    rows = tuple(
        Row(label=f"e{i}", values={"rank": Value(value=i + 1), "worst": Value(value=20.5 + i)}) for i in range(2)
    )
    table = Table(id="t", title="T", caption="", entry="defense", columns=columns, rows=rows, ranked_by="rank")
    result = Result("a test", [table])
    assert "pairs reversed %" in result.plot().svg
    ticks = result.plot(column="rank").figure.axes[0].get_xticks()
    assert all(float(tick).is_integer() for tick in ticks)


def test_a_cause_of_many_failed_tasks_is_said_once() -> None:
    text = repr(Result("a test", failed={f"task {i}": "folder x: i3.png is not an image" for i in range(30)}))
    assert text.count("i3.png") == 1
    assert "30 tasks failed" in text
    assert "so did 29 other tasks" in text


def test_data_frames_need_pandas_and_say_how_to_get_it(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(Exception, match=r"data frames need pandas; get it with: pip install 'image-privacy-harness"):
        result.to_dataframe()


def test_a_data_frame_has_the_numbers_their_intervals_and_the_entries_as_index(result: Result) -> None:
    pytest.importorskip("pandas")
    frame = result.to_dataframe()
    assert frame.index.tolist() == ["mine<script>", "harness/jpeg"]
    assert frame["d_low"].tolist()[0] == 0.125
    assert set(frame.attrs["labels"]) == {"d", "ms"}
    assert set(frame.attrs["descriptions"]) == {"d", "ms"}
    assert frame.attrs["counted"] == {column.key: column.unit for column in result.table().spec.columns if column.unit}
    assert result.to_dataframe(step="evaluate")["score"].tolist() == [1.0, 2.0]


def test_a_short_table_has_a_column_of_each_measure_before_a_second_one_of_any() -> None:
    columns = tuple(
        ColumnSpec(key=f"{group}_{name}", label=f"{name}, {group}", description=name)
        for name in ("d", "r", "srocc")
        for group in "abc"
    )
    table = Table(id="t", title="", caption="", entry="defense", columns=columns, rows=(), ranked_by="b_d")
    assert leading(table) == ["b_d", "a_d", "a_r", "a_srocc", "b_r", "b_srocc"]


def defenses(id: str, *labels: str) -> Table:
    """Return a table of defenses with the numbers 1, 2, ... and intervals of 1 to either side."""
    rows = tuple(
        Row(label=label, values={"d": Value(value=i + 1.0, low=i, high=i + 2)}) for i, label in enumerate(labels)
    )
    return TABLE.model_copy(update={"id": id, "rows": rows})


def test_the_first_line_is_about_the_object_of_the_user_and_its_row_comes_first() -> None:
    result = Result("a test", [defenses("main", "harness/jpeg", "local/mine", "harness/none")])
    lines = repr(result).splitlines()
    assert lines[0] == "mine: D| 2.00, number 2 of 3 defenses; JPEG has 1.00."
    assert [line.split()[0] for line in lines[3:6]] == ["local/mine", "jpeg", "none"]
    assert result.table().labels == ("harness/jpeg", "local/mine", "harness/none")
    page = result._repr_html_()
    assert page.startswith("<p><strong>mine: D| 2.00, number 2 of 3 defenses; JPEG has 1.00.</strong></p>")
    assert page.index("local/mine") < page.index("jpeg</th>")
    assert page.count("<svg") == 3
    unknown = Row(label="local/mine", values={"d": Value(missing="not timed")})
    table = defenses("main", "harness/jpeg")
    assert Result("a test", [table.model_copy(update={"rows": (*table.rows, unknown)})]).verdicts == ()


def test_notes_are_folded_in_a_notebook_and_failures_are_not(result: Result) -> None:
    above, _, folded = result._repr_html_().partition("<details>")
    assert "attack x: boom here" in above
    assert "No number: not timed." not in above
    assert "No number: not timed." in folded
    assert "Missing: lpips" in folded


def test_bars_are_on_one_scale_with_the_dot_at_the_number() -> None:
    text = repr(Result("a test", [defenses("main", "harness/a", "harness/b", "harness/c")]))
    bars = [next(cell for cell in line.split("  ") if "●" in cell) for line in text.splitlines()[2:5]]
    # 20 characters stand for 0 to 4, the ends of all intervals
    assert [bar.index("●") for bar in bars] == [round(i / 4 * 19) for i in (1, 2, 3)]
    assert [len(bar) for bar in bars] == [20, 20, 20]
    assert bars[0].startswith("━")
    assert bars[0].endswith("·")
    assert bars[2].startswith("·")
    assert bars[2].endswith("━")


def test_an_entry_is_looked_for_in_all_tracks_and_tables() -> None:
    iqa = Result(
        "iqa", [defenses("ranking", "harness/jpeg[quality=40]", "harness/none"), defenses("m", "harness/lpips")]
    )
    gradients = defenses("ranking", "harness/lenet + harness/none", "harness/lenet + harness/ats")
    result = joined([("harness/iqa", iqa), ("harness/reconstruction", Result("r", [gradients]))], "store")
    assert [result[name].label for name in ("jpeg", "jpeg[quality=40]", "lpips", "LPIPS")] == [
        "harness/jpeg[quality=40]",
        "harness/jpeg[quality=40]",
        "harness/lpips",
        "harness/lpips",
    ]
    assert result["ats"].table == "reconstruction/ranking"
    assert result["ats"].values["d"] == 2.0
    assert result["iqa/none"].values["d"] == 2.0
    assert result["reconstruction/none"].values["d"] == 1.0
    with pytest.raises(
        UsageError, match=r"'none' is in iqa and reconstruction; write 'iqa/none' or 'reconstruction/none'"
    ):
        result["none"]
    with pytest.raises(UsageError, match=r"entry: no entry is called 'jpg'\. Known: jpeg"):
        result["jpg"]
