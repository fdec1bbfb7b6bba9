"""The photographs and digits that ship: independent units, disjoint splits for training and testing, and licences."""

import numpy as np
import pytest
import torch

from imharness.components.registry import installed
from imharness.reading.credits import credits
from imharness_embedded.photographs import TEXTURES, TRAIN, TRAINING_PICTURES

CPU = torch.device("cpu")
FREE = {"public domain", "CC0-1.0", "CC-BY-2.0", "CC-BY-4.0", "released for unrestricted use"}
UNCLAIMED = "no known copyright restrictions"


def test_each_of_36_photographs_gives_one_image_of_every_severity_and_distortion() -> None:
    data = installed().one("dataset", "pictures[size=72]").build(CPU)
    assert data.load(list(range(36))).shape == (36, 3, 72, 72)
    assert len(set(data.columns["photograph"].tolist())) == len(data) == 36
    assert np.unique(data.columns["mos"], return_counts=True)[1].tolist() == [9, 9, 9, 9]
    pairs = set(zip(data.columns["family"].tolist(), data.columns["severity"].tolist(), strict=True))
    assert len(pairs) == 1 + 4 * 3  # undistorted, and four families at three severities


def test_graded_pictures_are_those_of_before_and_then_every_other_severity_of_each() -> None:
    data, graded = (
        installed().one("dataset", f"pictures[{field}size=72]").build(CPU) for field in ("", "graded=true,")
    )
    assert graded.names[:36] == data.names
    assert torch.equal(graded.load(list(range(36))), data.load(list(range(36))))
    severities = graded.columns["severity"].reshape(4, 36)
    assert {tuple(sorted(column)) for column in severities.T.tolist()} == {(0, 1, 3, 5)}
    assert len(set(graded.names)) == len(graded) == 144


@pytest.mark.parametrize("size", [16, 176, 256])
def test_a_photograph_is_large_enough_for_every_crop(size: int) -> None:
    assert installed().one("dataset", f"pictures[size={size}]").build(CPU).load([35]).shape == (1, 3, size, size)


def test_photographs_that_are_shown_are_free_and_none_was_trained_on() -> None:
    by_name = {one.name: one for one in credits()}
    trained = {name for one in credits() for name in one.trained_on}
    for one in by_name.values():
        if {"harness/pictures", "harness/thumbnails"} & set(one.used_by) and not one.trained_on:
            assert one.licence in FREE | {UNCLAIMED}, one.name
        if "harness/pictures" in one.used_by:
            assert one.name not in trained
            assert one.licence in FREE


def test_photographs_that_weights_were_trained_on_are_free_and_are_those_of_the_training_split() -> None:
    by_name = {one.name: one for one in credits()}
    ladder = {name for one in by_name.values() for name in one.trained_on if "harness/lpips" in one.used_by}
    assert ladder == {*TRAIN, *TEXTURES}
    for name in {name for one in by_name.values() for name in one.trained_on}:
        assert by_name[name].licence in FREE | {UNCLAIMED}, name
    assert {path.stem for path in TRAINING_PICTURES.glob("*.jpg")} <= {*TRAIN, *TEXTURES}


@pytest.mark.parametrize("name", ["severity-ladder", "distorted-pairs", "crossed-pairs", "pictures", "thumbnails"])
def test_photographs_that_ship_for_training_are_in_no_test_split(name: str) -> None:
    columns = installed().one("dataset", f"{name}[size=32]").build(CPU).columns
    photographs = set(columns["source" if name == "thumbnails" else "photograph"].tolist())
    alone = {path.stem for path in TRAINING_PICTURES.glob("*.jpg")}
    assert alone
    assert not alone & photographs


def test_every_family_of_distortions_is_once_on_each_of_36_photographs_and_no_choice_repeats_its_distortion() -> None:
    data = installed().one("dataset", "crossed-pairs[size=32]").build(CPU)
    photographs, families, choice = (data.columns[name] for name in ("photograph", "family", "choice"))
    assert len(data) == 36 * (1 + 2 * 4)
    tasks = list(zip(photographs[choice == 0].tolist(), families[choice == 0].tolist(), strict=True))
    assert len(set(tasks)) == len(tasks) == 36 * 4
    pixels = data.load(list(range(len(data)))).view(36, 9, -1)
    mild, strong = pixels[:, 1::2], pixels[:, 2::2]
    assert (mild != strong).any(dim=2).all()
    assert (pixels[:, 1:] != pixels[:, :1]).any(dim=2).all()
    assert data.proxy == "the order of strengths, not human judgements"


def test_choices_for_setting_strengths_are_on_other_photographs() -> None:
    seen, trained = (
        set(installed().one("dataset", f"crossed-pairs[size=32,split={s}]").build(CPU).columns["photograph"].tolist())
        for s in ("test", "train")
    )
    assert len(seen) == 36
    assert not seen & trained


def test_no_digit_is_trained_on_and_attacked_and_each_is_one_unit() -> None:
    test, train = (
        installed().one("dataset", f"digit-images[size=18{option}]").build(CPU) for option in ("", ",split=train")
    )
    assert (len(test), len(train)) == (300, 600)
    assert not set(test.names) & set(train.names)
    assert test.columns["source"].tolist() == list(test.names)
    assert np.unique(test.columns["label"][:24]).tolist() == list(range(10))
    rows = installed().one("dataset", "digits").build(CPU).features
    small = installed().one("dataset", "digit-images[size=8]").build(CPU).load([0, 299])
    grey = small[:, 0].flatten(1)
    assert torch.equal(small, small[:, :1].expand_as(small))
    assert (grey - rows[[1297, 1596]]).abs().max() <= 0.5 / 255 + 1e-6
