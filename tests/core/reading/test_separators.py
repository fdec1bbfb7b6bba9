"""Tables with semicolons, tabs, decimal commas, commas between thousands or a cut end are named in one line."""

import re
from pathlib import Path

import pytest

from imharness.errors import UsageError
from imharness.files import read_columns, read_csv

CASES = {  # text of a table -> pattern of the error
    "image;mos\na.png;3,5\n": r"t\.csv, line 1: columns are separated by semicolons; save the table with commas",
    "sep=;\nimage;mos\na.png;3,5\n": r"t\.csv, line 1: columns are separated by semicolons",
    "image\tmos\na.png\t3.5\n": r"t\.csv, line 1: columns are separated by tabs",
    "image,mos\na.png,3,5\n": r"t\.csv, line 2: 3 fields, .* write decimal points, and nothing between thousands",
    "image,mos\na.png,-3,5\n": r"t\.csv, line 2: 3 fields, .* write decimal points, and nothing between thousands",
    "image,mos\na.png,1\nb.png;3.5\n": r"t\.csv, line 3: 1 fields, .* separated by semicolons; write commas",
}


@pytest.mark.parametrize("text", CASES)
def test_other_separators_are_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=CASES[text]):
        list(read_csv(tmp_path / "t.csv").rows())
    with pytest.raises(UsageError, match=CASES[text]):
        read_columns(tmp_path / "t.csv")


@pytest.mark.parametrize(("text", "point"), [("3,5", "3.5"), ("-0,25", "-0.25"), ("1,5e3", "1.5e3")])
def test_a_decimal_comma_in_quotes_is_named(text: str, point: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f'image,mos\na.png,"{text}"\n')
    with pytest.raises(UsageError, match=rf"mos is not a finite number: '{text}'\. Write a decimal point, {point}\.$"):
        read_columns(tmp_path / "t.csv").numbers("mos")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("1,234", "Write a decimal point, 1.234, or 1234 if the comma separates thousands."),
        ("-12,345", "Write a decimal point, -12.345, or -12345 if the comma separates thousands."),
        ("0,234", "Write a decimal point, 0.234."),
        ("1234,567", "Write a decimal point, 1234.567."),
        ("1,234.5", "Write it without commas, 1234.5."),
        ("1,234,567", "Write it without commas, 1234567."),
    ],
)
def test_a_comma_between_thousands_is_not_taken_for_a_decimal_comma_alone(
    text: str, advice: str, tmp_path: Path
) -> None:
    """1,234 may mean 1.234 or 1234, so both are named."""
    (tmp_path / "t.csv").write_text(f'image,mos\na.png,"{text}"\n')
    with pytest.raises(UsageError, match=rf"'{re.escape(text)}'\. {re.escape(advice)}$"):
        read_columns(tmp_path / "t.csv").numbers("mos")


def test_the_first_name_of_those_that_several_columns_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("h,g,f,e,d,c,b,a,a,b,c,d,e,f,g,h\n")
    for read in (read_csv, read_columns):
        with pytest.raises(UsageError, match="more than one column 'a'"):
            read(tmp_path / "t.csv")


def test_text_with_these_signs_is_only_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('image,mos\n"a;b.png",1\n"c,d\te",2\n')
    assert [row["image"] for _, row in read_csv(tmp_path / "t.csv").rows()] == ["a;b.png", "c,d\te"]
    (tmp_path / "t.csv").write_text("image\na;b\n")
    assert [row["image"] for _, row in read_csv(tmp_path / "t.csv").rows()] == ["a;b"]
    (tmp_path / "t.csv").write_text("image,mos\na.png,half,more\n")
    with pytest.raises(UsageError, match=r"3 fields, but the header has 2\.$"):
        list(read_csv(tmp_path / "t.csv").rows())


def test_columns_without_a_name_are_passed_over(tmp_path: Path) -> None:
    """Spreadsheets append empty columns, as in the published table of NIPS 2017."""
    (tmp_path / "t.csv").write_text("image,mos,,\na.png,1,,\nb.png,2,, \n")
    assert [row["image"] for _, row in read_csv(tmp_path / "t.csv").rows()] == ["a.png", "b.png"]
    table = read_columns(tmp_path / "t.csv")
    assert (table.texts("image").tolist(), table.numbers("mos").tolist()) == (["a.png", "b.png"], [1, 2])
    (tmp_path / "t.csv").write_text("image,mos,mos\na.png,1,2\n")
    with pytest.raises(UsageError, match=r"more than one column 'mos'\.$"):
        read_csv(tmp_path / "t.csv")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n", "\r"])
def test_a_table_that_ends_within_its_last_row_is_said(ending: str, tmp_path: Path) -> None:
    """A table that was cut inside its last number has another number there, so a warning names that number."""
    complete = f"image,mos{ending}a.png,3.5{ending}b.png,62.75{ending}"
    for read in (read_csv, read_columns):
        (tmp_path / "t.csv").write_bytes(complete.encode())
        read(tmp_path / "t.csv")
        for cut in ("62", "62.", "62.75"):
            (tmp_path / "t.csv").write_bytes(f"{complete.partition('62')[0]}{cut}".encode())
            with pytest.warns(UserWarning, match=rf"t\.csv does not end with a line break, .* longer than '{cut}'"):
                read(tmp_path / "t.csv")
