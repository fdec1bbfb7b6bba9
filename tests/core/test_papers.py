"""A component cites a paper by its key in papers.toml of its package, or brings it along."""

import importlib
from pathlib import Path

import pytest

from imharness.components.papers import paper_of
from imharness.components.registry import installed
from imharness.contracts.component import Component, Info, Paper
from imharness.errors import PluginError

TOML = '[gauss1809]\ntitle = "Theoria Motus"\nauthors = "Gauss"\nyear = 1809\n'
MODULE = """
from imharness.data import Component
from imharness.images import Info


class Method(Component):
    info = Info(id="acme/method", version="1", paper="gauss1909")
"""


@pytest.fixture
def method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a package with this papers.toml and gives its component."""

    def make(papers: str) -> Component:
        name = tmp_path.name
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        (tmp_path / name / "methods.py").write_text(MODULE)
        (tmp_path / name / "papers.toml").write_text(papers)
        monkeypatch.syspath_prepend(str(tmp_path))
        return importlib.import_module(f"{name}.methods").Method()

    return make


def test_a_key_gives_the_paper_of_the_package(method) -> None:
    paper = paper_of(method(TOML.replace("1809", "1909")))
    assert paper == Paper(title="Theoria Motus", authors="Gauss", year=1909)


def test_an_unknown_key_names_the_component_the_file_and_the_nearest_key(method) -> None:
    with pytest.raises(PluginError, match=r"^Method cites .*gauss1909.*papers.toml. Did you mean '") as caught:
        paper_of(method(TOML.replace("1809", "1908")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("papers", ["[gauss1909", "[gauss1909]\nyear = 1909\n"])
def test_a_file_that_cannot_be_read_is_named_in_one_line(method, papers: str) -> None:
    with pytest.raises(PluginError, match=r"papers.toml cannot be read") as caught:
        paper_of(method(papers))
    assert "\n" not in str(caught.value)


def test_a_paper_given_in_place_is_the_paper() -> None:
    paper = Paper(title="T", authors="A", year=2000)

    class Own(Component):
        info = Info(id="acme/own", version="1", paper=paper)

    assert paper_of(Own()) is paper


def test_a_component_of_the_harness_reads_its_paper() -> None:
    paper = paper_of(installed().one("attack", "harness/ifgsm"))
    assert paper is not None
    assert (paper.authors, paper.year) == ("Kurakin, Goodfellow & Bengio", 2017)
