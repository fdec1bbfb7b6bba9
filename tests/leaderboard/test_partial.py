"""The pages of a run that goes on: they say how much they show, name no winner, and replace older pages all at once."""

import os
import re
from pathlib import Path

import pytest

from imharness.errors import StoreError
from imharness.results.disk import UNFINISHED
from imharness.results.store import Store
from imharness_leaderboard.folder import SiteFolder
from imharness_leaderboard.pages import build_site

from .browsing import words_of
from .conftest import sample_leaderboard, save


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("partial")
    main = sample_leaderboard().tables[0].model_copy(update={"not_worse": {}})
    save(Store(folder / "store"), sample_leaderboard(tasks_done=312, waiting=1565, tables=(main,), charts=()))
    build_site(folder / "store", folder / "site")
    return folder / "site"


@pytest.mark.parametrize("page", ["index.html", "acme--evil.html", "acme--evil/main.html"])
def test_partial_tables_say_so(site: Path, page: str) -> None:
    assert "Partial: 312 of 1,877 tasks." in words_of((site / page).read_text())


def test_partial_tables_mark_and_crown_nobody(site: Path) -> None:
    for page in ("acme--evil.html", "acme--evil/main.html"):
        assert not re.search(r'<td[^>]*class="(best|tied)', (site / page).read_text())
    home = (site / "index.html").read_text()
    assert 'class="winner"' not in home
    assert "do not cite" in home


def test_whole_tables_say_nothing_of_it(built: Path) -> None:
    assert "Partial:" not in (built / "acme--evil.html").read_text()


def test_readers_see_the_build_before_until_the_new_one_is_whole(tmp_path: Path) -> None:
    old = SiteFolder(tmp_path)
    old.write("index.html", "old")
    old.write("gone.html", "old")
    old.finish()
    new = SiteFolder(tmp_path)
    new.write("index.html", "newer")
    new.write("a/page.html", "newer")
    assert (tmp_path / "index.html").read_text() == "old"
    assert not (tmp_path / "a").exists()
    assert new.size("index.html") == 5
    new.finish()
    assert (tmp_path / "index.html").read_text() == (tmp_path / "a" / "page.html").read_text() == "newer"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".made.json", "a", "index.html"]


def test_what_a_broken_build_left_behind_goes_in_time(tmp_path: Path) -> None:
    SiteFolder(tmp_path).write("index.html", "never finished")
    (remaining,) = (tmp_path / UNFINISHED).iterdir()
    build = SiteFolder(tmp_path)
    build.write("index.html", "new")
    build.finish()
    assert remaining.is_dir()
    os.utime(remaining, (0, 0))
    later = SiteFolder(tmp_path)
    later.write("index.html", "newer")
    later.finish()
    assert not remaining.exists()


def test_a_site_that_cannot_be_written_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "site").write_text("a file")
    with pytest.raises(StoreError, match="cannot be written"):
        SiteFolder(tmp_path / "site").write("index.html", "x")
