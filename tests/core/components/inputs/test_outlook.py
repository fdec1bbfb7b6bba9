"""The forecast of a dry run: rows, bytes and operations of each step, hours of a GPU, and the inputs to get.

Operations are those of the GPU of the forecast, which computes 20e12 (`RATE`) in a second. A network of which the time
was measured counts by that time: milliseconds for an image of 384x512 px, times 20e9 operations.
"""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from tests.standins import DATA

from imharness.cli import cli
from imharness.cli.planning import RATE, outlook, say_outlook, waiting_for
from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import installed
from imharness.data import ImageDataset, ImageSet, TableDataset
from imharness.images import Attack, AttackInfo, Budget, Perturb
from imharness.planning.plan import Graph, plan_track
from imharness.planning.profile import Profile, TrackProfile
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness.running.context import BuildCache, run_task
from imharness_iqa.workload import MEASURED, cost_of

SMALL = {  # for each track a selection that a test can compute
    "harness/iqa": TrackProfile(
        select={
            "dataset": ["severity-ladder[size=64,severities=[3],per_photograph=1]"],
            "metric": ["embedded-cnn"],
            "attack": ["ifgsm[iterations=1]", "uap[epochs=1,tile=32]"],
            "defense": ["none", "flip", "rs[samples=4,selection=2]"],
        },
        options={
            "strengths": ["weak"],
            "transfer": ["*"],
            "certified_images": 2,
            "samples": 1,
            "fit_images": 4,
            "fit_dataset": "severity-ladder[size=64,severities=[3],split=train]",
        },
    ),
    "harness/membership": TrackProfile(
        select={
            "dataset": ["digits"],
            "model": ["mlp[hidden=[4]]"],
            "evaluator": ["confidence", "rmia"],
            "defense": ["plain-training", "l2", "masking"],
        },
        options={"splits": 1, "epochs": 1, "part": 20, "references": 3, "sensitivity_rows": 2},
    ),
    "harness/perceptual": TrackProfile(
        select={"dataset": ["severity-ladder[size=64,severities=[3]]"], "metric": ["mse"], "attack": ["ifgsm"]},
        options={"attacked_images": 2, "radii": [1]},
    ),
    "harness/reconstruction": TrackProfile(
        select={
            "dataset": ["thumbnails[size=16]"],
            "model": ["untrained"],
            "metric": ["psnr"],
            "attack": ["invgrad[steps=8]"],
            "defense": ["plain-gradient"],
        },
        options={"epochs": 1, "judge": "harness/lenet", "shown_images": 2},
    ),
}


@pytest.mark.parametrize("track", sorted(SMALL))
def test_rows_are_foretold_as_the_steps_leave_them(track: str, tmp_path: Path) -> None:
    registry = installed()
    graph = plan_track(track, Profile(name="small", description="", tracks=SMALL), registry)
    cache = BuildCache(registry, Store(tmp_path), torch.device("cpu"), 16)
    whole = next(c for c in graph.components.values() if isinstance(c, ImageDataset | TableDataset))
    built = whole.build(torch.device("cpu"))
    units = len(built) if isinstance(built, ImageSet) else len(built.labels)
    for key, task in graph.tasks.items():
        record = run_task(cache, key, task.spec, lambda done, total: None)
        assert record.failure is None, record.failure
        row_count = 0 if not record.rows else len(next(iter(cache.store.rows(record).values())))
        workload = graph.track.workload(task.spec, units)
        assert workload is not None
        assert workload.rows == row_count, task.address
        assert workload.operations >= 0
        arrays = 0 if record.arrays is None else record.arrays.size
        assert arrays < 100_000 or workload.size > 0, "what leaves much is told"


def test_what_a_network_was_measured_at_counts_and_rounded_factors_are_faster() -> None:
    counted, measured = cost_of("nobody's", 100.0), cost_of("mprnet", 1.0)
    assert counted == (100, 300)  # 1e9 operations of a pass and of a gradient
    assert measured == pytest.approx((165.2 * 20, 702.5 * 20))
    assert cost_of("nobody's", 100.0, rounded=True) == pytest.approx((100 / 3, 100))
    for name in MEASURED:
        strict, rounded = cost_of(name, 1.0), cost_of(name, 1.0, rounded=True)
        assert all(fast < slow for fast, slow in zip(rounded, strict, strict=True))


def test_attacked_images_are_counted_in_bytes_and_an_entry_has_its_share() -> None:
    graph = narrow(
        "harness/iqa", dataset=["nips2017"], metric=["linearity"], attack=["ifgsm"], defense=["harness/flip"]
    )
    forecast = outlook(graph)
    attacks = sum(task.spec.step == "attack" for task in graph.tasks.values())
    pixels = 1000 * 3 * 384 * 512  # a byte for each value of 1000 images
    assert forecast.size > attacks * pixels
    entry_forecast = forecast.entries["harness/flip"]
    assert entry_forecast.tasks <= forecast.tasks
    assert 0 < entry_forecast.operations <= forecast.operations
    assert 0 < entry_forecast.size <= forecast.size


def narrow(track: str, **only: list[str]) -> Graph:
    return plan_track(track, load_profile("paper"), installed(), only=only, whole=True)


def test_a_gradient_attack_costs_its_passes() -> None:
    """I-FGSM: ten gradients, as long as they were measured; without an adversary that adapts, no defense in between."""
    graph = narrow(
        "harness/iqa", dataset=["nips2017"], metric=["linearity"], attack=["ifgsm"], defense=["harness/none"]
    )
    attacks = [task.spec for task in graph.tasks.values() if task.spec.step == "attack"]
    assert len(attacks) == 3
    workload = graph.track.workload(attacks[0], 1000)
    assert workload is not None
    assert workload.operations == pytest.approx(1000 * 10 * MEASURED["linearity"][1] * 20e9)
    assert 0.8 < workload.operations / (1000 * 10 * 3 * 128.6e9) < 1.2, "a gradient takes about as long as three passes"
    assert outlook(graph).hours == pytest.approx(outlook(graph).operations / RATE / 3600)


@pytest.mark.parametrize("attack", ["harness/dlg", "harness/idlg"])
def test_gradient_matching_has_its_authors_budget_one_evaluation_for_each_iteration(attack: str) -> None:
    """300 iterations of 20 evaluations, from three starts; a gradient of a gradient takes six passes."""
    graph = narrow(
        "harness/reconstruction",
        dataset=["harness/cifar100-images[images=600]"],
        model=["harness/resnet20"],
        attack=[attack],
        defense=["harness/plain-gradient"],
    )
    rebuilt = [task.spec for task in graph.tasks.values() if task.spec.step == "reconstruct"]
    assert rebuilt
    for spec in rebuilt:
        workload = graph.track.workload(spec, 10)
        assert workload is not None
        assert workload.operations == pytest.approx(10 * 300 * 20 * 3 * 6 * 0.08e9)


@pytest.mark.parametrize(("name", "giga"), [("linearity", 128.6), ("meta_iqa", 14.2), ("fcn", 4.5)])
def test_operations_of_networks_are_counted_on_their_architecture(name: str, giga: float) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    from imharness_iqa.metrics.linearity import LinearityNet
    from imharness_iqa.metrics.meta_iqa import MetaIqaNet
    from imharness_iqa.restorers import ColourFilter

    with torch.device("meta"):
        network = {"linearity": LinearityNet, "meta_iqa": MetaIqaNet, "fcn": ColourFilter}[name]().eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network(torch.empty(1, 3, 384, 512))
    assert counter.get_total_flops() / 1e9 == pytest.approx(giga, rel=0.01)


def test_published_settings_of_a_data_set_reach_its_tasks() -> None:
    graph = narrow("harness/membership", evaluator=["confidence"], defense=["plain-training", "advreg"])
    trained: dict[str, set[tuple[object, ...]]] = {}
    for task in graph.tasks.values():
        if task.spec.step == "train":
            options, weight = task.spec.options, task.spec.components["defense"].parameters.get("weight")
            facts = (options["part"], options["epochs"], options["optimiser"], options["learning_rate"], weight)
            facts += (options["shadow_part"], options["decay_after"]) if "decay_after" in options else ()
            trained.setdefault(task.spec.components["dataset"].label, set()).add(facts)
    assert trained["harness/location30"] >= {(1000, 200, "sgd", 0.01, 3.0, 500, 150)}
    assert trained["harness/purchase100"] >= {(19732, 100, "adam", 0.001, 3.0)}
    assert trained["harness/texas100"] >= {(10000, 100, "adam", 0.001, 10.0)}
    assert trained["harness/cifar100"] >= {(10000, 100, "adam", 0.001, 6.0)}
    assert trained["harness/cifar10"] >= {(10000, 100, "sgd", 0.1, None)}
    models = {
        task.spec.components["model"].id
        for task in graph.tasks.values()
        if task.spec.components["dataset"].label == "harness/cifar100"
    }
    networks = ("alexnet", "densenet-bc", "resnet18", "vgg19", "wrn")
    assert models == {f"harness/{name}" for name in networks}


def test_semsim_plans_fourteen_models_on_each_of_five_data_sets() -> None:
    graph = narrow("harness/reconstruction", attack=["invgrad"])
    trained = [task.spec for task in graph.tasks.values() if task.spec.step == "train"]
    by_set: dict[str, set[tuple[str, str]]] = {}
    for components in (spec.components for spec in trained):
        by_set.setdefault(components["dataset"].label, set()).add(
            (components["model"].label, components["defense"].label)
        )
    assert len(by_set) == 5
    assert {len(models) for models in by_set.values()} == {14}
    private = {
        name.partition("[")[0]: c.published_units()
        for c in graph.components.values()
        if isinstance(c, ImageDataset) and c.split == "test" and (name := c.label)
    }
    assert private == {
        "harness/cifar100-images": 600,
        "harness/caltech101": 700,
        "harness/imagenette": 100,
        "harness/celeba": 100,
        "harness/stanford-dogs": 100,
    }  # the numbers in section 4.1 of SemSim's paper
    assert [c.label for c in graph.components.values() if c.info.id == "harness/fid"] == ["harness/fid"]
    assert {task.spec.options["at_once"] for task in graph.tasks.values() if task.spec.step == "reconstruct"} == {20}


@pytest.mark.parametrize("name", ["cifar100-images", "caltech101", "imagenette", "celeba", "stanford-dogs"])
def test_a_number_of_private_images_cuts_no_training_part(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    whole, cut = (installed().one("dataset", f"{name}[images={n}]") for n in (0, 2))
    assert isinstance(whole, ImageDataset)
    (source,) = whole.data_sources()
    (tmp_path / source.name).mkdir()
    DATA[source.name](tmp_path / source.name)
    built = {
        split: [dataset.with_parameters(split=split).build(torch.device("cpu")) for dataset in (whole, cut)]
        for split in ("train", "test")
    }
    assert built["train"][0].names == built["train"][1].names
    assert built["test"][1].names == built["test"][0].names[:2]
    assert len(built["test"][0]) > 2


def test_lpips_is_planned_in_five_variants_on_three_backbones_and_by_k_means_on_one() -> None:
    graph = narrow("harness/perceptual", dataset=["bapps"])
    metrics = {task.spec.components["metric"].label for task in graph.tasks.values()}
    assert len([label for label in metrics if label.startswith("harness/lpips")]) == 16


def test_a_dry_run_says_size_hours_and_what_is_to_be_got(empty_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["run", "--track", "membership", "--profile", "paper", "--dry-run", "--store", str(empty_places / "s")]
    words += ["--evaluator", "confidence", "--defense", "plain-training", "--dataset", "location30"]
    words += ["--dataset", "texas100", "--device", "cpu"]
    facts = json.loads(CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False).output)
    assert facts["tasks"] == []
    (track_forecast,) = facts["outlook"]["tracks"]
    graph = narrow(
        "harness/membership", evaluator=["confidence"], defense=["plain-training"], dataset=["location30", "texas100"]
    )
    assert track_forecast["tasks"] == track_forecast["counted"] == len(graph.tasks)
    assert track_forecast["gpu_hours"] > 0
    assert "as an H100 did" in facts["outlook"]["rate"]
    inputs = {item["name"]: item for item in facts["outlook"]["inputs"]}
    assert set(inputs) == {"location30", "texas100"}
    assert inputs["location30"]["how"] == "harness assets get location30"
    assert sum(item["tasks"] for item in inputs.values()) == len(graph.tasks)
    (empty_places / "shelf" / "location30").mkdir(parents=True)
    DATA["location30"](empty_places / "shelf" / "location30")
    text = CliRunner().invoke(cli, words, catch_exceptions=False).output
    for fragment in ("If nothing were missing", "To download", "texas100", "sizes are not published"):
        assert fragment in text
    assert "get location30" not in text
    assert text.startswith(f"profile paper costs {len(graph.tasks):,} tasks, ")
    assert "of a GPU at 20 TFLOP/s" in text.splitlines()[0]
    assert "hours for all, on one" in text


def test_hours_of_which_some_are_not_known_are_not_said_to_be_all(capsys: pytest.CaptureFixture[str]) -> None:
    track = {"track": "t", "tasks": 3, "counted": 2, "rows": 5, "gpu_hours": 2.5, "bytes": 100, "entries": []}
    empty = {"inputs": [], "to_install": {}, "weights_to_train": []}
    say_outlook({"rate": "much", "tracks": [track], **empty}, "p")
    assert "GPU: 2.5 hours for all tasks whose rows are known, on one" in capsys.readouterr().out


def test_a_dry_run_plans_once_where_no_size_is_known_before_the_data_are_read(
    empty_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[bool] = []
    monkeypatch.setattr(
        "imharness.running.session.plan_track",
        lambda *arguments, whole=False, **named: planned.append(whole) or plan_track(*arguments, whole=whole, **named),
    )
    words = ["run", "--track", "reconstruction", "--profile", "embedded", "--dry-run", "--device", "cpu"]
    words += ["--store", str(empty_places / "s")]
    text = CliRunner().invoke(cli, words, catch_exceptions=False).output
    assert planned == [False]
    assert text.startswith("profile embedded costs ")
    assert "Unavailable" in text
    assert "If nothing were missing" not in text


def test_a_task_waits_for_what_those_need_that_it_depends_on() -> None:
    """Attacked images need the attack cadv, and every later step needs attacked images."""
    graph = narrow("harness/iqa", dataset=["nips2017"], metric=["spaq"], attack=["cadv"], defense=["harness/none"])
    cadv = [c for c in graph.components.values() if c.info.id == "harness/cadv"]
    (count,) = waiting_for(graph, [cadv])
    steps = graph.by_step()
    assert count == steps["attack"] + steps["evaluate"] + steps.get("inside", 0) + steps.get("gallery", 0)


class Wordy(Attack):
    """An attack without the fields from which the harness counts the passes of its own attacks."""

    info = AttackInfo(id="stranger/wordy", version="1", access="white_box", norm="linf", strengths={"medium": {}})

    def budget(self) -> Budget:
        return Budget(radius=4 / 255)

    def build(self, device: torch.device) -> Perturb:
        return lambda images, target, rng: images


class Endless(Wordy):
    """An attack whose `queries` is a text and whose `steps` is no whole number."""

    info = AttackInfo(id="stranger/endless", version="1", access="black_box", norm="linf", strengths={"medium": {}})
    queries: str = "as many as I like"
    steps: float = 0.5


@pytest.mark.parametrize("attack", [Wordy(), Endless()])
def test_an_attack_with_fields_of_its_own_is_not_counted_and_stops_no_plan(attack: Attack) -> None:
    registry = installed().joined([Registered(attack, "stranger", Provenance("stranger", "1"))])
    track_profile = TrackProfile(
        select={
            "dataset": ["nips2017"],
            "metric": ["linearity"],
            "attack": [attack.info.id, "harness/ifgsm"],
            "defense": ["harness/none"],
        },
        options={"strengths": ["medium"]},
    )
    graph = plan_track(
        "harness/iqa",
        Profile(name="small", description="", tracks={"harness/iqa": track_profile}),
        registry,
        whole=True,
    )
    forecast = outlook(graph)
    assert 0 < forecast.counted < forecast.tasks, "those of I-FGSM are"
    assert forecast.operations > 0
