"""The membership track on small networks, from the plan to the tables."""

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
from imharness.documents.stored import read_leaderboard
from imharness.errors import UsageError
from imharness.membership import MembershipQuery, References
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness_membership.augmenting import VIEWS
from imharness_membership.likelihood import log_odds
from imharness_membership.splits import split_rows

CPU = torch.device("cpu")
PROFILE = """
name = "small"
description = "For a test."
batch_size = 16
time_limit_s = 300

[tracks."harness/membership"]
select = { dataset = ["digits"], model = ["mlp[hidden=[32]]"], defense = ["plain-training", "label-smoothing", "masking[top_k=1]"], evaluator = ["confidence", "confidence[per_class=False]", "privacy-risk", "lira", "rmia", "label-only", "neural-known[epochs=2,width=8]", "white-box-known[epochs=2,width=8]", "white-box-layers[epochs=2,width=8,kernels=2]", "white-box-layers-known[epochs=2,width=8,kernels=2]"] }
options = { splits = 2, part = 100, epochs = 8, learning_rate = 0.01, references = 4, copies = 2, sensitivity_rows = 6, by_epoch = 3 }
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
    leaderboard = json.loads((folder / "store" / "leaderboards" / "harness--membership.json").read_text())
    return {table["id"]: {row["label"]: row["values"] for row in table["rows"]} for table in leaderboard["tables"]}


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
    settings = tomllib.loads(PROFILE)["tracks"]["harness/membership"]
    profile = Profile(name="small", description="", tracks={"harness/membership": TrackProfile(**settings)})
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
    settings = tomllib.loads(PROFILE)["tracks"]["harness/membership"]
    profile = Profile(name="small", description="", tracks={"harness/membership": TrackProfile(**settings)})
    graph = plan_track("harness/membership", profile, installed())
    evaluators = {t.spec.components["evaluator"].label for t in graph.tasks.values() if t.spec.step == "evaluate"}
    assert (graph.by_step()["outsider"], graph.by_step()["unseen"]) == (1, len(evaluators))
    assert graph.track.chance_level_steps == ("unseen",)
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


def test_gradients_of_all_layers_are_stored_as_factors_and_reach_the_attack(folder: Path, tables) -> None:
    """Of 64 x 32 and 32 x 10 weights a row keeps 32 inputs and 42 slopes; its 64 features are in the data set."""
    store = Store(str(folder / "store"))
    records = [
        record for _, record in store.records() if isinstance(record, TaskRecord) and record.spec.step == "train"
    ]
    assert len(records) == 8
    for record in records:
        arrays = store.arrays(record)
        assert arrays["layers.sizes"].tolist() == [[64, 32], [32, 10]]
        assert (arrays["layers.inputs"].shape, arrays["layers.slopes"].shape) == ((200, 32), (200, 42))
        np.testing.assert_allclose(arrays["layers.slopes"][:, 32:], arrays["error"], atol=1e-6)
        np.testing.assert_allclose(arrays["layers.inputs"], arrays["features"], atol=1e-6)
    deep = [values for key, values in tables["evaluators"].items() if key.startswith("harness/white-box-layers")]
    assert len(deep) == 2
    assert all(0.3 < values["unseen"]["value"] < 0.7 for values in deep)


def test_the_last_epoch_has_the_numbers_of_the_trained_model(folder: Path, tables) -> None:
    """Three of 8 epochs are asked for: every third, and the last. Each defense's own accuracies and attacks return."""
    store, names = Store(str(folder / "store")), ("harness/plain-training", "harness/label-smoothing")
    assert list(tables["by-epoch"]) == [f"epoch {n}, {name}" for name in names[::-1] for n in (3, 6, 8)]
    records = [
        record
        for _, record in store.records()
        if isinstance(record, TaskRecord) and record.spec.options.get("split") == 0
    ]
    for name in names:
        last = {key: cell["value"] for key, cell in tables["by-epoch"][f"epoch 8, {name}"].items()}
        mine = [record for record in records if record.spec.components["defense"].id == name]
        [target] = [
            record for record in mine if record.spec.step == "train" and record.spec.options["role"] == "target"
        ]
        assert (last["train"], last["test"]) == pytest.approx(
            (target.facts["train_accuracy"], target.facts["test_accuracy"])
        )
        evaluations = [record for record in mine if record.spec.step == "evaluate" and record.spec.options["adaptive"]]
        evaluations = [record for record in evaluations if "matched" not in record.spec.components]
        by = {record.spec.components["evaluator"].label: store.rows(record) for record in evaluations}
        rows = by["harness/confidence"]
        inside, guesses = np.array(rows["member"]), np.array(rows["score"]) >= 0
        assert last["confidence"] == pytest.approx((guesses[inside].mean() + (~guesses[~inside]).mean()) / 2)
        risk = by["harness/privacy-risk"]
        scores = np.array(risk["score"])[np.array(risk["member"])] + 0.5
        assert last["risk"] == pytest.approx(scores.mean(), rel=1e-5)


def test_parts_are_disjoint_and_of_one_size() -> None:
    subsets = split_rows(620, generator(0), 100)
    rows = [int(r) for subset in subsets.values() for r in subset]
    assert len(set(rows)) == 600
    assert {len(subset) for subset in subsets.values()} == {100}
    with pytest.raises(UsageError, match="do not fit"):
        split_rows(599, generator(0), 100)


def test_further_non_members_of_a_target_are_other_rows_and_change_no_part() -> None:
    plain, further = (split_rows(620, generator(0), 80, further=count) for count in (0, 140))
    assert all(torch.equal(further[name], rows) for name, rows in plain.items())
    assert further.keys() - plain.keys() == {"target_further"}
    every = torch.cat(list(further.values()))
    assert len(every.unique()) == len(every) == 6 * 80 + 140
    with pytest.raises(UsageError, match="six parts of 80 rows and 141 further non-members do not fit into 620 rows"):
        split_rows(620, generator(0), 80, further=141)


def test_the_shadow_has_parts_of_its_own_size() -> None:
    subsets = split_rows(5010, generator(0), 1000, 500)
    assert {name: len(subset) for name, subset in subsets.items()} == {
        f"{role}_{kind}": size
        for role, size in (("target", 1000), ("shadow", 500))
        for kind in ("member", "non_member", "reference")
    }
    assert len(set(torch.cat(list(subsets.values())).tolist())) == 4500
    with pytest.raises(UsageError, match="three parts of 1000 rows and three of 700 do not fit into 5010"):
        split_rows(5010, generator(0), 1000, 700)


POOLED = """
name = "pooled"
description = "For a test."
batch_size = 16
time_limit_s = 300

[tracks."harness/membership"]
select = { dataset = ["digits"], model = ["mlp[hidden=[16]]"], defense = ["plain-training", "label-smoothing", "masking[top_k=1]"], evaluator = ["lira"] }
options = { splits = 3, pools = 2, part = 60, epochs = 3, learning_rate = 0.01, references = 5, matched = false }
"""  # noqa: E501


def test_splits_of_a_pool_share_rows_and_reference_models_and_draw_their_own_members(
    tmp_path: Path, no_site: None
) -> None:
    """For every row of a split, an evaluator gets the answers of the pool's networks to that row."""
    (tmp_path / "pooled.toml").write_text(POOLED)
    words = ["run", "--track", "membership", "--profile", str(tmp_path / "pooled.toml"), "--workers", "0"]
    words += ["--store", str(tmp_path / "store"), "--site", str(tmp_path / "site")]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    store = Store(str(tmp_path / "store"))
    records = [record for _, record in store.records() if isinstance(record, TaskRecord)]

    def found(step: str, defense: str, **options: object) -> list[TaskRecord]:
        return [
            record
            for record in records
            if record.spec.step == step
            and record.spec.components["defense"].id == f"harness/{defense}"
            and options.items() <= record.spec.options.items()
        ]

    assert [len(found("references", name)) for name in ("plain-training", "label-smoothing")] == [2, 2]
    assert len(found("release_references", "masking")) == 2
    leaderboard = read_leaderboard(store, "harness/membership")
    assert leaderboard is not None
    for name in ("defenses", "rates", "accuracy", "evaluators"):
        [shown_table] = [candidate for candidate in leaderboard.tables if candidate.id == name]
        assert "Splits of one pool have the same rows and reference models" in shown_table.caption
        assert all(
            cell.low is None for row in shown_table.rows for key, cell in row.values.items() if key != "behind"
        ), name
    table, compared = installed().one("dataset", "digits").build(CPU), 0
    for defense in ("plain-training", "label-smoothing"):
        targets = [found("train", defense, split=split, role="target")[0] for split in range(3)]
        members = [
            set(np.array(member_rows["row"])[member_rows["member"]].tolist())
            for member_rows in map(store.rows, targets)
        ]
        rows = [set(store.rows(record)["row"].tolist()) for record in targets]
        assert rows[0] == rows[2] != rows[1]
        assert members[0] != members[2]
        [pool] = found("references", defense, pool=0)
        arrays = store.arrays(pool)
        assert arrays["row"].tolist() == sorted(rows[0])
        if defense == "plain-training":
            network = installed().one("model", "mlp[hidden=[16]]").build(CPU)((64,), 10, generator(0)).eval()
            names = [name for name in arrays if name.startswith("weights.")]
            for number in range(5):
                network.load_state_dict({n.removeprefix("weights."): torch.tensor(arrays[n][number]) for n in names})
                with torch.no_grad():
                    outputs = network(table.features[torch.tensor(arrays["row"])]).softmax(dim=1)
                odds = log_odds(outputs, table.labels[torch.tensor(arrays["row"])])
                torch.testing.assert_close(torch.tensor(arrays["log_odds"][number]), odds, rtol=1e-4, atol=1e-4)
        for split in (0, 2):
            [target], [shadow] = (found("train", defense, split=split, role=role) for role in ("target", "shadow"))
            target_rows, theirs = store.rows(target), store.rows(shadow)
            columns = [arrays["row"].tolist().index(row) for row in target_rows["row"].tolist()]
            query = MembershipQuery(
                torch.tensor(store.arrays(shadow)["outputs"]),
                torch.tensor(theirs["label"]),
                torch.tensor(theirs["member"]),
                torch.tensor(store.arrays(target)["outputs"]),
                torch.tensor(target_rows["label"]),
                References(
                    *(torch.tensor(arrays[name][:, columns]) for name in ("log_odds", "member")),
                    torch.tensor(arrays["population"]),
                    torch.tensor(store.arrays(target)["population"]),
                ),
            )
            for evaluator in [e for e in installed().of_kind("evaluator") if e.info.id == "harness/lira"]:
                evaluations = [
                    r
                    for r in found("evaluate", defense, split=split, adaptive=True)
                    if r.spec.components["evaluator"].label == evaluator.label
                ]
                if evaluations:
                    compared += 1
                    scores = dict(zip(target_rows["row"].tolist(), evaluator.build(CPU)(query).tolist(), strict=True))
                    stored = store.rows(evaluations[0])
                    wanted = [scores[row] for row in stored["row"].tolist()]
                    assert np.array(stored["score"]) == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    assert compared == 16  # two defenses, two splits of one pool, and four variants of LiRA


def test_pools_and_epochs_of_equal_accuracy_do_not_go_together() -> None:
    settings = tomllib.loads(POOLED)["tracks"]["harness/membership"]
    settings["options"]["matched"] = True
    profile = Profile(name="pooled", description="", tracks={"harness/membership": TrackProfile(**settings)})
    with pytest.raises(UsageError, match="matched=false"):
        plan_track("harness/membership", profile, installed())


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
    records = [record for _, record in store.records() if isinstance(record, TaskRecord)]
    plain = [record for record in records if record.spec.components["defense"].id == "harness/plain-training"]
    [target] = [record for record in plain if record.spec.step == "train" and record.spec.options["role"] == "target"]
    [references] = [record for record in plain if record.spec.step == "references"]
    table = installed().one("dataset", "image-folders").with_parameters(path=address, size=16).build(CPU)
    rows = torch.tensor(store.rows(target)["row"])
    x, y = table.features[rows], table.labels[rows]
    wide = np.pad(x.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)), mode="reflect")
    up = torch.from_numpy(wide[:, :, 8:24, 4:20])
    network = installed().one("model", "cnn[width=4]").build(CPU)((3, 16, 16), 2, generator(0)).eval()
    for record, last in ((target, -1), (references, 0)):
        arrays = store.arrays(record)
        states = {name.removeprefix("weights."): values[last] for name, values in arrays.items() if "weights." in name}
        network.load_state_dict({name: torch.tensor(values) for name, values in states.items()})
        views = arrays["views"] if record is target else arrays["views"][0]
        assert views.shape == (6, len(rows))
        for number, seen in ((1, x.flip(3)), (VIEWS.index((-4, 0, False)), up)):
            with torch.no_grad():
                odds = log_odds(network(seen).softmax(dim=1), y)
            torch.testing.assert_close(torch.tensor(views[number - 1]), odds, rtol=1e-3, atol=1e-3)


def test_the_embedding_has_all_rows_of_the_classes_at_both_ends(folder: Path, tmp_path: Path) -> None:
    words = ["membership", "embeddings", "--store", str(folder / "store"), "--out", str(tmp_path / "seen.svg")]
    result = CliRunner().invoke(cli, [*words, "--fewest", "2"])
    assert result.exit_code == 0, result.output
    assert (
        "200 rows of 10 classes" in result.output
    )  # 100 members and 100 non-members; five classes at each end are all
    text = (tmp_path / "seen.svg").read_text()
    assert text.startswith("<?xml")
    few = CliRunner().invoke(cli, [*words, "--fewest", "90"])
    assert "fewer than two classes have 90 members" in str(few.exception)
    other = CliRunner().invoke(cli, [*words, "--defense", "l2"])
    assert "has 0 networks" in str(other.exception)
