"""What a CI shows: a JUnit file that a reader can trust, and annotations that no message can forge."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from imharness.exports.ci import SHOWN, Cell, github_lines, junit

HOSTILE = "broke\r\n::error file=x::forged, 100% <b>\x00\x1b[31m"


def test_junit_counts_and_names_every_cell() -> None:
    cells = [
        Cell("h/a", "attack", "x", "done", seconds=1.5),
        Cell("h/a", "attack", "y", "failed", HOSTILE, "trace\n" + HOSTILE, 0.5, "p/y.py"),
        Cell("h/b", "fit", "z", "missing", "no weights"),
    ]
    root = ElementTree.fromstring(junit(cells))
    assert root.attrib == {
        "name": "harness run", "tests": "3", "failures": "1", "errors": "0", "skipped": "1", "time": "2.000",
    }  # fmt: skip
    first, second = root.findall("testsuite")
    assert (first.get("name"), first.get("tests"), second.get("skipped")) == ("h/a", "2", "1")
    failed = first.findall("testcase")[1]
    assert failed.attrib == {"classname": "h/a.attack", "name": "y", "time": "0.500", "file": "p/y.py"}
    assert "forged, 100% <b>" in failed.find("failure").text
    assert second.find("testcase/skipped").get("message") == "no weights"


def test_no_character_of_a_message_or_a_name_makes_the_file_no_xml() -> None:
    every = "".join(map(chr, (*range(0x20), 0x7F, 0x85, 0xD800, 0xDFFF, 0xFDD0, 0xFFFD, 0xFFFE, 0xFFFF, 0x1FFFF)))
    root = ElementTree.fromstring(junit([Cell(f"h/{every}", every, every, "failed", every, every, 1.0, every)]))
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert "\ufffd" in (failure.text or "")


def test_annotations_are_one_line_each_and_hold_no_command() -> None:
    (line,) = github_lines(
        [Cell("h/a", "s", "a,b: c", "failed", HOSTILE, file="p,q:r.py"), Cell("h/a", "s", "x", "done")]
    )
    assert "\n" not in line
    assert "\r" not in line
    assert line.startswith("::error file=p%2Cq%3Ar.py,title=h/a%3A a%2Cb%3A c::broke")
    assert line.count("\x1b") == 0
    assert "%0A::error" in line
    assert "100%25" in line


def test_more_failures_than_github_shows_are_counted() -> None:
    lines = github_lines([Cell("t", "s", str(i), "failed", "why") for i in range(25)])
    assert len(lines) == SHOWN
    assert lines[-1] == "::error title=harness run::16 more cells failed"


def test_a_run_tells_the_ci_what_failed_and_where(
    tmp_path: Path, harness_here, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    from imharness_perceptual.metrics import psnr

    class Broken:
        def __neg__(self) -> float:
            raise ValueError("50% of it\nis gone")

    monkeypatch.setattr(psnr, "IDENTICAL_DB", Broken())
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path(psnr.__file__).parents[2]))
    words = ("--track", "perceptual", "--metric", "psnr", "--metric", "mae", "--attack", "square", "--limit", "4")
    ran = harness_here("run", *words, "--workers", "0", "--junit", "out/cells.xml", cwd=tmp_path)
    assert ran.returncode == 1
    root = ElementTree.parse(tmp_path / "out" / "cells.xml").getroot()
    cases = root.findall("testsuite/testcase")
    assert len(cases) == int(root.get("tests"))
    failed = [case for case in cases if case.find("failure") is not None]
    done = [case for case in cases if len(case) == 0]
    assert failed
    assert done
    assert all("psnr" in case.get("name") for case in failed)
    assert all("mae" in case.get("name") for case in done)
    lines = [line for line in ran.stderr.splitlines() if line.startswith("::error ")]
    assert len(lines) == len(failed)
    assert any("50%25 of it" in line and "file=imharness_perceptual/metrics/psnr.py" in line for line in lines)
