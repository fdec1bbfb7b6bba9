"""The site of the documentation, built as readers get it: without warnings, its tutorials run, nothing fetched."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from imharness.components.registry import installed

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[2]
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "embed": "src", "object": "data"}
"""Element -> its attribute whose address a browser fetches for a page."""
ABROAD = re.compile(r"^\s*(\w+:)?//")
"""Addresses that name a host."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; HARNESS_DOCS names a folder to build it into, which is then kept."""
    folder = Path(os.environ.get("HARNESS_DOCS") or tmp_path_factory.mktemp("docs"))
    # Sphinx gives neighbouring pages to one process: with 16 processes the tutorials run side by side.
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-j",
        "16",
        "-b",
        "html",
        "docs",
        str(folder),
    ]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    return {str(page.relative_to(site)): page.read_text() for page in site.rglob("*.html")}


class Loads(HTMLParser):
    """Collects everything that a browser fetches of its own accord for a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses = list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in LOADING or (tag == "link" and attributes.get("rel") != "canonical"):
            self.addresses.append(attributes.get(LOADING.get(tag, "href")) or "")
        self.addresses += re.findall(r"url\(['\"]?([^'\")]+)", attributes.get("style") or "")


def test_pages_fetch_nothing_from_elsewhere(site: Path, pages: dict[str, str]) -> None:
    assert len(pages) > 50
    fetched = {address for text in pages.values() for address in Loads(text).addresses}
    assert any(address.endswith(".js") or ".js?" in address for address in fetched)
    assert [address for address in fetched if ABROAD.match(address)] == []
    styles = "".join(file.read_text() for file in site.rglob("*.css"))
    assert [
        address for address in re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")]+)", styles) if ABROAD.match(address)
    ] == []


def test_what_is_fetched_from_elsewhere_is_noticed() -> None:
    text = "<script src='https://x/y.js'></script><link rel=stylesheet href='//x/y.css'><p style='background:url(http://x)'>"
    assert [bool(ABROAD.match(address)) for address in Loads(text).addresses] == [True] * 3


def test_links_inside_lead_to_places_that_exist(site: Path, pages: dict[str, str]) -> None:
    ids = {name: set(re.findall(r'\sid="([^"]+)"', text)) for name, text in pages.items()}
    wrong = []
    for name, text in pages.items():
        for target in re.findall(r'<a\s[^>]*href="([^"]+)"', text):
            if re.match(r"^(\w+:|//)", target):
                continue
            file, _, anchor = target.partition("#")
            target_path = os.path.normpath(Path(name).parent / file.partition("?")[0]) if file else name
            anchors = ids.get(target_path)
            if (anchors is None and not (site / target_path).is_file()) or (
                anchors is not None and anchor and anchor not in anchors
            ):
                wrong.append(f"{name}: {target}")
    assert wrong == []


def test_every_tutorial_was_run(pages: dict[str, str]) -> None:
    tutorials = {name: text for name, text in pages.items() if re.match(r"tutorials/|start/run-it", name)}
    assert len(tutorials) == 5
    for name, text in tutorials.items():
        assert 'class="cell_output' in text, name
        assert 'class="output traceback' not in text, name


def test_every_component_has_a_card(pages: dict[str, str]) -> None:
    cards = "".join(text for name, text in pages.items() if name.startswith("generated/cards-"))
    titles = set(re.findall(r"<h2>([^<]+)<", cards))
    assert {entry.component.info.id for entry in installed().entries.values()} == titles


def test_every_command_is_in_the_reference(pages: dict[str, str]) -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    from making.commands import every_command

    command_paths = [command.command_path for command in every_command()]
    assert {"harness run", "harness plugins new", "harness submissions run"} <= set(command_paths)
    assert [path for path in command_paths if f"<h2>{path}<" not in pages["generated/commands.html"]] == []


def test_every_public_name_is_in_the_reference(pages: dict[str, str]) -> None:
    from making.modules import MODULES, names

    text = "".join(text for name, text in pages.items() if name.startswith("generated/module-"))
    documented = {anchor.rpartition(".")[2] for anchor in re.findall(r'class="sig[^>]*id="([^"]+)"', text)}
    assert [name for module in MODULES for name in names(module) if name not in documented] == []
