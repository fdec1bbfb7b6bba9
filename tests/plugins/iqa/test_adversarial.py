"""The data set of attacked images: what is written is what the run made, and the metadata describes the files."""

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from tests.conftest import without_site

from imharness.cli import cli
from imharness.commands import device_of, find, finished

LICENCE = "https://creativecommons.org/licenses/by/4.0/"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a store with one attack on a metric, behind no defense and through one, and the exported folder."""
    root = tmp_path_factory.mktemp("adversarial")
    profile = root / "small.toml"
    profile.write_text(
        'name = "small"\ndescription = "A small run."\n[tracks."harness/iqa"]\n'
        'select = { dataset = ["severity-ladder[per_photograph=2,size=32]"], metric = ["embedded-cnn"], '
        'attack = ["ifgsm"], defense = ["none", "flip"] }\n'
        'options = { strengths = ["medium"] }\n'
    )
    words = ["run", "--track", "iqa", "--profile", str(profile), "--limit", "3", "--workers", "0"]
    with without_site():
        result = CliRunner().invoke(cli, [*words, "--store", str(root / "store"), "--site", str(root / "site")])
    assert result.exit_code == 0, result.output
    written = export(root / "store", root / "out")
    assert written.exit_code == 0, written.output
    assert "6 attacked images" in written.output
    return root / "store", root / "out"


def export(store: Path, out: Path):
    return CliRunner().invoke(cli, ["iqa", "export", "--store", str(store), "--out", str(out), "--licence", LICENCE])


def pixels(file: Path) -> np.ndarray:
    return np.asarray(Image.open(file)).transpose(2, 0, 1)


def test_files_are_the_images_of_the_run_and_their_originals(generated: tuple[Path, Path]) -> None:
    store, out = generated
    lines = list(csv.DictReader((out / "index.csv").read_text(encoding="utf-8").splitlines()))
    assert {(line["attack"].partition("[")[0], line["strength"]) for line in lines} == {("harness/ifgsm", "medium")}
    assert sorted({line["knows"] for line in lines}) == ["", "harness/flip"]
    tasks = {task.labels.get("defense", ""): task.output for task in finished(store, "harness/iqa", "attack")}
    clean = find("dataset", lines[0]["dataset"]).build(device_of("cpu"))
    for line in lines:
        at, output = clean.names.index(line["name"]), tasks[line["knows"]]
        np.testing.assert_array_equal(pixels(out / line["file"]), next(iter(output.arrays.values()))[at])
        np.testing.assert_array_equal(pixels(out / line["original"]), clean.load([at])[0].mul(255).round().numpy())
        assert float(line["score"]) == output.rows["score"][at]
        assert hashlib.sha256((out / line["file"]).read_bytes()).hexdigest() == line["sha256"]
    assert len(list((out / "originals").iterdir())) == 3


def test_the_metadata_describes_the_index_as_it_is(generated: tuple[Path, Path]) -> None:
    facts = json.loads((generated[1] / "croissant.json").read_text())
    index = (generated[1] / "index.csv").read_bytes()
    (listed,) = (entry for entry in facts["distribution"] if entry["@type"] == "cr:FileObject")
    assert (listed["sha256"], listed["contentSize"]) == (hashlib.sha256(index).hexdigest(), f"{len(index)} B")
    (records,) = facts["recordSet"]
    assert [field["name"] for field in records["field"]] == index.decode().splitlines()[0].split(",")
    assert facts["license"] == LICENCE
    for folder in (entry for entry in facts["distribution"] if entry["@type"] == "cr:FileSet"):
        assert len(list(generated[1].glob(folder["includes"]))) == {"attacked": 6, "originals": 3}[folder["name"]]


@pytest.mark.extra
@pytest.mark.filterwarnings("ignore")  # of mlcroissant's own code
def test_mlcroissant_accepts_the_metadata_and_reads_the_index(generated: tuple[Path, Path]) -> None:
    import mlcroissant

    dataset = mlcroissant.Dataset(
        jsonld=str(generated[1] / "croissant.json"), mapping={"index.csv": str(generated[1] / "index.csv")}
    )
    assert len(list(dataset.records("index"))) == 6


def test_a_folder_with_files_is_left_alone(generated: tuple[Path, Path]) -> None:
    again = export(*generated)
    assert "is not empty; name a new folder" in str(again.exception)
