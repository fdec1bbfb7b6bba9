"""A calibrated attack lands on its target, on images it was not calibrated on; interpolation by hand."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from imharness.cli import cli
from imharness.cli.commands import context
from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.planning.profiles import load_profile
from imharness_iqa.calibrating import chosen_on
from imharness_iqa.calibration import (
    TARGETS,
    at,
    calibrated,
    crossing,
    located,
    published,
    read_presets,
    values,
    write_presets,
)
from imharness_iqa.disjoint import photographs_of, training_split
from imharness_iqa.distortion import meter

LADDER = "severity-ladder[severities=[2],size=64,split={}]"
"""A data set of distorted photographs, whose splits "train" and "test" share no photograph."""


def test_a_crossing_is_on_the_line_between_two_points() -> None:
    assert crossing([(1, 40), (2, 36), (4, 30), (8, 20)], 33) == pytest.approx(3)
    assert crossing([(1, 0.1), (3, 0.5)], 0.2) == pytest.approx(1.5)
    assert crossing([(1, 40), (2, 36)], 10) == 2
    assert crossing([(1, float("inf")), (2, 33), (4, 29)], 35) == 2
    assert crossing([(1, float("inf")), (2, 33), (4, 29)], 31) == pytest.approx(3)
    attack = installed().one("attack", "ifgsm")
    flat = calibrated(attack, lambda at: 3 / 255, "m")
    assert list(flat.unreached) == ["weak", "medium", "strong"]


def test_values_that_change_no_image_have_no_distortion_to_interpolate() -> None:
    attack = installed().one("attack", "patch-rs")
    first = sorted(values(attack))[2]
    preset = calibrated(attack, lambda at: float("inf") if at.area < first else 34 - (at.area - first) / first, "m")
    assert preset.strengths["weak"] == first
    assert list(preset.unreached) == ["weak"]
    none = calibrated(attack, lambda at: float("inf"), "m")
    assert list(none.unreached) == ["weak", "medium", "strong"]


def test_ten_values_enclose_the_declared_strengths() -> None:
    registry = installed()
    for name in ("ifgsm", "patch-rs", "cadv", "parsimonious"):
        attack = registry.one("attack", name)
        tried = values(attack)
        field = next(iter(attack.info.strengths["weak"]))
        declared = [attack.info.strengths[s][field] for s in ("weak", "medium", "strong")]
        assert 5 <= len(tried) <= 10
        assert min(tried) < min(declared) < max(declared) <= max(tried)


@pytest.mark.parametrize("name", ["ifgsm", "ssah", "facpa[width=4,depth=3,epochs=4]", "parsimonious[queries=20]"])
def test_a_calibrated_attack_lands_within_ten_percent_on_held_out_images(name: str) -> None:
    registry = installed()
    attack, metric = registry.one("attack", name), registry.one("metric", "embedded-cnn")
    train, test = (registry.one("dataset", LADDER.format(split)) for split in ("train", "test"))
    preset = calibrated(attack, meter(attack, metric, train, images=4), metric.info.id)
    measure = meter(attack, metric, test, images=4)
    for strength, target in TARGETS[attack.info.distortion].items():
        calibrated_attack = at(attack, metric.info.id, strength, {(attack.info.id, metric.info.id): preset})
        assert measure(calibrated_attack) == pytest.approx(target, rel=0.1), strength


def test_presets_are_kept_and_replaced_and_other_files_are_refused(tmp_path) -> None:
    path = tmp_path / "presets.json"
    presets = list(published().values())
    write_presets(path, presets[:2])
    write_presets(path, [presets[1].model_copy(update={"images": 7}), presets[2]])
    assert [p.images for p in read_presets(path)] == [0, 7, 0]
    unchanged = presets[0].model_copy(update={"measured": ((1.0, float("inf")), (2.0, 33.0))})
    write_presets(path, [unchanged])
    [preset] = [p for p in read_presets(path) if p.attack == unchanged.attack and p.metric == unchanged.metric]
    assert [tuple(pair) for pair in preset.measured] == [(1.0, float("inf")), (2.0, 33.0)]
    path.write_text(json.dumps([{"attack": "x"}]))
    with pytest.raises(UsageError, match=r"presets\.json is not a file of presets"):
        read_presets(path)


def test_shipped_strengths_are_of_the_measure_and_the_targets_that_their_attack_declares() -> None:
    registry = installed()
    for preset in (*published().values(), *read_presets(located("embedded")), *read_presets(located("kodak"))):
        attack, metric, component = preset.attack, preset.metric, registry.one("attack", preset.attack)
        assert preset.distortion == component.info.distortion, (attack, metric)
        for strength, value in preset.strengths.items():
            if strength not in preset.unreached and preset.measured:
                measured = dict(sorted(map(tuple, preset.measured)))
                interpolated = np.interp(value, [*measured], [*measured.values()])
                target = TARGETS[preset.distortion][strength]
                assert abs(interpolated - target) <= 0.05 * abs(target), (attack, metric, strength)


def test_strengths_of_the_embedded_profile_were_chosen_on_the_other_split_at_the_size_it_tests() -> None:
    [tested] = load_profile("embedded").tracks["harness/iqa"].select["dataset"]
    registry, presets = installed(), read_presets(located("embedded"))
    dataset = registry.one("dataset", tested)
    photographs = set(dataset.build(torch.device("cpu")).columns["photograph"])
    assert presets
    for label in {preset.data for preset in presets}:
        chosen = registry.one("dataset", label)
        assert (chosen.split, chosen.size) == ("train", dataset.size)
        assert not set(chosen.build(torch.device("cpu")).columns["photograph"]) & photographs


def test_the_study_of_small_crops_has_strengths_for_their_size() -> None:
    [track] = load_profile("kodak").tracks.values()
    presets = {(p.attack, p.metric): p for p in read_presets(located(track.options["presets"]))}
    share = {name: installed().one("attack", name) for name in ("one-pixel", "patch-rs")}
    for metric in track.select["metric"]:
        changed = {name: at(attack, f"harness/{metric}", "medium", presets) for name, attack in share.items()}
        assert changed["one-pixel"].pixels < 0.01 * 96**2
        assert changed["patch-rs"].area < 0.01 * 96**2


def test_values_beyond_the_ten_are_tried_while_a_target_is_out_of_reach() -> None:
    attack = installed().one("attack", "ifgsm")
    mild = calibrated(attack, lambda at: at.alpha, "m")
    assert len(mild.measured) == 11
    assert not mild.unreached
    assert mild.strengths == pytest.approx({"weak": 2 / 255, "medium": 4 / 255, "strong": 8 / 255})
    feeble = calibrated(attack, lambda at: at.alpha / 1000, "m")
    assert max(value for value, _ in feeble.measured) <= 1
    assert list(feeble.unreached) == ["weak", "medium", "strong"]


def test_published_strengths_fit_the_attacks_and_are_taken_for_the_published_metrics() -> None:
    registry = installed()
    for (attack, metric), preset in published().items():
        component = registry.one("attack", attack)
        registry.one("metric", metric)
        for strength in preset.strengths:
            assert getattr(at(component, metric, strength, published()), preset.field) == preset.strengths[strength]
    spaq = at(registry.one("attack", "ifgsm"), "harness/spaq", "strong", published())
    assert spaq.alpha == pytest.approx(0.00326284)
    assert at(registry.one("attack", "ifgsm"), "harness/cnniqa", "strong", published()).alpha == pytest.approx(8 / 2550)


def test_the_meter_measures_what_the_attack_declares() -> None:
    registry = installed()
    attack, metric = registry.one("attack", "ifgsm[alpha=0.01]"), registry.one("metric", "embedded-cnn")
    data = registry.one("dataset", LADDER.format("test"))
    images = data.build(torch.device("cpu"))
    assert len(images) == 45
    assert np.isclose(meter(attack, metric, data, images=4)(attack), 10 / 255, rtol=0.05)


def test_strengths_are_not_chosen_on_photographs_that_are_tested() -> None:
    registry = installed()
    attack, metric = registry.one("attack", "ifgsm[alpha=0.01]"), registry.one("metric", "embedded-cnn")
    whole = registry.one("dataset", LADDER.format("test"))
    assert training_split(whole).label == registry.one("dataset", LADDER.format("train")).label
    without = registry.one("dataset", "agiqa-3k")
    assert training_split(without) is without
    with pytest.raises(UsageError, match="every image of the data set that calibration_dataset names is among"):
        meter(attack, metric, whole, images=4, tested=[whole])
    train = training_split(whole)
    run = context({"dataset": train, "tested.0": whole}, device="cpu")
    chosen = chosen_on(run, 12)
    assert len(set(photographs_of(chosen))) == 12
    assert not set(photographs_of(chosen)) & set(photographs_of(run.images("tested.0")))


def test_the_command_writes_presets_and_says_what_no_value_reaches(tmp_path) -> None:
    def harness(*words: str) -> Result:
        return CliRunner().invoke(cli, ["iqa", "calibrate", *words, "--out", str(tmp_path / "presets.json")])

    words = ("--attack", "ifgsm", "--attack", "cadv[backbone=embedded,iterations=1]")
    words += ("--metric", "embedded-cnn", "--images", "2")
    done = harness(*words, "--dataset", "harness/severity-ladder[severities=[2],size=48,split=train]")
    assert done.exit_code == 0, done.output
    presets = {p.attack: p for p in read_presets(tmp_path / "presets.json")}
    assert not presets["harness/ifgsm"].unreached
    assert presets["harness/ifgsm"].images == 2
    marked = presets["harness/cadv"].unreached
    assert marked
    assert "comes nearest" in done.output
    wrong = harness("--attack", "ifgs", "--metric", "embedded-cnn")
    assert isinstance(wrong.exception, UsageError)
    assert "Did you mean" in str(wrong.exception)


def test_no_preset_says_more_images_than_were_measured() -> None:
    components = [installed().one(*query) for query in (("attack", "ifgsm"), ("metric", "embedded-cnn"))]
    data = installed().one("dataset", "harness/severity-ladder[severities=[2],size=32,split=train]")
    with pytest.raises(UsageError, match="has 60 images besides the tested ones"):
        meter(*components, data, images=61)
