"""A package's own contracts, from a notebook to the site: face de-identification (tests/packages/acme-faces)."""

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest

from imharness.components.loading import load_plugins
from imharness.components.registry import build_registry
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord

FACES = ("acme-faces",)
RUN = ("run", "--track", "acme/faces", "--workers", "0", "--device", "cpu", "--progress", "none")
PROBES = 48
"""Pictures on which a recogniser names the person."""


@pytest.fixture(scope="module")
def finished(harness_forked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faces")
    done = harness_forked(*RUN, cwd=folder, packages=FACES)
    assert done.returncode == 0, done.stderr
    return folder


def ranking_of(folder: Path) -> dict[str, dict[str, float]]:
    leaderboard = json.loads((folder / "store" / "leaderboards" / "acme--faces.json").read_text())
    (table,) = [table for table in leaderboard["tables"] if table["id"] == "ranking"]
    return {row["label"]: {key: cell.get("value") for key, cell in row["values"].items()} for row in table["rows"]}


def test_who_is_recognised_is_what_the_definition_says(finished: Path) -> None:
    """Faces behind black boxes are seldom recognised; those behind a mosaic are, if the attacker knows the defense.

    `worst` is the share of pictures on which the person is recognised, `aware` that of attackers who hide the
    gallery in the same way.
    """
    rows = ranking_of(finished)
    assert rows.keys() == {"acme/untouched", "acme/black-box", "acme/mosaic[side=12]"}
    assert rows["acme/untouched"]["worst"] > 0.8
    assert rows["acme/untouched"]["utility"] == 1
    assert rows["acme/black-box"]["worst"] < 0.25
    assert rows["acme/mosaic[side=12]"]["aware"] > rows["acme/mosaic[side=12]"]["unaware"]
    assert rows["acme/mosaic[side=12]"]["utility"] > rows["acme/black-box"]["utility"]


def test_the_worst_of_each_picture_is_that_of_the_rows(finished: Path) -> None:
    store = Store(finished / "store")
    recognised: dict[str, dict[str, list[float]]] = {}
    for _, record in store.records():
        assert isinstance(record, TaskRecord)
        rows, label = store.rows(record), record.spec.components["defense"].label
        for name, right in zip(rows["name"], rows["recognised"], strict=True):
            recognised.setdefault(label, {}).setdefault(str(name), []).append(float(right))
    for label, row in ranking_of(finished).items():
        by_picture = recognised[label]
        assert len(by_picture) == PROBES
        assert {len(numbers) for numbers in by_picture.values()} == {4}, "two recognisers, two attackers"
        assert row["worst"] == pytest.approx(np.mean([max(numbers) for numbers in by_picture.values()]))


def test_entries_are_tested_ranked_again_and_shown(finished: Path, harness_forked) -> None:
    before = ranking_of(finished)
    ranked = harness_forked("results", "rank", cwd=finished, packages=FACES)
    assert ranked.returncode == 0, ranked.stderr
    assert "Who is recognised" in ranked.stdout or "faces" in ranked.stdout
    assert ranking_of(finished) == before
    leaderboard = json.loads((finished / "store" / "leaderboards" / "acme--faces.json").read_text())
    (ranking,) = leaderboard["rankings"]
    assert ranking["places"]["acme/black-box"]["against"]["p_holm"] < 0.01, "Wilcoxon, against no defense"
    assert ranking["places"]["acme/untouched"]["control"] == "faces as they are"
    (wins,) = [table for table in leaderboard["tables"] if table["id"] == "wins"]
    assert {row["label"] for row in wins["rows"]} == {"acme/untouched", "acme/black-box", "acme/mosaic[side=12]"}
    page = (finished / "site" / "acme--faces.html").read_text()
    assert "Which way to hide a face hides who it is?" in page
    assert "drawn faces stand for photographs" in page


NOTEBOOK = """
import imharness as ih
from acme_faces import inside

def black(images, boxes):
    return images.masked_fill(inside(images, boxes), 0.0)

def right_half(images):
    return images[:, :, ::4, 24::4].flatten(1)

mine = ih.defense(black, differentiable=True, name="mine")
result = ih.evaluate(mine, track="faces", limit=None, progress=False)
table = result.table()
rows = dict(zip(table.labels, zip(table.column("worst"), table.column("utility"))))
assert rows["local/mine"] == rows["acme/black-box"], rows
assert not result.flags, result.flags

other = ih.evaluate(ih.evaluator(right_half, name="half"), track="faces", limit=None, progress=False)
assert "local/half" in set(other.rows("search")["evaluator"]), other

def wide(images, boxes):
    return images[:, :, :, :24]

try:
    ih.evaluate(ih.defense(wide, differentiable=True), track="faces", progress=False)
except ih.errors.ContractError as error:
    assert "expected images of shape (3, 48, 48)" in str(error), error
else:
    raise AssertionError("half of an image is none")
try:
    ih.evaluate(ih.metric(right_half, bounds=(0, 1), higher_means="better_quality"), track="faces", progress=False)
except ih.errors.UsageError as error:
    assert "does not take your own metric; it takes: defense, evaluator." in str(error), error
else:
    raise AssertionError("the track has no metric")
"""


def test_a_notebook_evaluates_objects_of_contracts_of_the_package(
    harness_forked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ended = harness_forked("-c", NOTEBOOK, cwd=tmp_path, packages=FACES)
    assert ended.returncode == 0, ended.stderr


NEW_KIND = """
from imharness.extending import Component
from imharness.images import Info, hookimpl

class Anonymiser(Component):
    "Hide."
    kind = "{kind}"
    info = Info(id="acme/x", version="1")

@hookimpl
def components():
    return [Anonymiser()]
"""


def test_a_kind_that_there_is_not_is_named_with_those_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_new_kind.py").write_text(NEW_KIND.format(kind="defence"))
    monkeypatch.syspath_prepend(str(tmp_path))
    point = importlib.metadata.EntryPoint("x", "acme_new_kind", "imharness")
    (failure,) = build_registry(load_plugins([point])).failures
    assert failure.reason.startswith("Anonymiser: no components have the kind 'defence'. Did you mean 'defense'?")
    assert "Kinds: attack, defense, metric, evaluator" in failure.reason
