"""The track from plan to tables on a few real thumbnails: models as initialised and trained, images protected."""

from pathlib import Path
from typing import Any

import pytest
import torch

from imharness.components.registry import installed
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.profiles import load_profile
from imharness.ranking.entries import known_entries
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness.running.context import BuildCache, run_task
from imharness.tracks import TrackReport
from imharness_reconstruction.tables import report

TRACK = "harness/reconstruction"
LENET = "harness/lenet[channels=16,activation=relu]"
THUMBNAILS = "thumbnails[size=16,per_photograph=1]"


def planned(options: dict[str, Any], limit: int | None = None, **select: list[str]) -> Graph:
    """Return the tasks of a small run, by default of one model as initialised, scored by PSNR without a defense."""
    chosen = {"dataset": [THUMBNAILS], "model": ["untrained"], "metric": ["psnr"], "defense": ["plain-gradient"]}
    settings = TrackProfile(select={**chosen, **select}, options={"epochs": 1, **options})
    return plan_track(TRACK, Profile(name="small", description="", tracks={TRACK: settings}), installed(), limit=limit)


def computed(graph: Graph, folder: Path) -> tuple[Store, dict[str, TaskRecord]]:
    """Compute all tasks; return their store, and their records by key."""
    cache = BuildCache(installed(), Store(folder), torch.device("cpu"), 16)
    records = {key: run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()}
    assert [record.failure for record in records.values() if record.failure] == []
    return cache.store, records


def test_both_states_of_a_model_and_batches_of_protected_images(tmp_path: Path) -> None:
    graph = planned(
        {"judge": LENET, "narrow": {"harness/cafe": ["harness/untrained"]}},
        limit=4,
        model=["untrained", LENET],
        attack=["invgrad[steps=8]", "cafe[steps=2,batch=2]"],
        defense=["plain-gradient", "mixup"],
    )
    store, records = computed(graph, tmp_path)
    query = ResultQuery(store, list(records.values()))
    states = query("SELECT DISTINCT attack, model, defense, state FROM reconstruct ORDER BY ALL")
    rows = list(zip(states["attack"], states["model"], states["state"], strict=True))
    initial, trained = ("harness/untrained", "as initialised"), (LENET, "trained")
    expected = [("harness/cafe[batch=2,steps=2]", *initial)] * 2
    expected += [("harness/invgrad[steps=8]", *trained)] * 2 + [("harness/invgrad[steps=8]", *initial)] * 2
    assert sorted(rows) == sorted(expected)
    fit = query("SELECT loss, attainable, grey FROM reconstruct")
    assert abs(fit["attainable"]).max() < 1e-5  # nothing was added to any of these gradients
    assert (fit["grey"] > 0).all()
    assert query("SELECT DISTINCT source FROM reconstruct ORDER BY 1")["source"].tolist() == [
        "astronaut",
        "chelsea",
        "china",
        "rocket",
    ]
    tables = [table.title for table in report(query).tables if table.id.startswith("models")]
    assert len(tables) == 3
    assert tables[0].endswith("as initialised")
    assert tables[-1].endswith("trained")


def test_an_attack_is_narrowed_by_its_label_and_else_by_its_id() -> None:
    narrow = {"harness/invgrad": ["harness/untrained"], "harness/invgrad[surviving=False]": [LENET]}
    graph = planned(
        {"narrow": narrow, "judge": LENET},
        model=["untrained", LENET],
        attack=["invgrad", "invgrad[surviving=false]"],
    )
    tasks = [task.spec.named() for task in graph.tasks.values() if task.spec.step == "reconstruct"]
    assert sorted((components["attack"].label, components["model"].label) for components in tasks) == [
        ("harness/invgrad", "harness/untrained"),
        ("harness/invgrad[surviving=False]", LENET),
    ]
    guessed = [task.spec.components["metric"].label for task in graph.tasks.values() if task.spec.step == "guess"]
    assert guessed == ["harness/psnr"]


def test_participants_of_a_round_count_once_so_more_images_are_attacked() -> None:
    graph = planned(
        {"attacked": 6, "participants": 5, "judge": "harness/lenet"},
        dataset=["digit-images[size=18]"],
        attack=["invgrad", "federated[images=2]", "imprint[images=4]"],
    )
    specs = [task.spec for task in graph.tasks.values() if "attacked" in task.spec.options]
    images = {
        (spec.step, attack.id): spec.options["attacked"] for spec in specs if (attack := spec.components.get("attack"))
    }
    for step in ("reconstruct", "leakage", "recognise"):
        attacked = [images[step, f"harness/{attack}"] for attack in ("invgrad", "federated", "imprint")]
        assert attacked == [6, 10, 20]
    assert [spec.options["attacked"] for spec in specs if spec.step == "guess"] == [20]


def test_dlg_and_idlg_have_the_evaluations_of_their_authors() -> None:
    """300 iterations of L-BFGS, each of up to 20 evaluations; one step of ours is one evaluation."""
    for attack in ("dlg", "idlg"):
        component = installed().one("attack", attack)
        for name in ("embedded", "paper", "official"):
            parameters = load_profile(name).tracks[TRACK].parameters.get(f"harness/{attack}", {})
            assert component.with_parameters(**parameters).iterations == 300 * 20, name


def test_an_attack_is_not_run_twice_where_nothing_was_pruned(tmp_path: Path) -> None:
    graph = planned(
        {"judge": LENET},
        limit=2,
        dataset=["thumbnails[size=16]"],
        attack=["invgrad[steps=8]", "invgrad[steps=8,surviving=false]"],
        defense=["plain-gradient", "gradient-pruning[share=0.9]"],
    )
    tasks = [task for task in graph.tasks.values() if task.spec.step == "reconstruct"]
    named = {
        (components["defense"].id, components["attack"].parameters["surviving"]): t
        for t in tasks
        if (components := t.spec.named())
    }
    store, records = computed(graph, tmp_path)
    plain, pruned = (
        [store.arrays(records[named[guard, surviving].key])["images"] for surviving in (True, False)]
        for guard in ("harness/plain-gradient", "harness/gradient-pruning")
    )
    assert (plain[0] == plain[1]).all()
    assert (pruned[0] != pruned[1]).any()
    for guard in ("harness/plain-gradient", "harness/gradient-pruning"):
        assert named[guard, False].spec.needs["aware"] == named[guard, True].key


def test_gradients_of_a_few_images_at_once_give_the_same(tmp_path: Path) -> None:
    results = []
    for at_once in (0, 3):
        options = {"judge": "harness/untrained", "at_once": at_once}
        graph = planned(options, limit=4, attack=["invgrad[steps=8]"], defense=["gaussian-gradient"])
        store, records = computed(graph, tmp_path / str(at_once))
        (record,) = [records[key] for key, task in graph.tasks.items() if task.spec.step == "reconstruct"]
        results.append((store.rows(record), store.arrays(record)["images"].astype(int)))
    (whole, images), (pieces, others) = results
    assert list(whole["name"]) == list(pieces["name"])
    assert abs(whole["loss"] - pieces["loss"]).max() < 1e-4
    assert abs(images - others).max() <= 2


def test_the_first_images_are_attacked_and_accuracy_is_of_all(tmp_path: Path) -> None:
    graph = planned({"judge": LENET, "attacked": 2, "shown_images": 2}, model=[LENET], attack=["invgrad[steps=8]"])
    store, records = computed(graph, tmp_path)
    query = ResultQuery(store, list(records.values()))
    first = query("SELECT name FROM gallery ORDER BY position")["name"].tolist()
    for step in ("reconstruct", "leakage", "guess", "recognise"):
        assert query(f"SELECT name FROM {step}")["name"].tolist() == first
    assert len(query("SELECT name FROM train")["name"]) > len(first)


HONEST, MALICIOUS = "honest but curious", "malicious"
PLAIN, NOISY = "harness/plain-gradient", "harness/gaussian-gradient"
PAIR = "mean gradient of 2 images"


@pytest.fixture(scope="module")
def threats(tmp_path_factory: pytest.TempPathFactory) -> ResultQuery:
    """Return the results of attacks on five images under four settings of a threat model and what is shared.

    A gradient is of one image, or the mean of a participant's two.
    """
    narrow = {"harness/federated": ["harness/untrained"], "harness/imprint": ["harness/untrained"]}
    graph = planned(
        {"judge": LENET, "narrow": narrow},
        limit=5,
        model=["untrained", LENET],
        attack=[
            "invgrad[steps=8]",
            "invgrad-prior[steps=8]",
            "federated[images=2,steps=8]",
            "imprint[images=2]",
        ],
        defense=["plain-gradient", "gaussian-gradient", "mixup"],
    )
    store, by_key = computed(graph, tmp_path_factory.mktemp("threats"))
    records = list(by_key.values())
    return ResultQuery(store, records, known_entries(store).facts(records))


@pytest.fixture(scope="module")
def threat_report(threats: ResultQuery) -> TrackReport:
    return report(threats)


def test_attacks_on_shared_updates_have_a_threat_model_and_meet_defenses_of_gradients(threats: ResultQuery) -> None:
    rows = threats("SELECT DISTINCT attack, defense, threat, shared FROM reconstruct ORDER BY ALL")
    threat_rows = [row[1:] for row in zip(*rows.values(), strict=True) if "invgrad" not in row[0]]
    assert threat_rows == [(d, threat, PAIR) for threat in (HONEST, MALICIOUS) for d in (NOISY, PLAIN)]


def test_images_that_share_an_update_count_once_as_the_photograph_of_the_first(threats: ResultQuery) -> None:
    """Of five images in pairs, the last participant has the fifth alone."""
    shares = threats(
        f"SELECT attack, name, source FROM reconstruct WHERE defense = '{PLAIN}' AND model = 'harness/untrained'"
    )
    attacks = sorted(set(shares["attack"]))
    assert len(attacks) == 4
    for attack in attacks:
        names, sources = (shares[column][shares["attack"] == attack].tolist() for column in ("name", "source"))
        units = names if "invgrad" in attack else [names[i] for i in (0, 0, 2, 2, 4)]
        source_of = dict(zip(names, sources, strict=True))
        assert sources == [source_of[name] for name in units]
        assert len(set(sources)) == len(set(units))


def test_imprint_recovers_what_participants_share(threats: ResultQuery) -> None:
    of_imprint = "attack LIKE '%imprint%' AND defense LIKE '%plain%'"
    scores = threats(f"SELECT min(score) AS least, count(*) AS n FROM leakage WHERE {of_imprint}")
    assert scores["n"].tolist() == [5]  # two participants of two images, and one of what is left
    assert scores["least"][0] > 40


def test_defenses_are_ranked_within_a_threat_model(threat_report: TrackReport) -> None:
    assert [ranking.table for ranking in threat_report.rankings] == [
        "ranking",
        "ranking-honest-but-curious-mean-gradient-of-2-images",
        "ranking-honest-but-curious-other-images-known-gradient-of-1-image",
        "ranking-malicious-mean-gradient-of-2-images",
    ]
    settings = {c.id: {(s["threat"], s["shared"]) for s in c.conditions} for c in threat_report.comparisons[:1]}
    assert settings == {"protection-wins": {(HONEST, "gradient of 1 image")}}
    clusters = {c.table: c.cluster_unit for c in threat_report.comparisons if c.table.startswith("ranking")}
    assert clusters == {
        ranking.table: "participant" if ranking.table.endswith("of-2-images") else "photograph"
        for ranking in threat_report.rankings
    }
    counted = {c.cluster_unit: len(set(c.clusters[0])) for c in threat_report.comparisons if c.clusters}
    assert counted == {"photograph": 5, "participant": 3}


def test_threat_models_stand_beside_each_other_with_the_letters_of_the_sok(threat_report: TrackReport) -> None:
    (beside,) = (table for table in threat_report.tables if table.id == "by-threat")
    assert [column.key for column in beside.columns] == [
        f"{HONEST}: gradient of 1 image",
        f"{HONEST}: {PAIR}",
        f"{HONEST}, other images known: gradient of 1 image",
        f"{MALICIOUS}: {PAIR}",
    ]
    letters = [column.description.partition(" Threat models of the SoK: ")[2] for column in beside.columns]
    assert letters == ["B.", "B.", "D.", "G."]
    captions = {table.id: table.caption for table in threat_report.tables if table.id.startswith("ranking")}
    rest = " of 2 images. The last participant had what was left, 1."
    assert [rest in caption for caption in captions.values()] == [id.endswith("2-images") for id in captions]


def test_only_the_paper_profile_trains_without_momentum_decay_and_bound() -> None:
    """Elsewhere the options are no part of a training's identity, so that stored networks stay known."""
    for name, wanted in (("paper", {"momentum": 0, "cosine": False, "clip": 0}), ("official", {})):
        graph = plan_track(TRACK, load_profile(name), installed(), whole=True)
        trained = [task.spec.options for task in graph.tasks.values() if task.spec.step == "train"]
        assert trained
        for options in trained:
            assert {
                key: options[key] for key in ("momentum", "weight_decay", "cosine", "clip") if key in options
            } == wanted
