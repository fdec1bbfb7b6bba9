"""What a release says of itself, and the steps that make it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from imharness.cli import cli

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STATED = ("CITATION.cff", "CHANGELOG.md", "core/imharness/results/version.py")
"""The files that name the version."""


def test_the_citation_is_complete_and_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["license"] == PROJECT["license"].partition(" AND ")[0]  # that of the code
    assert cited["abstract"] == PROJECT["description"]
    assert {"keywords", "authors", "references", "type", "title", "message"} <= set(cited)
    assert all({"type", "title", "authors", "year", "url"} <= set(paper) for paper in cited["references"])


def test_the_archive_has_the_authors_papers_and_words_of_the_citation() -> None:
    cited, archived = (
        yaml.safe_load((ROOT / "CITATION.cff").read_text()),
        json.loads((ROOT / ".zenodo.json").read_text()),
    )
    assert (archived["title"], archived["license"]) == (cited["title"], cited["license"])
    assert archived["description"] == cited["abstract"]
    assert archived["keywords"] == cited["keywords"]
    assert archived["references"] == [paper["url"] for paper in cited["references"]]
    named = [author.get("name") or f"{author['family-names']}, {author['given-names']}" for author in cited["authors"]]
    assert [creator["name"] for creator in archived["creators"]] == named
    assert archived["upload_type"] == "software"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/releasing.md"])
def test_files_that_pages_for_maintainers_name_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    folders = r"\.ci|\.github|\.devcontainer|benchmarks|core|deploy|docs|plugins|submissions|tests"
    files = {*re.findall(rf"(?<![\w/.:-])(?:{folders})/[\w./-]*\w", text)}
    assert files
    assert [name for name in sorted(files) if not (ROOT / name).exists() and "_build" not in name] == []


def test_the_page_on_releasing_names_commands_that_exist() -> None:
    page = (ROOT / "docs" / "releasing.md").read_text()
    for command in re.findall(r"`harness ([a-z]+(?: [a-z]+)?)", page):
        words = command.split()
        ran = CliRunner().invoke(cli, [*words, "--help"])
        assert ran.exit_code == 0 or CliRunner().invoke(cli, [words[0], "--help"]).exit_code == 0, command


def test_notebooks_are_those_of_the_tutorials_and_install_in_their_first_cell() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "notebooks.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    notebooks = [json.loads(path.read_text()) for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))]
    assert len(notebooks) == 3
    for notebook in notebooks:
        first, *rest = (cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code")
        assert first == f"%pip install --quiet {PROJECT['name']}"
        assert rest
        assert all("code-cell" not in cell["source"] for cell in notebook["cells"])
        assert all(not cell.get("outputs") for cell in notebook["cells"])


def changed(folder: Path, *words: str) -> str:
    """Return what `.ci/release.py` prints; if it fails, a $ and its error message."""
    command = [sys.executable, str(ROOT / ".ci" / "release.py"), *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"$ {ran.stderr}" if ran.returncode else ran.stdout


def texts(folder: Path) -> list[str]:
    return [(folder / name).read_text(encoding="utf-8") for name in STATED]


@pytest.fixture(params=["to come", "released"])
def stated(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The files that name the version, in each of the two states, whichever the checkout is in."""
    for name in STATED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    to_come = "date-released" not in texts(tmp_path)[0]
    if to_come and request.param == "released":
        assert changed(tmp_path, "dated", "2026-12-01") == ""
    if not to_come and request.param == "to come":
        assert changed(tmp_path, "next", "99.0.0") == ""
    return tmp_path


def test_a_version_is_to_come_or_released_and_files_that_disagree_are_named(stated: Path) -> None:
    assert changed(stated) == ""
    citation, changelog, module = texts(stated)
    version = yaml.safe_load(citation)["version"]
    released = "date-released" in citation
    wrong = {
        "CITATION.cff": re.sub(r"^version: .*$", "version: 98.0.0", citation, flags=re.M),
        "CHANGELOG.md": changelog.replace("\n## ", "\n## 98.0.0 (2026-12-01)\n\n## ", 1),
        "core/imharness/results/version.py": module.replace(f'"{version}"', '"98.0.0"'),
    }
    for name, text in wrong.items():
        before = (stated / name).read_text(encoding="utf-8")
        (stated / name).write_text(text, encoding="utf-8")
        for words in ((), ("dated", "2026-12-02"), ("notes",), ("next", "99.9.0")):
            message = changed(stated, *words)
            assert message.startswith("$ ")
            assert name in message
            assert message.count("\n") == 1
        (stated / name).write_text(before, encoding="utf-8")
    day = "\ndate-released: 2026-12-01\n"
    undone = (
        re.sub(r"\ndate-released: .*\n", "\n", citation) if released else citation.replace("\nauthors", day + "authors")
    )
    (stated / "CITATION.cff").write_text(undone, encoding="utf-8")
    assert "CHANGELOG.md does not begin with" in changed(stated)


def test_only_the_next_step_of_a_release_can_be_taken(stated: Path) -> None:
    before = texts(stated)
    version = yaml.safe_load(before[0])["version"]
    if "date-released" in before[0]:
        assert f"{version} was released on " in changed(stated, "dated", "2026-12-02")
        for refused in (version, "0.0.9", "1.0", "1.0.0.dev0", "01.0.0", "v1.0.0", ""):
            assert changed(stated, "next", refused).startswith("$ ")
    else:
        for words in (("notes",), ("next", "99.1.0")):
            assert f"{version} is not released: `dated DATE` comes first" in changed(stated, *words)
    assert texts(stated) == before


@pytest.mark.parametrize(
    "date", ["tomorrow", "20261201", "2026-W49-2", "2026-12-1", "2026-12-01T00:00", "2026-13-01", "２０２６-12-01", ""]
)
@pytest.mark.parametrize("stated", ["to come"], indirect=True)
def test_a_release_has_a_day_of_the_calendar_in_one_form(date: str, stated: Path) -> None:
    before = texts(stated)
    message = changed(stated, "dated", date)
    assert message.count("\n") == 1
    assert "is no da" in message
    assert texts(stated) == before


@pytest.mark.parametrize("start", ["to come", "released"])
def test_two_versions_are_released_by_the_words_of_the_page(start: str, tmp_path: Path) -> None:
    """In a clone that can push: what is tagged is dated, tests hold in each state, notes are those of the changelog."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone of the repository")
    home, clone = tmp_path / "home.git", tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--bare", "--depth", "1", f"file://{ROOT}", str(home)], check=True)
    subprocess.run(["git", "clone", "--quiet", str(home), str(clone)], check=True)
    page = (clone / "docs" / "releasing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^    .*\n)+", page.partition("## For each version")[2].partition("\n## ")[0], re.M)
    assert [block.count("\n") for block in blocks] == [5, 3]
    environment = (
        os.environ
        | {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        | {"PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    )

    def run(script: str) -> str:
        words = ["bash", "-euo", "pipefail", "-c", script]
        ran = subprocess.run(words, cwd=clone, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    tests = f"{sys.executable} -m pytest -q -n 0 tests/test_release.py -k 'to_come or only_the or citation or archive'"
    run("git checkout --quiet -B main")
    if start == "released" and "date-released" not in texts(clone)[0]:
        run(blocks[0])
    if "date-released" in texts(clone)[0]:
        run(blocks[1].replace("0.2.0", "97.0.0"))
    (first,) = re.findall(r"^version: (.*)$", texts(clone)[0], re.M)
    for version, following in ((first, "98.1.0"), ("98.1.0", "98.2.0")):
        changelog = clone / "CHANGELOG.md"
        line = f"## Unreleased\n\nWhat {version} changes.\n"
        text = changelog.read_text(encoding="utf-8").replace("## Unreleased\n", line, 1)
        changelog.write_text(text, encoding="utf-8")
        run("git commit --quiet --all --message 'A change'")
        for block in (blocks[0], blocks[1].replace("0.2.0", following)):
            run(block)
            run(tests)
        tagged = run(f"git -C {home} show v{version}:CITATION.cff")
        assert yaml.safe_load(tagged)["version"] == version
        assert "date-released" in tagged
        assert run(f"git -C {home} cat-file -t v{version}") == "tag\n"
        run(f"git checkout --quiet v{version}")
        notes = changed(clone, "notes")
        assert run("git status --porcelain") == ""
        run("git checkout --quiet main")
        assert "\n## " not in notes
        assert re.findall(r"^What (.*) changes\.$", notes, re.M) == [version]
        assert run(f"git -C {home} show main:CITATION.cff").count(f"version: {following}\n") == 1
    assert re.findall(r"^## (\S+)", changelog.read_text(encoding="utf-8"), re.M)[:3] == ["Unreleased", "98.1.0", first]


def test_classifiers_say_which_versions_of_python_it_takes() -> None:
    versions = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.M)
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == ">=3.11,<3.15"


def contents(folder: Path, *packed: str, metadata: str = "", **environment: str) -> str:
    """Return what `.ci/contents.py` says of a wheel with the files `packed`, and of a source archive with all files.

    Of the repository, the wheel should have two files of core/ and docs/r.md, which is included as a/r.md.
    """
    for name in ("core/a/x.py", "core/a/x.json", "LICENSE", "README.md", "CITATION.cff"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    included = '[tool.hatch.build.targets.wheel.force-include]\n"docs/r.md" = "a/r.md"\n'
    (folder / "pyproject.toml").write_text(included)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / "dist").mkdir()
    with zipfile.ZipFile(folder / "dist" / "a.whl", "w") as wheel:
        for name in packed:
            wheel.writestr(name, "")
        wheel.writestr("a-1.dist-info/METADATA", metadata)
    with tarfile.open(folder / "dist" / "a.tar.gz", "w:gz") as source:
        source.add(folder, "a-1")
    command = [sys.executable, str(ROOT / ".ci" / "contents.py"), "dist"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (("a/x.py", "a/x.json", "a/r.md"), ""),
        (("a/x.py", "a/x.json"), "missing in the wheel: a/r.md\n"),
        (("a/x.py", "a/r.md"), "missing in the wheel: a/x.json\n"),
        (("a/x.py", "a/x.json", "a/r.md", "b/y.py"), "not ours, in the wheel: b/y.py\n"),
    ],
)
def test_a_file_that_a_wheel_lacks_or_should_not_have_is_named(
    tmp_path: Path, packed: tuple[str, ...], message: str
) -> None:
    assert contents(tmp_path, *packed) == message


@pytest.mark.parametrize("written", ["https://x.org/a/b", "https://x.org/other"])
def test_a_release_says_where_it_is_kept(tmp_path: Path, written: str) -> None:
    address = "https://x.org/a/b"
    metadata = f"Project-URL: Repository, {written}\n"
    message = contents(tmp_path, "a/x.py", "a/x.json", "a/r.md", metadata=metadata, HARNESS_REPOSITORY=address)
    assert message == ("" if written == address else f"not in the metadata: {address}\n")


@pytest.mark.parametrize("written", ["https://x.org/a/b/blob/main/docs/index.md", "docs/index.md"])
def test_a_link_that_the_package_index_could_not_follow_is_named(tmp_path: Path, written: str) -> None:
    address = "https://x.org/a/b"
    metadata = f"Project-URL: Repository, {address}\n\n[here]({written}), [above](#use-it)\n"
    message = contents(tmp_path, "a/x.py", "a/x.json", "a/r.md", metadata=metadata, HARNESS_REPOSITORY=address)
    assert message == ("" if written.startswith("https") else "relative in the README: docs/index.md\n")
