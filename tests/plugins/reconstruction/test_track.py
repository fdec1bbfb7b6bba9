"""The track from plan to tables on a few real thumbnails: models as initialised and trained, images protected."""

from pathlib import Path

import torch

from imharness.components.registry import installed
from imharness.planning.plan import plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.profiles import load_profile
from imharness.ranking.entries import known_entries
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness_reconstruction.tables import report

TRACK = "harness/reconstruction"


def test_both_states_of_a_model_and_batches_of_protected_images(tmp_path: Path) -> None:
    lenet = "harness/lenet[channels=16,activation=relu]"
    select = {
        "dataset": ["thumbnails[size=16,per_photograph=1]"],
        "model": ["untrained", lenet],
        "metric": ["psnr"],
        "attack": ["invgrad[steps=8]", "cafe[steps=2,batch=2]"],
        "defense": ["plain-gradient", "mixup"],
    }
    options = {"epochs": 1, "judge": lenet, "narrow": {"harness/cafe": ["harness/untrained"]}}
    profile = Profile(name="small", description="", tracks={TRACK: TrackProfile(select=select, options=options)})
    registry = installed()
    graph = plan_track(TRACK, profile, registry, limit=4)
    cache = BuildCache(registry, Store(tmp_path), torch.device("cpu"), 16)
    records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    query = ResultQuery(cache.store, records)
    states = query("SELECT DISTINCT attack, model, defense, state FROM reconstruct ORDER BY ALL")
    rows = list(zip(states["attack"], states["model"], states["state"], strict=True))
    initial, trained = ("harness/untrained", "as initialised"), (lenet, "trained")
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
    lenet = "harness/lenet[channels=16,activation=relu]"
    select = {
        "dataset": ["thumbnails[size=16]"],
        "model": ["untrained", lenet],
        "metric": ["psnr"],
        "attack": ["invgrad", "invgrad[surviving=false]"],
        "defense": ["plain-gradient"],
    }
    narrow = {"harness/invgrad": ["harness/untrained"], "harness/invgrad[surviving=False]": [lenet]}
    settings = TrackProfile(select=select, options={"narrow": narrow, "judge": lenet})
    graph = plan_track(TRACK, Profile(name="small", description="", tracks={TRACK: settings}), installed())
    tasks = [task.spec.named() for task in graph.tasks.values() if task.spec.step == "reconstruct"]
    assert sorted((components["attack"].label, components["model"].label) for components in tasks) == [
        ("harness/invgrad", "harness/untrained"),
        ("harness/invgrad[surviving=False]", lenet),
    ]
    guessed = [task.spec.components["metric"].label for task in graph.tasks.values() if task.spec.step == "guess"]
    assert guessed == ["harness/psnr"]


def test_participants_of_a_round_count_once_so_more_images_are_attacked() -> None:
    select = {
        "dataset": ["digit-images[size=18]"],
        "model": ["untrained"],
        "metric": ["psnr"],
        "attack": ["invgrad", "federated[images=2]", "imprint[images=4]"],
        "defense": ["plain-gradient"],
    }
    options = {"attacked": 6, "participants": 5, "judge": "harness/lenet"}
    settings = TrackProfile(select=select, options=options)
    graph = plan_track(TRACK, Profile(name="small", description="", tracks={TRACK: settings}), installed())
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
    select = {
        "dataset": ["thumbnails[size=16]"],
        "model": ["untrained"],
        "metric": ["psnr"],
        "attack": ["invgrad[steps=8]", "invgrad[steps=8,surviving=false]"],
        "defense": ["plain-gradient", "gradient-pruning[share=0.9]"],
    }
    options = {"epochs": 1, "judge": "harness/lenet[channels=16,activation=relu]"}
    profile = Profile(name="small", description="", tracks={TRACK: TrackProfile(select=select, options=options)})
    graph = plan_track(TRACK, profile, installed(), limit=2)
    tasks = [task for task in graph.tasks.values() if task.spec.step == "reconstruct"]
    named = {
        (components["defense"].id, components["attack"].parameters["surviving"]): t
        for t in tasks
        if (components := t.spec.named())
    }
    cache = BuildCache(installed(), Store(tmp_path), torch.device("cpu"), 16)
    records = {key: run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()}
    plain, pruned = (
        [cache.store.arrays(records[named[guard, surviving].key])["images"] for surviving in (True, False)]
        for guard in ("harness/plain-gradient", "harness/gradient-pruning")
    )
    assert (plain[0] == plain[1]).all()
    assert (pruned[0] != pruned[1]).any()
    for guard in ("harness/plain-gradient", "harness/gradient-pruning"):
        assert named[guard, False].spec.needs["aware"] == named[guard, True].key


def test_gradients_of_a_few_images_at_once_give_the_same(tmp_path: Path) -> None:
    select = {
        "dataset": ["thumbnails[size=16,per_photograph=1]"],
        "model": ["untrained"],
        "metric": ["psnr"],
        "attack": ["invgrad[steps=8]"],
        "defense": ["gaussian-gradient"],
    }
    results = []
    for at_once in (0, 3):
        options = {"epochs": 1, "judge": "harness/untrained", "at_once": at_once}
        profile = Profile(name="small", description="", tracks={TRACK: TrackProfile(select=select, options=options)})
        registry = installed()
        graph = plan_track(TRACK, profile, registry, limit=4)
        cache = BuildCache(registry, Store(tmp_path / str(at_once)), torch.device("cpu"), 16)
        (entry,) = [(key, task) for key, task in graph.tasks.items() if task.spec.step == "reconstruct"]
        record = run_task(cache, entry[0], entry[1].spec, lambda done, total: None)
        assert record.failure is None, record.failure
        results.append((cache.store.rows(record), cache.store.arrays(record)["images"].astype(int)))
    (whole, images), (pieces, others) = results
    assert list(whole["name"]) == list(pieces["name"])
    assert abs(whole["loss"] - pieces["loss"]).max() < 1e-4
    assert abs(images - others).max() <= 2


def test_the_first_images_are_attacked_and_accuracy_is_of_all(tmp_path: Path) -> None:
    lenet = "harness/lenet[channels=16,activation=relu]"
    select = {
        "dataset": ["thumbnails[size=16,per_photograph=1]"],
        "model": [lenet],
        "metric": ["psnr"],
        "attack": ["invgrad[steps=8]"],
        "defense": ["plain-gradient"],
    }
    settings = TrackProfile(select=select, options={"epochs": 1, "judge": lenet, "attacked": 2, "shown_images": 2})
    registry = installed()
    graph = plan_track(TRACK, Profile(name="small", description="", tracks={TRACK: settings}), registry)
    cache = BuildCache(registry, Store(tmp_path), torch.device("cpu"), 16)
    records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    query = ResultQuery(cache.store, records)
    first = query("SELECT name FROM gallery ORDER BY position")["name"].tolist()
    for step in ("reconstruct", "leakage", "guess", "recognise"):
        assert query(f"SELECT name FROM {step}")["name"].tolist() == first
    assert len(query("SELECT name FROM train")["name"]) > len(first)


def test_defenses_are_ranked_within_a_threat_model(tmp_path: Path) -> None:
    lenet = "harness/lenet[channels=16,activation=relu]"
    select = {
        "dataset": ["thumbnails[size=16,per_photograph=1]"],
        "model": ["untrained", lenet],
        "metric": ["psnr"],
        "attack": [
            "invgrad[steps=8]",
            "invgrad-prior[steps=8]",
            "federated[images=2,steps=8]",
            "imprint[images=2]",
        ],
        "defense": ["plain-gradient", "gaussian-gradient", "mixup"],
    }
    narrow = {"harness/federated": ["harness/untrained"], "harness/imprint": ["harness/untrained"]}
    options = {"epochs": 1, "judge": lenet, "narrow": narrow}
    profile = Profile(name="small", description="", tracks={TRACK: TrackProfile(select=select, options=options)})
    registry = installed()
    graph = plan_track(TRACK, profile, registry, limit=5)
    cache = BuildCache(registry, Store(tmp_path), torch.device("cpu"), 16)
    records = [run_task(cache, key, task.spec, lambda done, total: None) for key, task in graph.tasks.items()]
    assert [record.failure for record in records if record.failure] == []
    query = ResultQuery(cache.store, records, known_entries(cache.store).facts(records))
    rows = query("SELECT DISTINCT attack, defense, threat, shared FROM reconstruct ORDER BY ALL")
    threat_rows = [row[1:] for row in zip(*rows.values(), strict=True) if "invgrad" not in row[0]]
    honest, malicious = "honest but curious", "malicious"
    plain, noisy = "harness/plain-gradient", "harness/gaussian-gradient"
    pair = "mean gradient of 2 images"
    assert threat_rows == [(d, threat, pair) for threat in (honest, malicious) for d in (noisy, plain)]
    shares = query(
        f"SELECT attack, name, source FROM reconstruct WHERE defense = '{plain}' AND model = 'harness/untrained'"
    )
    of_attack = {attack: shares["attack"] == attack for attack in set(shares["attack"])}
    for attack, here in of_attack.items():
        first, second, third, fourth, last = (shares["name"][here]).tolist()
        of_two = [first, first, third, third, last]  # what shares an update counts once
        names = [first, second, third, fourth, last] if "invgrad" in attack else of_two
        sources = dict(zip(shares["name"][here], shares["source"][here], strict=True))
        assert shares["source"][here].tolist() == [sources[name] for name in names]
        assert len(set(sources.values())) == len(set(names))
    tables_report = report(query)
    assert [ranking.table for ranking in tables_report.rankings] == [
        "ranking",
        "ranking-honest-but-curious-mean-gradient-of-2-images",
        "ranking-honest-but-curious-other-images-known-gradient-of-1-image",
        "ranking-malicious-mean-gradient-of-2-images",
    ]
    settings = {c.id: {(s["threat"], s["shared"]) for s in c.conditions} for c in tables_report.comparisons[:1]}
    assert settings == {"protection-wins": {(honest, "gradient of 1 image")}}
    clusters = {c.table: c.cluster_unit for c in tables_report.comparisons if c.table.startswith("ranking")}
    assert clusters == {
        ranking.table: "participant" if ranking.table.endswith("of-2-images") else "photograph"
        for ranking in tables_report.rankings
    }
    counted = {c.cluster_unit: len(set(c.clusters[0])) for c in tables_report.comparisons if c.clusters}
    assert counted == {"photograph": 5, "participant": 3}
    (beside,) = (table for table in tables_report.tables if table.id == "by-threat")
    assert [column.key for column in beside.columns] == [
        f"{honest}: gradient of 1 image",
        f"{honest}: {pair}",
        f"{honest}, other images known: gradient of 1 image",
        f"{malicious}: {pair}",
    ]
    letters = [column.description.partition(" Threat models of the SoK: ")[2] for column in beside.columns]
    assert letters == ["B.", "B.", "D.", "G."]
    captions = {table.id: table.caption for table in tables_report.tables if table.id.startswith("ranking")}
    rest = " of 2 images. The last participant had what was left, 1."
    assert [rest in caption for caption in captions.values()] == [ending.endswith("2-images") for ending in captions]
    of_imprint = "attack LIKE '%imprint%' AND defense LIKE '%plain%'"
    scores = query(f"SELECT min(score) AS least, count(*) AS n FROM leakage WHERE {of_imprint}")
    assert scores["n"].tolist() == [5]  # two participants of two images, and one of what is left
    assert scores["least"][0] > 40


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
