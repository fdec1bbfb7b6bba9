"""Results of others: read, refused with their line, and shown beside one's own."""

import csv
import json

import numpy as np
import pytest

from imharness.cli.commands import add_external, component
from imharness.errors import UsageError
from imharness.ranking.entries import rank
from imharness.results.store import Store
from imharness_iqa.external import outside_range, read_external

HEADER = [
    "image",
    "metric",
    "attack",
    "strength",
    "defense",
    "clear",
    "attacked",
    "defended_clear",
    "defended_attacked",
    "mos",
]


def write(path, rows, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def line(image="a", clear="5", attacked="9", mos="3", defense="jpeg", metric="m"):
    return [image, metric, "ifgsm", "weak", defense, clear, attacked, "5", "6", mos]


def test_rows_become_columns_with_the_range_of_their_metric(tmp_path) -> None:
    rows = read_external(write(tmp_path / "theirs.csv", [line(), line("b", mos="")]), (), ("m=0:10",), component)
    assert rows["defense"] == ["jpeg (external)"] * 2
    assert rows["dataset"] == ["external: theirs"] * 2
    assert (rows["source"], rows["score"], rows["upper"]) == ([5.0, 5.0], [6.0, 6.0], [10.0, 10.0])
    assert rows["mos"][1] != rows["mos"][1]
    columns = read_external(write(tmp_path / "own.csv", [line(metric="harness/niqe")]), (), (), component)
    assert columns["lower"][0] == pytest.approx(1.414, abs=1e-3)


def test_a_range_goes_from_the_worst_score_to_the_best(tmp_path) -> None:
    path = write(tmp_path / "theirs.csv", [[*line(), "p1"], [*line("b"), ""]], [*HEADER, "reference"])
    for bounds, sign in (("m=0:10", 1), ("m=10:0", -1)):
        rows = read_external(path, (), (bounds,), component)
        assert (rows["lower"][0], rows["upper"][0], rows["sign"][0]) == (0.0, 10.0, sign)
        assert rows["photograph"] == ["p1", "b"]
    columns = read_external(write(tmp_path / "own.csv", [line(metric="harness/niqe")]), (), (), component)
    assert columns["sign"] == [-1]
    assert columns["lower"][0] < columns["upper"][0]


def test_attacked_scores_may_lie_outside_the_range_and_are_counted(tmp_path) -> None:
    """Of three images one is pushed above the range, one below; the clean scores are within."""
    path = write(tmp_path / "theirs.csv", [line(attacked="11"), line("b", attacked="-1"), line("c", attacked="10")])
    assert outside_range(read_external(path, (), ("m=0:10",), component)) == 2
    with pytest.raises(UsageError, match=r"line 2: clear is 11, outside the range of m, 0 to 10"):
        read_external(write(path, [line(clear="11")]), (), ("m=0:10",), component)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clear": "9", "attacked": "5"}, r"line 3: clear of a, m is 9\.0 here and 5\.0 in line 2; it is the same"),
        ({"mos": "4"}, r"line 3: mos of a is 4\.0 here and 3\.0 in line 2; .* Are columns or rows mixed up"),
        ({"clear": "5.05", "attacked": "8"}, ""),
    ],
)
def test_an_image_has_one_clean_score_and_one_opinion(change, message, tmp_path) -> None:
    path = write(tmp_path / "theirs.csv", [line(), line(defense="blur", **change), line("b", clear="7", mos="")])
    if not message:
        assert read_external(path, (), ("m=0:10",), component)["source"] == [5.0, 5.05, 7.0]
        return
    with pytest.raises(UsageError, match=message):
        read_external(path, (), ("m=0:10",), component)


def test_an_image_has_one_reference(tmp_path) -> None:
    path = write(tmp_path / "theirs.csv", [[*line(), "p1"], [*line(defense="blur"), "p2"]], [*HEADER, "reference"])
    with pytest.raises(UsageError, match=r"line 3: reference of a is p2 here and p1 in line 2"):
        read_external(path, (), ("m=0:10",), component)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([line(clear="good")], {}, r"line 2: clear is not a finite number: 'good'"),
        ([line(), line("b", attacked="nan")], {}, r"line 3: attacked is not a finite number"),
        ([line(), line()], {}, r"line 3: the same image, metric, attack, strength and defense as line 2"),
        ([line(image="")], {}, "line 2: image is empty"),
        ([line(metric="unknown")], {"bounds": ()}, "range of metric 'unknown' is not known; give --bounds"),
        ([line()], {"renamed": ("picture=file",)}, "cannot read --map"),
        ([line()], {"bounds": ("m=3",)}, "cannot read --bounds"),
        ([line()], {"bounds": ("m=3:3",)}, "cannot read --bounds"),
        ([line()], {"bounds": ("m=nan:3",)}, "cannot read --bounds"),
        ([], {}, "has no rows"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, rows, options, message) -> None:
    arguments = {"renamed": (), "bounds": ("m=0:10",), **options}
    with pytest.raises(UsageError, match=message):
        read_external(write(tmp_path / "theirs.csv", rows), **arguments, installed=component)


@pytest.mark.parametrize(("change", "column"), [({"image": "A"}, "image"), ({"defense": "JPEG"}, "defense")])
def test_names_of_two_spellings_are_named(change, column, tmp_path) -> None:
    path = write(tmp_path / "theirs.csv", [line(), line(**change)])
    with pytest.warns(UserWarning, match=f"differ only in capitals .* count as two names in the column {column}"):
        read_external(path, (), ("m=0:10",), component)


@pytest.mark.parametrize("span", ["m=0:10", "m=0:1000", "m=1000:0"])
def test_a_range_of_which_scores_use_hardly_anything_is_named(span, tmp_path, recwarn) -> None:
    """D is a share of the range: with 0 to 1000 for scores up to 10, every attack would look weak."""
    worse = span.endswith(":0")
    rows = [
        [f"i{k}", "m", "pgd", "weak", "none", k, abs(k + 1 - 2 * worse), k, abs(k + 1 - 2 * worse), 5 * (-1) ** k]
        for k in range(10)
    ]
    read_external(write(tmp_path / "theirs.csv", rows), (), (span,), component)
    sentences = [str(each.message) for each in recwarn.list]
    assert len(sentences) == (span != "m=0:10")
    assert all("all scores by m lie within 1.0% of its range, 0 to 1000" in sentence for sentence in sentences) or worse
    few = write(tmp_path / "few.csv", rows[:9])
    recwarn.clear()
    read_external(few, (), (span,), component)
    assert not recwarn.list


@pytest.mark.parametrize(
    "change", [("clear", "attacked"), ("bounds", "bounds"), ("defended_clear", "defended_attacked")]
)
def test_swapped_columns_and_ranges_are_named(change, tmp_path, recwarn) -> None:
    """With one attack for each image, swapped columns break no other rule of the file."""
    rows = [
        [f"i{k}", "m", "pgd", "weak", "none", k, k + 1 - 2 * (k == 8), k, k + 1 - 2 * (k == 8), k] for k in range(9)
    ]
    read_external(write(tmp_path / "theirs.csv", rows), (), ("m=0:10",), component)
    assert not recwarn.list
    header = [dict([change, change[::-1]]).get(column, column) for column in HEADER]
    sentences = {
        "clear": "by m 8 of 9 attacked images are worse than before the attack.* are clear and attacked swapped",
        "bounds": "by m 8 of 9 attacked images are worse",
        "defended_clear": "9 of 9 rows of the defense none, such as that of i0, have other scores behind it",
    }
    bounds = "m=10:0" if "bounds" in change else "m=0:10"
    with pytest.warns(UserWarning, match=sentences[change[0]]):
        read_external(write(tmp_path / "theirs.csv", rows, header), (), (bounds,), component)


def test_columns_may_have_other_names(tmp_path) -> None:
    path = write(tmp_path / "theirs.csv", [line()], ["file", *HEADER[1:]])
    with pytest.raises(UsageError, match=r"no column image; .* Use --map image=NAME"):
        read_external(path, (), ("m=0:10",), component)
    assert read_external(path, ("image=file",), ("m=0:10",), component)["name"] == ["a"]
    with pytest.raises(UsageError, match=r"no column scene; .* Use --map reference=NAME"):
        read_external(path, ("image=file", "reference=scene"), ("m=0:10",), component)
    path = write(tmp_path / "theirs.csv", [[*line(), "p1"]], [*HEADER[:-1], "MOS", " Reference"])
    rows = read_external(path, (), ("m=0:10",), component)
    assert (rows["mos"], rows["photograph"]) == ([3.0], ["p1"])


def test_imported_rows_stand_in_the_tables_and_on_the_site(tmp_path, harness_here) -> None:
    images = [line(f"i{k}", clear=str(4 + k / 10), attacked="9", mos=str(k)) for k in range(6)]
    write(tmp_path / "theirs.csv", images)
    done = harness_here("iqa", "import", "theirs.csv", "--bounds", "m=0:10", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "iqa.html").read_text()
    assert "jpeg (external)" in page
    leaderboard = json.loads((tmp_path / "store" / "leaderboards" / "harness--iqa.json").read_text())
    main = next(table for table in leaderboard["tables"] if table["id"] == "defenses")
    assert leaderboard["tables"][0]["rows"][0]["label"] == "jpeg (external)"
    assert main["rows"][0]["label"] == "jpeg (external)"
    assert main["rows"][0]["values"]["fixed_d"]["value"] == pytest.approx(100 * sum(2 - k / 10 for k in range(6)) / 60)
    wrong = harness_here("iqa", "import", "theirs.csv", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "usage: the range of metric 'm' is not known" in wrong.stderr


def test_a_leaderboard_of_imports_alone_has_a_winner_if_the_undefended_case_is_among_them(tmp_path) -> None:
    rng, rows = np.random.default_rng(0), []
    for defense, shift in (("none", 40.0), ("blur", 0.2), ("jpeg", 30.0)):
        for i in range(20):
            clear = 20 + 3 * i
            scores = [clear, clear + 40, clear + rng.random() / 2, clear + shift + rng.random()]
            rows.append([f"{i:02d}.png", "m", "pgd", "medium", defense, *scores, i + i % 3 / 9])
    columns = read_external(write(tmp_path / "theirs.csv", rows), (), ("m=0:200",), component)
    first = add_external(tmp_path / "store", "harness/iqa", columns, "theirs")
    (again,) = rank(Store(tmp_path / "store"))
    for leaderboard in (first, again):
        (ranking,) = leaderboard.rankings
        assert (ranking.winner, ranking.undefended) == ("blur (external)", "none (external)")
        assert ranking.places["none (external)"].control == "no defense"
        assert {check.state for check in ranking.places["blur (external)"].gate_numbers} == {"passes"}
        assert leaderboard.tasks_done == 1


def test_no_defense_needs_no_attack_that_knows_it_in_an_import_either(tmp_path) -> None:
    """If "none" counted as incomplete, nothing would be compared with it, and a gain of 31 % of pairs had no winner."""
    rng, rows = np.random.default_rng(0), []
    for defense, shifts in (("none", (40.0,)), ("blur", (8.0, 9.0)), ("seems", (2.0, 38.0))):
        for i in range(20):
            clear = 20 + 3 * i
            for adaptive, moved in enumerate(shifts):
                scores = [clear, clear + 40, clear + rng.random() / 2, clear + moved + rng.random()]
                rows.append([f"{i:02d}.png", "m", "pgd", "medium", defense, *scores, i + i % 3 / 9, adaptive])
    columns = read_external(write(tmp_path / "theirs.csv", rows, [*HEADER, "adaptive"]), (), ("m=0:200",), component)
    (ranking,) = add_external(tmp_path / "store", "harness/iqa", columns, "theirs").rankings
    assert {label for label, standing in ranking.places.items() if not standing.complete} == set()
    assert (ranking.winner, ranking.places["blur (external)"].against.verdict) == ("blur (external)", "better")
    assert "pgd breaks seems (external)" in " ".join(f.text for f in ranking.findings if f.kind == "broken")


def test_an_import_that_uses_the_harness_s_name_decides_no_setting(tmp_path) -> None:
    """No adaptive attack met "harness/cheat"; as an entry of the harness it would take them out of the ranking."""
    rng, rows = np.random.default_rng(0), []
    for defense, shift in (("none", (40.0, 40.0)), ("blur", (0.2, 4.0)), ("harness/cheat", (0.1, None))):
        for i in range(20):
            clear = 20 + 3 * i
            for adaptive, moved in enumerate(shift):
                if moved is not None:
                    scores = [clear, clear + 40, clear + rng.random() / 2, clear + moved + rng.random()]
                    rows.append([f"{i:02d}.png", "m", "pgd", "medium", defense, *scores, i + i % 3 / 9, adaptive])
    columns = read_external(write(tmp_path / "theirs.csv", rows, [*HEADER, "adaptive"]), (), ("m=0:200",), component)
    leaderboard = add_external(tmp_path / "store", "harness/iqa", columns, "theirs")
    (ranking,) = leaderboard.rankings
    assert ranking.winner == "blur (external)"
    assert not ranking.places["cheat (external)"].complete


def test_copies_and_other_files_of_one_name_are_refused(tmp_path, harness_here) -> None:
    """Without the checks a copy under another name counted twice, and another file of one name replaced the first."""
    images = [line(f"i{k}", clear=str(4 + k / 10), mos=str(k)) for k in range(6)]
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    write(tmp_path / "a" / "theirs.csv", images)

    def imported(path: str, *options: str):
        return harness_here("iqa", "import", path, "--bounds", "m=0:10", *options, cwd=tmp_path)

    assert imported("a/theirs.csv").returncode == 0
    assert imported("a/theirs.csv").returncode == 0
    write(tmp_path / "copy.csv", [[*row[:-1], ""] for row in reversed(images)])
    copied = imported("copy.csv")
    assert copied.returncode == 2
    assert "rows of copy stand in store already, imported from theirs, and would count twice" in copied.stderr
    write(tmp_path / "more.csv", [*images[:2], line("new")])
    assert "2 of 3 rows of more stand in store already, imported from theirs" in imported("more.csv").stderr
    write(tmp_path / "b" / "theirs.csv", [line("other")])
    other = imported("b/theirs.csv")
    assert other.returncode == 2
    assert "has other rows that were imported from a file theirs; give --replace" in other.stderr
    assert imported("b/theirs.csv", "--replace").returncode == 0
    sweep = Store(tmp_path / "store").sweep("harness/iqa", "external")
    assert set(sweep.tasks) == {"external file=theirs", "external file=more"}


def test_attacks_that_moved_nothing_are_named(tmp_path) -> None:
    path = write(tmp_path / "theirs.csv", [line(f"i{k}", clear="5", attacked="5") for k in range(5)])
    with pytest.warns(UserWarning, match="by m no attack moved the score of any image; is attacked a copy of clear"):
        read_external(path, (), ("m=0:10",), component)


def test_opinions_that_say_how_much_worse_an_image_is_are_named(tmp_path, recwarn) -> None:
    """With DMOS in the column mos, the gate on SROCC passed defenses that destroy the order of images."""
    for sign in (1, -1):
        rows = [line(f"i{k}", clear=str(k / 2), attacked="9.5", mos=str(sign * (k + k % 3))) for k in range(12)]
        read_external(write(tmp_path / "theirs.csv", rows), (), ("m=0:10",), component)
        sentences = [str(warning.message) for warning in recwarn.list]
        assert len(sentences) == (sign < 0)
    assert (
        "opinions of theirs rise as the quality by m falls (SROCC -0.98): a higher mos must mean a better"
        in sentences[0]
    )
