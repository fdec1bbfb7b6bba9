"""What a release says of itself, and that workflows call what exists."""

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import imharness
from imharness.cli import cli

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_complete_and_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == imharness.__version__
    assert cited["license"] == PROJECT["license"]
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
    named = [own.get("name") or f"{own['family-names']}, {own['given-names']}" for own in cited["authors"]]
    assert [own["name"] for own in archived["creators"]] == named
    assert archived["upload_type"] == "software"


def test_the_page_on_releasing_names_commands_and_files_that_exist() -> None:
    page = (ROOT / "docs" / "releasing.md").read_text()
    for name in re.findall(r"`((?:\.ci|\.github|deploy|tests|core)/[\w./-]+)", page):
        assert (ROOT / name).exists(), name
    for command in re.findall(r"`harness ([a-z]+(?: [a-z]+)?)", page):
        words = command.split()
        ran = CliRunner().invoke(cli, [*words, "--help"])
        assert ran.exit_code == 0 or CliRunner().invoke(cli, [words[0], "--help"]).exit_code == 0, command


def test_notebooks_are_those_of_the_tutorials_and_install_in_their_first_cell() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "notebooks.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    found = [json.loads(path.read_text()) for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))]
    assert len(found) == 3
    for notebook in found:
        first, *rest = (cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code")
        assert first == f"%pip install --quiet {PROJECT['name']}"
        assert rest
        assert all("code-cell" not in cell["source"] for cell in notebook["cells"])
        assert all(not cell.get("outputs") for cell in notebook["cells"])


def dated(folder: Path, citation: str, changelog: str, *date: str) -> tuple[str, str, str]:
    """Return what `.ci/dated.py` says of these files, and what they are afterwards."""
    (folder / "CITATION.cff").write_text(citation)
    (folder / "CHANGELOG.md").write_text(changelog)
    command = [sys.executable, str(ROOT / ".ci" / "dated.py"), *date]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert bool(ran.returncode) == bool(ran.stderr)
    return ran.stderr, (folder / "CITATION.cff").read_text(), (folder / "CHANGELOG.md").read_text()


def test_what_is_not_released_has_no_date_and_a_release_has_one_in_both_files(tmp_path: Path) -> None:
    citation, changelog = (ROOT / "CITATION.cff").read_text(), (ROOT / "CHANGELOG.md").read_text()
    assert dated(tmp_path, citation, changelog) == ("", citation, changelog)
    said, cited, changed = dated(tmp_path, citation, changelog, "2026-12-01")
    assert said == ""
    assert str(yaml.safe_load(cited)["date-released"]) == "2026-12-01"
    assert changed.startswith(f"# Changelog\n\n## {imharness.__version__} (2026-12-01)\n")
    assert dated(tmp_path, cited, changed) == ("", cited, changed)
    assert "has a date already" in dated(tmp_path, cited, changed, "2026-12-02")[0]
    assert "has no such version" in dated(tmp_path, cited, changelog)[0]
    assert "CITATION.cff has no date" in dated(tmp_path, citation, changed)[0]


@pytest.mark.parametrize(
    "date", ["tomorrow", "20261201", "2026-W49-2", "2026-12-1", "2026-12-01T00:00", "2026-13-01", "２０２６-12-01", ""]
)
def test_a_release_has_a_day_of_the_calendar_in_one_form(date: str, tmp_path: Path) -> None:
    citation, changelog = (ROOT / "CITATION.cff").read_text(), (ROOT / "CHANGELOG.md").read_text()
    said, *files = dated(tmp_path, citation, changelog, date)
    assert len(said.splitlines()) == 1
    assert "is no da" in said
    assert files == [citation, changelog]


def test_every_script_that_workflows_and_the_build_call_is_there_and_can_be_run() -> None:
    texts = [(ROOT / ".ci" / "run").read_text(), *(f.read_text() for f in (ROOT / ".github/workflows").glob("*.yml"))]
    called = {name for text in texts for name in re.findall(r"(?<![\w/])\.ci/\w+(?![\w.])", text)}
    assert called == {".ci/beside", ".ci/distributions"}
    assert (ROOT / ".ci/beside").is_file()  # it is sourced
    assert (ROOT / ".ci/distributions").stat().st_mode & 0o111


def test_templates_and_workflows_can_be_read_and_store_no_secret() -> None:
    files = sorted((ROOT / ".github").rglob("*.yml"))
    assert {"bug.yml", "idea.yml", "config.yml", "release.yml", "pages.yml", "submissions.yml"} <= {
        f.name for f in files
    }
    for file in files:
        assert yaml.safe_load(file.read_text())
        assert "secrets." not in file.read_text(), file
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    assert release["permissions"] == {"contents": "read"}
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}


def test_every_action_of_a_workflow_is_pinned_by_the_hash_of_a_commit_and_says_its_version() -> None:
    used = [
        line.partition("uses:")[2].strip()
        for file in sorted((ROOT / ".github/workflows").glob("*.yml"))
        for line in file.read_text().splitlines()
        if "uses:" in line
    ]
    assert len(used) >= 10
    assert [own for own in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+(\.\d+){2}", own)] == []


def test_classifiers_say_which_versions_of_python_it_takes() -> None:
    said = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.M)
    assert said == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["requires-python"] == ">=3.11,<3.15"


def contents(folder: Path, *packed: str, metadata: str = "", **environment: str) -> str:
    """Return what is said of a wheel with these files, of a repository that has two, beside a whole source."""
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
    ("packed", "said"),
    [
        (("a/x.py", "a/x.json", "a/r.md"), ""),
        (("a/x.py", "a/x.json"), "missing in the wheel: a/r.md\n"),
        (("a/x.py", "a/r.md"), "missing in the wheel: a/x.json\n"),
        (("a/x.py", "a/x.json", "a/r.md", "b/y.py"), "not ours, in the wheel: b/y.py\n"),
    ],
)
def test_a_file_that_a_wheel_lacks_or_should_not_have_is_named(
    tmp_path: Path, packed: tuple[str, ...], said: str
) -> None:
    assert contents(tmp_path, *packed) == said


@pytest.mark.parametrize("written", ["https://x.org/a/b", "https://x.org/other"])
def test_a_release_says_where_it_is_kept(tmp_path: Path, written: str) -> None:
    asked = "https://x.org/a/b"
    metadata = f"Project-URL: Repository, {written}\n"
    said = contents(tmp_path, "a/x.py", "a/x.json", "a/r.md", metadata=metadata, HARNESS_REPOSITORY=asked)
    assert said == ("" if written == asked else f"not in the metadata: {asked}\n")


@pytest.mark.parametrize("written", ["https://x.org/a/b/blob/main/docs/index.md", "docs/index.md"])
def test_a_link_that_the_package_index_could_not_follow_is_named(tmp_path: Path, written: str) -> None:
    asked = "https://x.org/a/b"
    metadata = f"Project-URL: Repository, {asked}\n\n[here]({written}), [above](#use-it)\n"
    said = contents(tmp_path, "a/x.py", "a/x.json", "a/r.md", metadata=metadata, HARNESS_REPOSITORY=asked)
    assert said == ("" if written.startswith("https") else "relative in the README: docs/index.md\n")
