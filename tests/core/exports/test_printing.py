"""Pages that are written as HTML or printed as PDF by a browser: paths and browsers that fail are named in one line."""

import os
import re
import stat
import sys
from pathlib import Path

import pytest

from imharness.errors import HarnessError, Unavailable, UsageError
from imharness.exports import printing
from imharness.exports.printing import page_file, writable, write_page

PAGE = "<!doctype html><style>@page { size: A4 }</style><p>Größe <b>1</b>"


def browser_that(does: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called chromium first on the PATH.

    It runs `does`, a line of Python in which `target` is the file that it is to print.
    """
    program = folder / "bin" / "chromium"
    program.parent.mkdir()
    lines = [
        f"#!{sys.executable}",
        "import sys, pathlib",
        "target = next(w.partition('=')[2] for w in sys.argv if w.startswith('--print-to-pdf='))",
        does,
    ]
    program.write_text("\n".join(lines))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("report.txt", r"must end in \.html or \.pdf"),
        ("report", r"must end in \.html or \.pdf"),
        ("nowhere/report.html", "there is no folder .*nowhere"),
        ("folder.html", "it is a folder"),
    ],
)
def test_what_cannot_be_written_is_named(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UsageError, match=message):
        page_file(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="permission denied"):
        writable(tmp_path / "a.html")


def test_without_a_browser_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "BROWSERS", ("no-such-browser",))
    with pytest.raises(Unavailable, match="apt-get install chromium") as caught:
        page_file(tmp_path / "a.pdf")
    assert "\n" not in str(caught.value)
    assert page_file(tmp_path / "a.html") == tmp_path / "a.html"


def test_a_page_is_written_as_it_is_or_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser_that(
        "pathlib.Path(target).write_bytes(b'%PDF' + pathlib.Path(sys.argv[-1][7:]).read_bytes())", tmp_path, monkeypatch
    )
    for name, before in (("a.html", b""), ("a.PDF", b"%PDF")):
        write_page(page_file(tmp_path / name), PAGE)
        assert (tmp_path / name).read_bytes() == before + PAGE.encode()


def test_a_browser_that_prints_nothing_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser_that("sys.exit('first\\nno display')", tmp_path, monkeypatch)
    with pytest.raises(
        HarnessError, match=r"printed no PDF \(exit status 1: no display\); write .html instead"
    ) as caught:
        write_page(page_file(tmp_path / "a.pdf"), PAGE)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a.pdf").exists()


def test_a_browser_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser_that("import time; time.sleep(100)", tmp_path, monkeypatch)
    monkeypatch.setattr(printing, "PATIENCE_S", 0.5)
    with pytest.raises(HarnessError, match=r"did not print the PDF in 0\.5 s"):
        write_page(page_file(tmp_path / "a.pdf"), PAGE)


def test_the_browser_that_is_here_prints_one_sheet_of_a4(tmp_path: Path) -> None:
    try:
        file = page_file(tmp_path / "a.pdf")
    except Unavailable:
        pytest.skip("no browser on this machine")
    write_page(file, PAGE)
    text = file.read_bytes()
    assert text.startswith(b"%PDF")
    assert sheets(text) == [(595, 842)]


def sheets(pdf: bytes) -> list[tuple[int, int]]:
    """Return width and height of every page, points."""
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    return [(round(float(width)), round(float(height))) for width, height in boxes]
