"""The track from plan to tables, small."""

import itertools
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from tests.conftest import without_site

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.contracts.randomness import generator
from imharness.errors import UsageError
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness_membership.augmenting import VIEWS
from imharness_membership.likelihood import log_odds
from imharness_membership.splits import split_rows

PROFILE = """
name = "small"
description = "For a test."
batch_size = 16
time_limit_s = 300

[tracks."harness/membership"]
select = { dataset = ["digits"], model = ["mlp[hidden=[32]]"], defense = ["plain-training", "label-smoothing", "masking[top_k=1]"], evaluator = ["confidence", "confidence[per_class=False]", "privacy-risk", "lira", "rmia", "label-only", "neural-known[epochs=2,width=8]", "white-box-known[epochs=2,width=8]"] }
options = { splits = 2, part = 100, epochs = 8, learning_rate = 0.01, references = 4, copies = 2, sensitivity_rows = 6 }
"""  # noqa: E501


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished run of `PROFILE`."""
    folder = tmp_path_factory.mktemp("membership")
    (folder / "small.toml").write_text(PROFILE)
    words = ["run", "--track", "membership", "--profile", str(folder / "small.toml"), "--workers", "0"]
    words += ["--store", str(folder / "store"), "--site", str(folder / "site")]
    with without_site():
        result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, dict]:
    board = json.loads((folder / "store" / "boards" / "harness--membership.json").read_text())
    return {table["id"]: {row["label"]: row["values"] for row in table["rows"]} for table in board["tables"]}


def test_early_stopping_stands_beside_the_training_it_matches(tables) -> None:
    matched = "harness/early-stopping, stopped nearest to the accuracy of harness/label-smoothing"
    assert set(tables["defenses"]) == {
        "harness/plain-training",
        "harness/label-smoothing",
        "harness/masking[top_k=1]",
        matched,
    }
    ours, theirs = (tables["defenses"][name]["utility"]["value"] for name in (matched, "harness/label-smoothing"))
    assert abs(ours - theirs) < 0.1


def test_a_release_that_keeps_the_label_is_judged_on_the_undefended_model(tables) -> None:
    plain, masked = (tables["rates"][name] for name in ("harness/plain-training", "harness/masking[top_k=1]"))
    assert (plain["test"], plain["train"]) == (masked["test"], masked["train"])


def test_every_split_trains_each_network_once() -> None:
    part = tomllib.loads(PROFILE)["tracks"]["harness/membership"]
    profile = Profile(name="small", description="", tracks={"harness/membership": TrackProfile(**part)})
    graph = plan_track("harness/membership", profile, installed())
    trained = [
        (t.spec.components["defense"].label, t.spec.options["split"], t.spec.options["role"])
        for t in graph.tasks.values()
        if t.spec.step == "train"
    ]
    names = ("harness/plain-training", "harness/label-smoothing")
    assert sorted(trained) == sorted(itertools.product(names, (0, 1), ("target", "shadow")))
    assert graph.by_step()["references"] == 2 * 2
    assert graph.by_step()["release_references"] == 2


def test_every_evaluator_is_asked_about_a_network_that_saw_none_of_the_rows(tables) -> None:
    part = tomllib.loads(PROFILE)["tracks"]["harness/membership"]
    profile = Profile(name="small", description="", tracks={"harness/membership": TrackProfile(**part)})
    graph = plan_track("harness/membership", profile, installed())
    asked = {t.spec.components["evaluator"].label for t in graph.tasks.values() if t.spec.step == "evaluate"}
    assert (graph.by_step()["outsider"], graph.by_step()["unseen"]) == (1, len(asked))
    assert graph.track.untold == ("unseen",)
    for name, values in tables["evaluators"].items():
        assert abs(values["unseen"]["value"] - 0.5) < 0.15, name
        assert values["unseen"]["n"] == 1


def test_the_tables_of_the_paper_are_there_and_hold_numbers(tables) -> None:
    wanted = {"defenses", "rates", "accuracy", "evaluators", "thresholds", "risk", "classes", "sensitivity"}
    assert wanted | {"estimates", "sensitivity-by-score"} <= set(tables)
    plain = tables["accuracy"]["harness/plain-training"]
    assert all(0.2 < value["value"] < 1 for key, value in plain.items() if key.startswith("e"))
    gain = tables["thresholds"]["harness/confidence"]
    assert gain["gain"]["value"] == pytest.approx(gain["each"]["value"] - gain["one"]["value"])
    risk = tables["risk"]["harness/plain-training"]
    assert risk["r5"]["value"] >= risk["r0"]["value"]
    assert risk["rmse"]["value"] > 0
    scores = {"harness/privacy-risk", "harness/confidence", "harness/lira", "harness/rmia", "all three"}
    assert set(tables["sensitivity"]) == scores
    assert len(tables["vulnerable"]) == 4


def test_parts_are_disjoint_and_of_one_size() -> None:
    parts = split_rows(620, generator(0), 100)
    rows = [int(r) for part in parts.values() for r in part]
    assert len(set(rows)) == 600
    assert {len(part) for part in parts.values()} == {100}
    with pytest.raises(UsageError, match="do not fit"):
        split_rows(599, generator(0), 100)


def test_the_shadow_has_parts_of_its_own_size() -> None:
    parts = split_rows(5010, generator(0), 1000, 500)
    assert {name: len(part) for name, part in parts.items()} == {
        f"{role}_{kind}": size
        for role, size in (("target", 1000), ("shadow", 500))
        for kind in ("member", "non_member", "reference")
    }
    assert len(set(torch.cat(list(parts.values())).tolist())) == 4500
    with pytest.raises(UsageError, match="three parts of 1000 rows and three of 700 do not fit into 5010"):
        split_rows(5010, generator(0), 1000, 700)


VIEWED = """
name = "viewed"
description = "For a test."
batch_size = 16
time_limit_s = 300

[tracks."harness/membership"]
select = { dataset = ["image-folders[path=FOLDER,size=16]"], model = ["cnn[width=4]"], defense = ["plain-training", "label-smoothing", "masking[top_k=1]"], evaluator = ["lira"] }

[tracks."harness/membership".options]
splits = 1
references = 3

[tracks."harness/membership".options.settings."harness/image-folders"]
part = 20
epochs = 2
optimiser = "sgd"
momentum = 0.9
schedule = "cosine"
augmentation = "crop-flip"
queries = 7
"""  # noqa: E501


def test_attacks_by_reference_models_are_given_what_networks_say_of_mirrored_and_shifted_rows(
    tmp_path: Path, no_site: None
) -> None:
    """The stored answers on views are those of the stored networks on rows that numpy mirrors and shifts."""
    rng = np.random.default_rng(0)
    for name, number in itertools.product(("cat", "dog"), range(64)):
        folder = tmp_path / "photographs" / name
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    address = str(tmp_path / "photographs")
    (tmp_path / "viewed.toml").write_text(VIEWED.replace("FOLDER", address))
    words = ["run", "--track", "membership", "--profile", str(tmp_path / "viewed.toml"), "--workers", "0"]
    words += ["--store", str(tmp_path / "store"), "--site", str(tmp_path / "site")]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    store = Store(str(tmp_path / "store"))
    records = [own for _, own in store.records() if isinstance(own, TaskRecord)]
    plain = [own for own in records if own.spec.components["defense"].id == "harness/plain-training"]
    [target] = [own for own in plain if own.spec.step == "train" and own.spec.options["role"] == "target"]
    [known] = [own for own in plain if own.spec.step == "references"]
    table = (
        installed().one("dataset", "image-folders").with_parameters(path=address, size=16).build(torch.device("cpu"))
    )
    rows = torch.tensor(store.rows(target)["row"])
    x, y = table.features[rows], table.labels[rows]
    wide = np.pad(x.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)), mode="reflect")
    up = torch.from_numpy(wide[:, :, 8:24, 4:20])
    network = installed().one("model", "cnn[width=4]").build(torch.device("cpu"))((3, 16, 16), 2, generator(0)).eval()
    for record, last in ((target, -1), (known, 0)):
        arrays = store.arrays(record)
        states = {name.removeprefix("weights."): own[last] for name, own in arrays.items() if "weights." in name}
        network.load_state_dict({name: torch.tensor(own) for name, own in states.items()})
        views = arrays["views"] if record is target else arrays["views"][0]
        assert views.shape == (6, len(rows))
        for number, seen in ((1, x.flip(3)), (VIEWS.index((-4, 0, False)), up)):
            with torch.no_grad():
                odds = log_odds(network(seen).softmax(dim=1), y)
            torch.testing.assert_close(torch.tensor(views[number - 1]), odds, rtol=1e-3, atol=1e-3)


def test_the_embedding_has_all_rows_of_the_classes_at_both_ends(folder: Path, tmp_path: Path) -> None:
    words = ["membership", "embeddings", "--store", str(folder / "store"), "--out", str(tmp_path / "seen.svg")]
    found = CliRunner().invoke(cli, [*words, "--fewest", "2"])
    assert found.exit_code == 0, found.output
    assert "200 rows of 10 classes" in found.output  # 100 members and 100 non-members; five classes at each end are all
    text = (tmp_path / "seen.svg").read_text()
    assert text.startswith("<?xml")
    few = CliRunner().invoke(cli, [*words, "--fewest", "90"])
    assert "fewer than two classes have 90 members" in str(few.exception)
    other = CliRunner().invoke(cli, [*words, "--defense", "l2"])
    assert "has 0 networks" in str(other.exception)
